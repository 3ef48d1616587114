"""One directory of `log.dirs`: its path and whether it still works.

A directory whose device fails goes offline alone: every later use raises `KafkaStorageError` and touches nothing,
until a restart. Called by `log` and `log_manager`.
"""

from __future__ import annotations

import errno
import logging
from typing import NoReturn

from ottla.errors import KafkaStorageError

log = logging.getLogger(__name__)


class LogDir:
    __slots__ = ("failure", "path")

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/") or "/"
        self.failure: str | None = None
        """What went wrong, once something has."""

    @property
    def is_offline(self) -> bool:
        return self.failure is not None

    def check_online(self) -> None:
        if self.failure is not None:
            raise KafkaStorageError(
                f"The log dir {self.path} is already offline due to a previous error: {self.failure}"
            )

    def take_offline(self, doing: str, error: OSError) -> None:
        """Take the directory offline because of `error`, unless that says nothing of the directory."""
        if error.errno in (errno.EMFILE, errno.ENFILE):
            # Too many are open elsewhere, such as connections. What was asked for has failed, and may be tried again.
            log.error("[LogDir %s] No descriptor is left: error while %s: %s", self.path, doing, error)
        elif self.failure is None:
            self.failure = f"{doing}: {error}"
            log.error(
                "[LogDir %s] Stopping to serve logs in dir %s: error while %s", self.path, self.path, self.failure
            )

    def fail(self, doing: str, error: OSError) -> NoReturn:
        """Take the directory offline because of `error` and raise what the caller's caller is told."""
        self.take_offline(doing, error)
        raise KafkaStorageError(f"Error while {doing} in dir {self.path}: {error}") from error

"""A file's name, and what a log directory's names say: the base offset, and which files belong together.

Paths are spelled as Java's `File` spells them, since they are part of what is printed.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ottla.storage.names import INDEX, LOG

_SLASHES = re.compile("//+")
_OFFSET_MAX = 2**63 - 1


class CannotDump(Exception):
    """The file cannot be dumped as it lies there; the message says why."""


@dataclass(frozen=True, slots=True)
class FileName:
    """The path that was given, without surplus slashes."""

    path: str

    @classmethod
    def of(cls, path: str) -> FileName:
        path = _SLASHES.sub("/", path)
        return cls(path.rstrip("/") or "/" if path else path)

    @property
    def base(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def absolute(self) -> str:
        return self.path if self.path.startswith("/") else f"{os.getcwd()}/{self.path}"

    @property
    def suffix(self) -> str:
        """From the last dot on; empty without one."""
        _, dot, suffix = self.base.rpartition(".")
        return dot + suffix if dot else ""

    @property
    def base_offset(self) -> int:
        """The offset that the name begins with; `CannotDump` when it does not."""
        digits = self.base.partition(".")[0]
        if digits.isascii() and digits.isdigit() and int(digits) <= _OFFSET_MAX:
            return int(digits)
        raise CannotDump(f"the name does not begin with a base offset, as 00000000000000000000{self.suffix} does")

    @property
    def log_path(self) -> str:
        """The segment that an index belongs to."""
        return self._sibling(LOG)

    @property
    def index_path(self) -> str:
        """The offset index that a time index belongs to."""
        return self._sibling(INDEX)

    def _sibling(self, suffix: str) -> str:
        directory, slash, base = self.path.rpartition("/")
        return f"{directory}{slash}{base.partition('.')[0]}{suffix}"

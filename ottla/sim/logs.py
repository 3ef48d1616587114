"""The log lines of a run: those that call for somebody are findings, unless something was broken on purpose.

Lines of a dying node are left out: its coroutines are ended by force, and what they say then, no real process would.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType

LOGGER = "ottla"


class LogCapture(logging.Handler):
    """Gets every line of WARNING and above that the node and the clients write while it is installed."""

    def __init__(self, trace: Callable[[str], None], on_error: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._trace = trace
        self._on_error = on_error
        self._before: tuple[int, bool, list[logging.Handler]] = (logging.NOTSET, True, [])
        self.is_muted = False
        self.line_count = 0

    def __enter__(self) -> LogCapture:
        logger = logging.getLogger(LOGGER)
        self._before = (logger.level, logger.propagate, logger.handlers[:])
        logger.setLevel(logging.WARNING)
        logger.propagate = False
        logger.handlers[:] = [self]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        logger = logging.getLogger(LOGGER)
        logger.level, logger.propagate, logger.handlers[:] = self._before
        logger.setLevel(self._before[0])

    def emit(self, record: logging.LogRecord) -> None:
        if self.is_muted:
            return
        self.line_count += 1
        line = f"{record.levelname} {record.name} {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            line = f"{line}\n{logging.Formatter().formatException(record.exc_info)}"
        self._trace(line.splitlines()[0])
        if record.levelno >= logging.ERROR:
            self._on_error(line)

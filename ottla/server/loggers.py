"""The loggers of this process as a resource with settings: what DescribeConfigs and IncrementalAlterConfigs call
`broker-loggers` (KIP-412).

Promises: a change that is refused changes nothing; levels have Kafka's names. Changes last until the process ends.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from ottla.errors import InvalidConfig, InvalidRequest

ROOT = "root"
SET, DELETE, APPEND, SUBTRACT = range(4)
OPERATIONS = ("SET", "DELETE", "APPEND", "SUBTRACT")

TRACE = 5
LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}
_NAMES = {level: name for name, level in LEVELS.items()}


class LoggerChange(NamedTuple):
    """One change of one logger's level."""

    name: str
    operation: int
    value: str | None


def levels() -> dict[str, str]:
    """The level in effect of each logger that exists, by name, the root first."""
    names = sorted(name for name, found in logging.root.manager.loggerDict.items() if isinstance(found, logging.Logger))
    return {
        ROOT: _name(logging.root.getEffectiveLevel()),
        **{name: _name(logging.getLogger(name).getEffectiveLevel()) for name in names},
    }


def change(changes: Sequence[LoggerChange], *, validate_only: bool) -> None:
    """Set levels, or give them back to the logger above."""
    known = levels()
    for name, operation, value in changes:
        if operation not in range(len(OPERATIONS)):
            raise InvalidRequest(f"Unknown operation type {operation} is not allowed for the BROKER_LOGGER resource")
        if operation in (APPEND, SUBTRACT):
            raise InvalidRequest(f"{OPERATIONS[operation]} operation is not allowed for the BROKER_LOGGER resource")
        if name not in known:
            raise InvalidConfig(f"Logger {name} does not exist!")
        if operation == DELETE and name == ROOT:
            raise InvalidRequest("Removing the log level of the root logger is not allowed")
        if operation == SET and value not in LEVELS:
            raise InvalidConfig(
                f"Cannot set the log level of {name} to {value} as it is not a supported log level. "
                f"Valid log levels are {', '.join(LEVELS)}"
            )
    if not validate_only:
        for name, operation, value in changes:
            logger = logging.root if name == ROOT else logging.getLogger(name)
            logger.setLevel(logging.NOTSET if operation == DELETE else LEVELS[value or ""])


def _name(level: int) -> str:
    """The nearest of Kafka's names that shows at least as much."""
    return _NAMES[max((known for known in _NAMES if known <= level), default=TRACE)]

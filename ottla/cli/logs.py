"""Logging of a node: Kafka's line form for people, or one JSON object a line for machines.

Loggers are named after modules; operators know subjects, so lines also carry a Kafka-like logger name: everything of
the controller and raft is `kafka.controller`, changes of leadership `state.change.logger`, the rest `kafka.server`.
"""

from __future__ import annotations

import json
import logging
import sys
import time

LEVELS = {"TRACE": logging.DEBUG, "DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING,
          "ERROR": logging.ERROR, "FATAL": logging.CRITICAL}  # fmt: skip
_NAMES = {"WARNING": "WARN", "CRITICAL": "FATAL"}
_SUBJECTS = (
    ("ottla.metadata.controller", "kafka.controller"),
    ("ottla.raft", "kafka.controller"),
    ("ottla.machine", "kafka.controller"),
    ("ottla.replica.state_change", "state.change.logger"),
    ("ottla.storage", "kafka.log"),
    ("ottla.server", "kafka.server"),
)


def set_up_logging(level: str, *, as_json: bool = False) -> None:
    """Send all log lines to standard error, from `level` on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonForm() if as_json else _KafkaForm())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level.upper()])


def subject_of(logger: str) -> str:
    for prefix, subject in _SUBJECTS:
        if logger.startswith(prefix):
            return subject
    return "kafka.server"


class _KafkaForm(logging.Formatter):
    """`[2026-11-15 22:00:00,123] INFO [Partition t-0] text (kafka.log)`"""

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        level = _NAMES.get(record.levelname, record.levelname)
        text = f"[{when},{int(record.msecs):03d}] {level} {record.getMessage()} ({subject_of(record.name)})"
        return text if record.exc_info is None else f"{text}\n{self.formatException(record.exc_info)}"


class _JsonForm(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": _NAMES.get(record.levelname, record.levelname),
            "subject": subject_of(record.name),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info is not None:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)

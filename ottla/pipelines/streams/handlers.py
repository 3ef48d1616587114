"""What a topology does with a record that it cannot read or cannot write: Kafka Streams' exception handlers.

    topology.start(spark, bootstrap, checkpoint=..., config={
        "deserialization.exception.handler": "LogAndContinueExceptionHandler",
        "errors.dead.letter.queue.topic.name": "dead-letters",
    })

The names are Kafka Streams', as text: a class with or without its package. By default the first such record fails the
query, and `RecordError` names it. Plain Python: `compiler.checks` makes Spark's expressions of it, `running` and
`driver` take the settings.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.pipelines.errors import PipelineError

DESERIALIZATION = "deserialization.exception.handler"
PRODUCTION = "production.exception.handler"
PROCESSING = "processing.exception.handler"
DEAD_LETTERS = "errors.dead.letter.queue.topic.name"
REQUEST_SIZE_MAX = 1024 * 1024
"""Kafka's default of `max.request.size`."""
PACKAGE = "org.apache.kafka.streams.errors."


class RecordError(PipelineError):
    """A record that a topology cannot read or cannot write, and why."""


class Response(enum.Enum):
    """What a handler answers."""

    FAIL = "fail"
    CONTINUE = "continue"


HANDLERS = {
    DESERIALIZATION: {
        "LogAndFailExceptionHandler": Response.FAIL,
        "LogAndContinueExceptionHandler": Response.CONTINUE,
    },
    PRODUCTION: {
        "DefaultProductionExceptionHandler": Response.FAIL,
        "LogAndContinueProductionExceptionHandler": Response.CONTINUE,  # Kafka has the interface, and no such class
    },
    PROCESSING: {"LogAndFailProcessingExceptionHandler": Response.FAIL},
}
"""The handlers that there are, by setting; the first of each is the default."""


@dataclass(frozen=True, slots=True)
class ErrorHandling:
    """The handlers of one run."""

    deserialization: Response = Response.FAIL
    production: Response = Response.FAIL
    dead_letter_topic: str | None = None
    request_size_max: int = REQUEST_SIZE_MAX
    """The producer's `max.request.size`: a larger record cannot be written."""

    @classmethod
    def of(cls, config: Mapping[str, str] | None, *, request_size_max: int = REQUEST_SIZE_MAX) -> ErrorHandling:
        """The handlers that settings name."""
        given = dict(config or {})
        responses = {setting: _response(setting, given.pop(setting, None)) for setting in HANDLERS}
        topic = given.pop(DEAD_LETTERS, None)
        if given:
            known = ", ".join([*HANDLERS, DEAD_LETTERS])
            raise PipelineError(f"config has no setting {', '.join(sorted(given))}: it takes {known}")
        return cls(responses[DESERIALIZATION], responses[PRODUCTION], topic, request_size_max)

    def writes_dead_letters(self) -> bool:
        """Whether a record can reach the dead-letter topic: where a handler fails, the transaction is aborted."""
        return self.dead_letter_topic is not None and Response.CONTINUE in (self.deserialization, self.production)

    def production_dead_letters(self) -> bool:
        """Whether a record that cannot be written becomes a dead letter."""
        return self.dead_letter_topic is not None and self.production is Response.CONTINUE


def _response(setting: str, name: str | None) -> Response:
    handlers = HANDLERS[setting]
    if name is None:
        return next(iter(handlers.values()))
    found = handlers.get(name.removeprefix(PACKAGE))
    if found is None:
        hint = ""
        if setting == PROCESSING:
            hint = "; a Python function that is to go on after an error catches it itself"
        raise PipelineError(f"{setting} is one of {', '.join(handlers)}, not {name!r}{hint}")
    return found


FAILED = {
    DESERIALIZATION: ("Deserialization failed", "LogAndContinueExceptionHandler"),
    PRODUCTION: ("Production failed", "LogAndContinueProductionExceptionHandler"),
}
"""How an error begins, and the handler that goes on."""
EXTRACTION_FAILED = "Timestamp extraction failed"
"""How the error of a record without a time begins."""
_BEGINNINGS = "|".join([*(beginning for beginning, _ in FAILED.values()), EXTRACTION_FAILED])
_RAISED = re.compile(rf"\[USER_RAISED_EXCEPTION\] ((?:{_BEGINNINGS}): [^\n]*?) SQLSTATE:")


def told(failure: Exception) -> Exception:
    """A query's failure in one line, where a handler made it; any other as it is."""
    found = _RAISED.search(str(failure))
    if found is None:
        return failure
    error = RecordError(found.group(1))
    error.__cause__ = failure
    return error

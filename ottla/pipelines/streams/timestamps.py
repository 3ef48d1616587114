"""When a source's records happened: Kafka Streams' timestamp extractors, by the names of their classes, or a function.

    builder.stream("orders", value=json("id STRING, at BIGINT"), timestamp="value.at")
    builder.stream("clicks", timestamp="LogAndSkipOnInvalidTimestamp")

A function gives milliseconds or a TIMESTAMP. As in Kafka Streams a record whose time is negative is passed over and
counted, and one for which the function finds none fails the query. Partition time is the greatest time found so far in
the record's partition; only what asks for it costs a step with state (`tasks.stamping`). Plain Python, no Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.expressions import Expression, Python, arity

PACKAGE = "org.apache.kafka.streams.processor."
FAIL, SKIP, WALLCLOCK = "FailOnInvalidTimestamp", "LogAndSkipOnInvalidTimestamp", "WallclockTimestampExtractor"
PARTITION_TIME = "UsePartitionTimeOnInvalidTimestamp"
NAMES = (FAIL, SKIP, PARTITION_TIME, WALLCLOCK)
ARGUMENTS = ("partition_time", "timestamp", "key", "value")
"""What a function takes, or the last of them. The first one is for Python functions."""
MOMENTS = ("timestamp", "timestamp_ntz", "timestamp_ltz", "date")
"""What Spark casts to milliseconds; it has no hand in a function that knows the partition time."""
UNKNOWN_TIME = -1
"""Partition time before the first record, and the time of a record without one."""


@dataclass(frozen=True, slots=True)
class TimestampExtractor:
    """Where records have their time from: one of `NAMES`, or an expression."""

    name: str = FAIL
    expression: Expression | None = None

    @classmethod
    def of(cls, given: TimestampExtractor | Expression | None) -> TimestampExtractor:
        """The extractor that is meant: a class's name with or without its package, or else a function."""
        if given is None:
            return cls()
        if isinstance(given, TimestampExtractor):
            return given
        if isinstance(given, str):
            name = given.strip().removeprefix(PACKAGE)
            return cls(name) if name in NAMES else cls("", given)
        if not isinstance(given, Python) and not callable(given):
            raise PipelineError(
                f"timestamp takes {', '.join(NAMES)}, an SQL expression, a function of Columns or python(...), "
                f"not {given!r}"
            )
        _check_arity(given)
        return cls("", given)

    @property
    def knows_partition_time(self) -> bool:
        """Whether a record's time depends on those before it in its partition."""
        given = self.expression
        return self.name == PARTITION_TIME or (isinstance(given, Python) and arity(given.function) == len(ARGUMENTS))


def _check_arity(given: Python | Callable[..., object]) -> None:
    """Told where the mistake is made, not when it runs."""
    count = arity(given.function if isinstance(given, Python) else given)
    if isinstance(given, Python) and count == len(ARGUMENTS) and given.returns.strip().lower() in MOMENTS:
        raise PipelineError(
            "a timestamp's function that knows the partition time returns milliseconds: make it python(function, "
            f"'long'), not '{given.returns}'"
        )
    if isinstance(given, Python) and 1 <= count <= len(ARGUMENTS):
        return
    if not isinstance(given, Python) and 1 <= count < len(ARGUMENTS):
        return
    names = ARGUMENTS if isinstance(given, Python) else ARGUMENTS[1:]
    known = "" if isinstance(given, Python) else "; one that is to know the partition time is a python(...) function"
    raise PipelineError(
        f"a timestamp's function takes {', '.join(names)} or the last of them, not {count} arguments{known}"
    )

"""The filters of a query as ranges of offsets: what of a topic need not be read at all.

`Pushed.take` goes over the filters that Spark offers and gives back those that Spark has to evaluate itself; `narrowed`
cuts the planned ranges. Promises: no record is left out that passes all filters; a filter that is not given back passes
for every record of the ranges that are left.

- A filter on `topic` or `partition`, of any kind, has one answer for all records of a range: it chooses ranges.
- Comparisons of `offset` cut a range. `IN` keeps what lies from its least value to its greatest; Spark does the rest.
- `timestamp >= t` begins a range at the first offset whose record is not older than t: every record before it is older.
  Spark evaluates it all the same, because later records may be older again. For that reason, too, `timestamp < t` cuts
  nothing: a record of any offset may be that old, also where the broker sets the times, as leaders' clocks differ.

Pure but for Spark's classes of filters. Called by `batch`, in the driver.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from ottla.pipelines.source.offsets import INT64_MAX
from ottla.pipelines.source.planning import Range
from ottla.types import TopicPartition

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)
US_PER_MS = 1000

Column: TypeAlias = tuple[str, ...]
TOPIC: Column = ("topic",)
PARTITION: Column = ("partition",)
OFFSET: Column = ("offset",)
TIMESTAMP: Column = ("timestamp",)
NEVER_NULL = (TOPIC, PARTITION, OFFSET, TIMESTAMP, ("timestampType",))

TESTS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: lambda own, given: own == given,
    EqualNullSafe: lambda own, given: own == given,
    GreaterThan: lambda own, given: own > given,
    GreaterThanOrEqual: lambda own, given: own >= given,
    LessThan: lambda own, given: own < given,
    LessThanOrEqual: lambda own, given: own <= given,
    In: lambda own, given: own in given,
    StringStartsWith: lambda own, given: own.startswith(given),
    StringEndsWith: lambda own, given: own.endswith(given),
    StringContains: lambda own, given: given in own,
}


class Offered(NamedTuple):
    """A filter without its `Not`."""

    kind: type[Filter]
    column: Column
    value: Any
    is_negated: bool

    @classmethod
    def of(cls, given: Filter) -> Offered | None:
        is_negated = isinstance(given, Not)
        inner = given.child if isinstance(given, Not) else given
        column = getattr(inner, "attribute", None)
        return None if column is None else cls(type(inner), column, getattr(inner, "value", None), is_negated)

    @property
    def values(self) -> tuple[Any, ...]:
        return tuple(self.value) if self.kind is In else (self.value,)

    def has_only(self, kind: type) -> bool:
        """Whether it compares with values of this very type; Spark has no answer to a comparison with null."""
        return self.kind in TESTS and all(type(one) is kind for one in self.values)

    def passes(self, own: int | str) -> bool:
        return TESTS[self.kind](own, self.value) != self.is_negated


@dataclass(frozen=True, slots=True)
class Pushed:
    """What is known of the records that a query needs. Travels to the tasks with its reader."""

    topic: tuple[Offered, ...] = ()
    partition: tuple[Offered, ...] = ()
    start: int = 0
    end: int = INT64_MAX
    """Offsets that are needed, [start, end)."""
    since_ms: int | None = None
    """No record that is older is needed."""
    is_nothing: bool = field(default=False)
    """No record at all is needed."""

    def take(self, filters: Iterable[Filter]) -> tuple[Pushed, list[Filter]]:
        """With these filters, all of which hold for the records that are needed, and those that Spark evaluates."""
        pushed, left = self, []
        for one in filters:
            offered = Offered.of(one)
            taken, is_exact = (pushed, False) if offered is None else pushed._with(offered)
            pushed = taken
            if not is_exact:
                left.append(one)
        return pushed, left

    def _with(self, one: Offered) -> tuple[Pushed, bool]:
        """And whether it is exact: every record that is left passes `one`."""
        if one.column in NEVER_NULL and one.kind in (IsNull, IsNotNull):
            is_nothing = (one.kind is IsNull) != one.is_negated
            return (replace(self, is_nothing=True) if is_nothing else self), True
        if one.column == TOPIC and one.has_only(str):
            return replace(self, topic=(*self.topic, one)), True
        if one.column == PARTITION and one.has_only(int):
            return replace(self, partition=(*self.partition, one)), True
        if one.column == OFFSET and one.has_only(int):
            start, end, is_exact = _offsets(one)
            return replace(self, start=max(self.start, start), end=min(self.end, end)), is_exact
        if one.column == TIMESTAMP and one.has_only(datetime.datetime):
            since = _since_ms(one)
            known = [at for at in (since, self.since_ms) if at is not None]
            return replace(self, since_ms=max(known, default=None)), False
        return self, False

    def narrowed(self, ranges: Iterable[Range], first_since: Mapping[TopicPartition, int] | None = None) -> list[Range]:
        """What of the ranges is needed. `first_since` is the first offset of a partition that may be young enough."""
        found = []
        for one in ranges:
            if self.is_nothing or not all(test.passes(one.topic) for test in self.topic):
                continue
            if not all(test.passes(one.partition) for test in self.partition):
                continue
            young = (first_since or {}).get(TopicPartition(one.topic, one.partition), one.start)
            start, end = max(one.start, self.start, young), min(one.end, self.end)
            if start < end:
                found.append(replace(one, start=start, end=end))
        return found


def _offsets(one: Offered) -> tuple[int, int, bool]:
    """The offsets that may pass, [start, end), and whether all of them do."""
    least, greatest = min(one.values, default=0), max(one.values, default=-1)
    match one.kind, one.is_negated:
        case (kind, False) if kind in (EqualTo, EqualNullSafe, In):
            return least, greatest + 1, len(set(one.values)) == greatest - least + 1
        case (kind, False) if kind is GreaterThan:
            return least + 1, INT64_MAX, True
        case (kind, False) if kind is GreaterThanOrEqual:
            return least, INT64_MAX, True
        case (kind, False) if kind is LessThan:
            return 0, least, True
        case (kind, False) if kind is LessThanOrEqual:
            return 0, least + 1, True
    return 0, INT64_MAX, False


def _since_ms(one: Offered) -> int | None:
    """The oldest time that may pass, in the milliseconds that a broker can be asked for; None when any may."""
    if one.is_negated or not one.values or any(at.tzinfo is None for at in one.values):
        return None
    if one.kind not in (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, In):
        return None
    least_us = (min(one.values) - EPOCH) // MICROSECOND
    since_ms = least_us // US_PER_MS + 1 if one.kind is GreaterThan else -(-least_us // US_PER_MS)
    return since_ms if since_ms > 0 else None  # brokers take a negative time for a place, such as the end

"""Filters as ranges: nothing that passes is left out, and what Spark does not compare again holds for what is left."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
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

from ottla.pipelines.source.planning import Range
from ottla.pipelines.source.pushdown import EPOCH, Pushed
from ottla.types import TopicPartition

RANGES = [Range("orders", 0, 5, 30), Range("orders", 1, 0, 8), Range("payments", 0, 0, 12)]
COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}
TEXTS: dict[type[Filter], Callable[[str, str], bool]] = {
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: operator.contains,
}


class Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: datetime.datetime


def passes(record: Record, one: Filter) -> bool:
    """What Spark would say."""
    match one:
        case Not(child):
            return not passes(record, child)
        case In(column, values):
            return getattr(record, column[0]) in values
        case IsNotNull():
            return True
        case IsNull():
            return False
        case _:
            test = {**COMPARISONS, **TEXTS}[type(one)]
            return test(getattr(record, one.attribute[0]), one.value)  # type: ignore[attr-defined]


def at(us: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(microseconds=us)


def comparisons(column: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Filter]:
    compared = st.builds(lambda kind, value: kind((column,), value), st.sampled_from(list(COMPARISONS)), values)
    chosen = st.lists(values, max_size=4).map(lambda found: In((column,), tuple(found)))
    null = st.sampled_from([IsNull((column,)), IsNotNull((column,))])
    return st.one_of(compared, chosen, null)


TOPICS = st.sampled_from(["orders", "payments", "order", "pay", ""])
SIMPLE = st.one_of(
    comparisons("topic", TOPICS),
    st.builds(lambda kind, text: kind(("topic",), text), st.sampled_from(list(TEXTS)), TOPICS),
    comparisons("partition", st.integers(-1, 2)),
    comparisons("offset", st.integers(-3, 40)),
    comparisons("timestamp", st.integers(-3_000, 30_000).map(at)),
)
FILTERS = st.lists(st.one_of(SIMPLE, SIMPLE.map(Not)), max_size=4)
TIMES = st.lists(st.integers(-2, 30), min_size=45, max_size=45)
"""Milliseconds, in any order: what producers say."""


@given(FILTERS, TIMES)
def test_what_is_read_and_then_filtered_is_what_passes_all_filters(filters: list[Filter], times: list[int]) -> None:
    records = {
        (one.topic, one.partition): [
            Record(one.topic, one.partition, offset, at(times[offset] * 1000)) for offset in range(one.start, one.end)
        ]
        for one in RANGES
    }
    pushed, left = Pushed().take(filters)
    first = {}
    if (since := pushed.since_ms) is not None:
        for one in RANGES:  # as a broker answers: the first record that is not older, whatever follows it
            young = (each.offset for each in records[one.topic, one.partition] if each.timestamp >= at(since * 1000))
            first[TopicPartition(one.topic, one.partition)] = next(young, one.end)
    read = [
        record
        for one in pushed.narrowed(RANGES, first)
        for record in records[one.topic, one.partition]
        if one.start <= record.offset < one.end
    ]
    found = [record for record in read if all(passes(record, one) for one in left)]
    everything = [record for all_of in records.values() for record in all_of]
    assert sorted(found) == sorted(record for record in everything if all(passes(record, one) for one in filters))


def test_topics_partitions_and_offsets_are_cut_exactly() -> None:
    filters: list[Filter] = [
        Not(StringStartsWith(("topic",), "pay")),
        In(("partition",), (0, 7)),
        GreaterThan(("offset",), 9),
        LessThanOrEqual(("offset",), 20),
        IsNotNull(("offset",)),
    ]
    pushed, left = Pushed().take(filters)
    assert left == []
    assert pushed.narrowed(RANGES) == [Range("orders", 0, 10, 21)]


@pytest.mark.parametrize(
    ("one", "since_ms"),
    [
        (GreaterThanOrEqual(("timestamp",), at(5_000)), 5),
        (GreaterThanOrEqual(("timestamp",), at(5_001)), 6),
        (GreaterThan(("timestamp",), at(5_000)), 6),
        (GreaterThan(("timestamp",), at(5_999)), 6),
        (EqualTo(("timestamp",), at(7_000)), 7),
        (In(("timestamp",), (at(9_000), at(3_000))), 3),
        (LessThan(("timestamp",), at(5_000)), None),
        (Not(LessThan(("timestamp",), at(5_000))), None),
        (GreaterThan(("timestamp",), at(-5_000_000)), None),
        (GreaterThanOrEqual(("timestamp",), at(5_000).replace(tzinfo=None)), None),
    ],
    ids=repr,
)
def test_only_a_least_time_is_asked_for_and_spark_compares_again(one: Filter, since_ms: int | None) -> None:
    """A negative time would be a place to a broker: -1 is the end of the log."""
    pushed, left = Pushed().take([one])
    assert pushed.since_ms == since_ms
    assert left == [one]


@pytest.mark.parametrize(
    "one",
    [
        EqualTo(("key",), b"k"),
        EqualTo(("headers", "key"), "k"),
        EqualTo(("topic",), None),
        In(("partition",), (1, None)),
        Not(In(("topic",), ("orders", None))),
        GreaterThan(("offset",), 2.5),
        EqualTo(("offset",), True),
        EqualTo(("timestampType",), 0),
        IsNull(("key",)),
    ],
    ids=repr,
)
def test_what_is_not_understood_is_sparks_and_everything_is_read(one: Filter) -> None:
    pushed, left = Pushed().take([one])
    assert left[0] is one, "the very filter, as Spark asks"
    assert pushed.narrowed(RANGES) == RANGES

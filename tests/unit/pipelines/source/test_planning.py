"""How ranges are split among tasks: disjoint, complete, and as Spark's connector does it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ottla.pipelines.source.planning import Range, split

ranges = st.lists(st.tuples(st.integers(0, 1000), st.integers(-5, 5000)), max_size=6).map(
    lambda found: [Range("t", index, start, start + size) for index, (start, size) in enumerate(found)]
)


def test_a_partition_is_a_task_unless_more_are_asked_for() -> None:
    one, empty = Range("t", 0, 5, 10), Range("t", 1, 3, 3)
    assert split([one, empty]) == [one]
    assert split([one], min_partitions=1) == [one]


def test_big_partitions_are_split_until_there_are_enough() -> None:
    parts = split([Range("t", 0, 0, 1000), Range("t", 1, 0, 10)], min_partitions=5)
    assert parts == [
        Range("t", 0, 0, 250),
        Range("t", 0, 250, 500),
        Range("t", 0, 500, 750),
        Range("t", 0, 750, 1000),
        Range("t", 1, 0, 10),
    ]


def test_no_task_has_more_records_than_are_allowed() -> None:
    assert [one.size for one in split([Range("t", 0, 7, 32)], max_records=10)] == [8, 8, 9]


def test_both_limits_hold_together() -> None:
    parts = split([Range("t", 0, 0, 100)], max_records=60, min_partitions=4)
    assert [one.size for one in parts] == [25, 25, 25, 25]


@given(ranges, st.none() | st.integers(1, 40), st.none() | st.integers(1, 800))
def test_the_parts_are_the_whole_and_nothing_twice(
    given_ranges: list[Range], min_partitions: int | None, max_records: int | None
) -> None:
    parts = split(given_ranges, min_partitions=min_partitions, max_records=max_records)
    for one in given_ranges:
        own = [part for part in parts if part.partition == one.partition]
        if one.size <= 0:
            assert own == []
            continue
        assert own[0].start == one.start
        assert own[-1].end == one.end
        assert all(before.end == after.start for before, after in pairwise(own))
        assert all(part.size > 0 for part in own)
        assert max_records is None or all(part.size <= max_records for part in own)

"""Where records have their times from: the words, partition time, and what a checkpoint makes of a change. No Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.pipelines import PipelineError
from ottla.pipelines.streams import StreamsBuilder, TimeWindows, Topology, python
from ottla.pipelines.streams.evolution import Evolution, compare, notes
from ottla.pipelines.streams.graph import Source
from ottla.pipelines.streams.planning import has_state, plan
from ottla.pipelines.streams.tasks.stamping import Stamping
from ottla.pipelines.streams.timestamps import NAMES, TimestampExtractor


def with_times(**timestamp: Any) -> Topology:
    """Records that go through, and a windowed count."""
    builder = StreamsBuilder()
    builder.stream("in", **timestamp).to("out")
    windowed = builder.stream("clicks", **timestamp).group_by_key().windowed_by(TimeWindows.of_size(10))
    windowed.count(name="counts").to_stream().to("counted")
    return builder.build("app")


def evolved(was: Topology, now: Topology, *accept: str) -> Evolution:
    known = {"application": "app", "version": 2, "steps": notes(was, plan(was))}
    return compare(known, now, plan(now), accept=accept)


def times(given: Any, *records: tuple[int, str | None], before: int = -1) -> tuple[list[int | None], int]:
    stamping = Stamping(TimestampExtractor.of(given))
    return stamping.stamp([(time, None, text) for time, text in records], before)


@pytest.mark.parametrize("name", NAMES)
def test_an_extractor_of_kafka_streams_goes_by_its_name_with_or_without_the_package(name: str) -> None:
    assert TimestampExtractor.of(name) == TimestampExtractor(name)
    assert TimestampExtractor.of(f"org.apache.kafka.streams.processor.{name}") == TimestampExtractor(name)
    assert TimestampExtractor.of(name.lower()).expression == name.lower(), "any other text is an expression"


def test_only_what_asks_for_the_partition_time_knows_it() -> None:
    assert [name for name in NAMES if TimestampExtractor(name).knows_partition_time] == [NAMES[2]]
    functions: list[Callable[..., int]] = [
        lambda value: 1,
        lambda key, value: 1,
        lambda timestamp, key, value: 1,
        lambda partition_time, timestamp, key, value: 1,
    ]
    known = [TimestampExtractor.of(python(function, "long")).knows_partition_time for function in functions]
    assert known == [False, False, False, True]
    assert not TimestampExtractor.of("value.at").knows_partition_time


def test_a_function_that_cannot_be_called_is_refused_where_it_is_given() -> None:
    builder = StreamsBuilder()
    with pytest.raises(PipelineError, match="partition_time, timestamp, key, value or the last of them, not 5"):
        builder.stream("in", timestamp=python(lambda a, b, c, d, e: 1, "long"))
    with pytest.raises(PipelineError, match=r"timestamp, key, value or the last .* is a python"):
        builder.table("in", timestamp=lambda a, b, c, d: a)
    with pytest.raises(PipelineError, match=r"FailOnInvalidTimestamp, .* an SQL expression"):
        builder.stream("in", timestamp=7)  # type: ignore[arg-type]


def test_partition_time_is_the_greatest_time_so_far_and_stands_in_for_one_that_is_missing() -> None:
    name = "UsePartitionTimeOnInvalidTimestamp"
    assert times(name, (5, None), (-1, None), (3, None), (-7, None), (9, None)) == ([5, 5, 3, 5, 9], 9)
    assert times(name, (-1, None), before=9) == ([9], 9), "as after a restart"
    assert times(name, (-1, None), (2, None)) == ([None, 2], 2), "nothing is known yet"


def test_a_function_is_given_the_partition_time_and_one_that_is_negative_does_not_move_it() -> None:
    given: list[Any] = []

    def mine(partition_time: int, timestamp: int, key: str | None, value: str | None) -> int | None:
        given.append((partition_time, timestamp, key, value))
        return {"skip": -4, "none": None}.get(str(value), timestamp)

    records = [(5, '{"value":"a"}'), (8, '{"value":"skip"}'), (9, '{"value":"none"}'), (6, None)]
    assert times(python(mine, "long"), *records) == ([5, -4, None, 6], 6)
    assert given == [(-1, 5, None, "a"), (5, 8, None, "skip"), (5, 9, None, "none"), (5, 6, None, None)]


def test_a_function_that_knows_partition_time_gives_milliseconds() -> None:
    """Of a TIMESTAMP the first record made Python complain on a worker."""
    for returns in ("BIGINT", "string"):
        TimestampExtractor.of(python(lambda partition_time, timestamp, key, value: timestamp, returns))
    TimestampExtractor.of(python(lambda timestamp, key, value: timestamp, "timestamp"))
    with pytest.raises(PipelineError, match=r"make it python\(function, 'long'\), not 'timestamp'"):
        TimestampExtractor.of(python(lambda partition_time, timestamp, key, value: timestamp, "timestamp"))


def test_a_source_takes_the_builders_extractor_unless_it_has_its_own() -> None:
    builder = StreamsBuilder(timestamp="WallclockTimestampExtractor")
    builder.stream("in").through("between").to("out")
    builder.table("rows", timestamp="value").to_stream().to("out")
    works = [node.work for node in builder.build("app").nodes.values()]
    found = [work.timestamp for work in works if isinstance(work, Source)]
    wallclock = TimestampExtractor("WallclockTimestampExtractor")
    assert found == [wallclock, wallclock, TimestampExtractor("", "value")]


def test_what_goes_by_partition_time_has_state_that_comes_and_goes_with_a_reset_only() -> None:
    plain, knowing = with_times(), with_times(timestamp="UsePartitionTimeOnInvalidTimestamp")
    assert [has_state(query) for query in plan(plain)] == [False, True]
    assert [has_state(query) for query in plan(knowing)] == [True, True]
    for was, now in ((plain, knowing), (knowing, plain)):
        found = evolved(was, now, "counts", "KSTREAM-SOURCE-0000000000")
        assert [step.needs_reset for step in found.steps] == [True, True]
        assert {change.what for change in found.steps[0].changes} == {"partition times"}
    assert not any(step.needs_reset for step in evolved(knowing, knowing).steps)


def test_windows_do_not_go_on_by_other_times_unless_that_is_accepted() -> None:
    was, now = with_times(), with_times(timestamp="value.at")
    passing, counts = evolved(was, now).steps
    assert not passing.needs_reset
    assert [(change.what, change.was, change.now) for change in counts.changes] == [("times", "", "value.at")]
    assert counts.needs_reset
    assert not any(step.needs_reset for step in evolved(was, now, "counts").steps)

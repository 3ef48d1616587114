"""How a topology is cut into queries, and which starts a checkpoint refuses. No Spark, no broker."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ottla.pipelines import PipelineError
from ottla.pipelines.streams import JoinWindows, StreamsBuilder, TimeWindows, Topology, aggregates, evolution
from ottla.pipelines.streams.planning import own_topics, plan
from ottla.pipelines.streams.running import check, check_partitions
from ottla.pipelines.streams.shape import signature


def build(builder: StreamsBuilder) -> Topology:
    return builder.build("app")


def test_a_pattern_is_read_and_told_as_a_pattern_and_keeps_its_place_when_numbers_shift() -> None:
    def counted(*, more: bool) -> Topology:
        builder = StreamsBuilder()
        if more:
            builder.stream("new").to("out")
        builder.stream(re.compile("logs-(a|b+)")).to("copy")
        builder.stream(re.compile("logs-(a|b+)"), name="logs").join(
            builder.stream("in"), "left", JoinWindows.of_time_difference(5), name="near"
        ).to("out")
        return build(builder)

    first = plan(counted(more=False))
    assert [(query.reads, query.patterns) for query in first] == [
        ([], ["logs-(a|b+)"]),
        (["in"], ["logs-(a|b+)"]),
    ]
    assert "Source: logs (topics: logs-(a|b+))" in counted(more=False).describe()
    known = {"application": "app", "version": 2, "steps": evolution.notes(counted(more=False), first)}
    grown = counted(more=True).at(evolution.trace(known, counted(more=True)))
    found = evolution.compare(known, grown, plan(grown))
    assert {step.place: step.fate.value for step in found.steps} == {
        "KSTREAM-SOURCE-0000000000-2": "added",
        "KSTREAM-SOURCE-0000000000": "kept",
        "near": "kept",
    }
    matched = {"logs-(a|b+)": ["logs-a", "logs-b"]}
    check_partitions(first, {"in": 2, "logs-a": 2, "logs-b": 2}, matched)
    with pytest.raises(PipelineError, match="in has 2, logs-a has 2, logs-b has 3"):
        check_partitions(first, {"in": 2, "logs-a": 2, "logs-b": 3}, matched)


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        (re.compile("logs-.*"), "logs-.*"),
        (re.compile("logs-.*", re.IGNORECASE), "(?i:logs-.*)"),
        (re.compile("(?i)logs-.*"), "(?i)logs-.*"),
        (re.compile("(?i)logs - .*", re.VERBOSE), None),
    ],
)
def test_what_a_pattern_was_compiled_with_counts(pattern: re.Pattern[str], told: str | None) -> None:
    """It was left away, and LOGS-A not read."""
    builder = StreamsBuilder()
    if told is None:
        with pytest.raises(PipelineError, match="put its flags into the expression"):
            builder.stream(pattern)
        return
    builder.stream(pattern).to("out")
    [query] = plan(builder.build("app"))
    assert query.patterns == [told]
    assert bool(re.fullmatch(told, "LOGS-a")) == bool(pattern.fullmatch("LOGS-a"))


def test_a_stream_is_of_names_or_of_one_pattern() -> None:
    builder = StreamsBuilder()
    for topics in ((), ("a", re.compile("b")), (re.compile("a"), re.compile("b")), (7,), (re.compile(b"a"),)):
        with pytest.raises(PipelineError, match=r"one topic's name, or one re\.compile"):
            builder.stream(*topics)


def test_a_chain_without_state_is_one_query_however_many_topics_it_ends_in() -> None:
    builder = StreamsBuilder()
    big, small = builder.stream("in").branch("value > 10")
    big.to("big")
    small.to("small")
    (query,) = plan(build(builder))
    assert [len(flow.steps) for flow in query.outflows] == [1, 1]
    assert query.reads == ["in"]


def test_each_step_that_remembers_is_a_query_and_reads_the_last_ones_results_from_a_topic() -> None:
    builder = StreamsBuilder()
    counts = builder.stream("in").group_by_key().count()
    counts.to_stream().group_by("value").count().to_stream().to("out")
    topology = build(builder)
    first, second = plan(topology)
    assert own_topics(topology, [first, second]) == {"app-KSTREAM-COUNT-0000000001-repartition": None}
    assert [flow.end.name for flow in first.outflows] == [first.name]
    assert second.inputs[0][0].origin.name == first.root.name
    assert not second.inputs[0][0].keeps_partitions


def test_a_windowed_table_and_its_last_words_are_one_query() -> None:
    builder = StreamsBuilder()
    table = builder.stream("in").group_by_key().windowed_by(TimeWindows.of_size(10)).count()
    table.to_stream().to("updates")
    table.map_values("value + 1").suppress().to_stream().group_by("value").count().to_stream().to("final")
    topology = build(builder)
    first, second = plan(topology)
    assert [(flow.end.name, flow.final) for flow in first.outflows] == [
        ("KSTREAM-SINK-0000000003", False),
        ("KTABLE-SUPPRESS-0000000005", True),
    ]
    assert list(own_topics(topology, [first])) == ["app-KTABLE-SUPPRESS-0000000005-repartition"]
    assert second.inputs[0][0].origin.name == "KTABLE-SUPPRESS-0000000005"


def test_a_grouped_table_is_told_to_its_groups_through_one_topic_for_all_that_is_made_of_it() -> None:
    builder = StreamsBuilder()
    grouped = builder.table("in").filter("value > 1").group_by("value")
    grouped.count().to_stream().to("counts")
    grouped.aggregate(total=aggregates.sum()).to_stream().to("totals")
    topology = build(builder)
    select, count, total = plan(topology)
    topic = "app-KTABLE-SELECT-0000000002-repartition"
    assert own_topics(topology, [select, count, total]) == {topic: None}
    assert [node.name for node in select.inputs[0][0].steps] == ["KTABLE-FILTER-0000000001"]
    assert select.inputs[0][0].keeps_partitions
    assert [query.inputs[0][0].origin.name for query in (count, total)] == [select.name] * 2
    assert "of a table" in signature(count)


def test_a_table_seen_as_a_stream_is_grouped_change_by_change_and_takes_nothing_out() -> None:
    builder = StreamsBuilder()
    builder.table("in").to_stream().group_by("value").count().to_stream().to("changes")
    (changes,) = plan(build(builder))
    assert "of a table" not in signature(changes)


def test_a_repartitioned_stream_is_written_and_read_again() -> None:
    builder = StreamsBuilder()
    builder.stream("in").select_key("value").repartition(partitions=3, name="by-value").to("out")
    topology = build(builder)
    queries = plan(topology)
    assert [query.name for query in queries] == ["by-value-repartition", "by-value-repartition-READ"]
    assert own_topics(topology, queries) == {"app-by-value-repartition": 3}


def test_joined_topics_must_have_equally_many_partitions() -> None:
    builder = StreamsBuilder()
    left, right = builder.stream("a"), builder.stream("b")
    left.join(right, "left", JoinWindows.of_time_difference(1)).to("out")
    queries = plan(build(builder))
    check_partitions(queries, {"a": 2, "b": 2})
    with pytest.raises(PipelineError, match=r"a has 2, b has 3: put `\.repartition"):
        check_partitions(queries, {"a": 2, "b": 3})


def test_a_topology_that_writes_nothing_is_refused() -> None:
    builder = StreamsBuilder()
    builder.stream("in").filter("true")
    with pytest.raises(PipelineError, match="writes nothing"):
        plan(build(builder))


KNOWN = {"application": "app", "tasks": 2, "partitions": {"in": 2}}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"application": "other"}, "give each its own"),
        ({"tasks": 3}, "start with tasks=2"),
        ({"partitions": {"in": 4}}, "had 2 partitions .* and has 4: .* Begin anew"),
    ],
)
def test_a_start_that_would_misread_the_checkpoint_is_refused_with_the_way_out(
    change: dict[str, Any], told: str
) -> None:
    check(KNOWN, KNOWN)
    with pytest.raises(PipelineError, match=told):
        check(KNOWN, {**KNOWN, **change})

"""A topology is built, described and drawn without Spark; mistakes are told where they are made."""

from __future__ import annotations

import subprocess
import sys
from xml.etree import ElementTree

import pytest

from ottla.pipelines import PipelineError
from ottla.pipelines.streams import (
    JoinWindows,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    aggregates,
    python,
)
from ottla.pipelines.streams.planning import plan


def word_count() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("lines").flat_map_values("split(value, ' ')")
    words.group_by("value").count(name="counts").to_stream().to("counts", value="long")
    return builder.build("word-count")


def test_the_description_reads_like_kafka_streams() -> None:
    assert word_count().describe().splitlines() == [
        "Topologies:",
        "   Sub-topology: 0",
        "    Source: KSTREAM-SOURCE-0000000000 (topics: [lines])",
        "      --> KSTREAM-FLATMAPVALUES-0000000001",
        "    Processor: KSTREAM-FLATMAPVALUES-0000000001 (stores: [])",
        "      --> KSTREAM-KEY-SELECT-0000000002",
        "      <-- KSTREAM-SOURCE-0000000000",
        "    Processor: KSTREAM-KEY-SELECT-0000000002 (stores: [])",
        "      --> KSTREAM-COUNT-0000000003",
        "      <-- KSTREAM-FLATMAPVALUES-0000000001",
        "    Processor: KSTREAM-COUNT-0000000003 (stores: [counts])",
        "      --> KTABLE-TOSTREAM-0000000004",
        "      <-- KSTREAM-KEY-SELECT-0000000002",
        "    Processor: KTABLE-TOSTREAM-0000000004 (stores: [])",
        "      --> KSTREAM-SINK-0000000005",
        "      <-- KSTREAM-COUNT-0000000003",
        "    Sink: KSTREAM-SINK-0000000005 (topic: counts)",
        "      <-- KTABLE-TOSTREAM-0000000004",
    ]


def test_parts_that_do_not_hang_together_are_sub_topologies() -> None:
    builder = StreamsBuilder()
    builder.stream("a").to("b")
    left, right = builder.stream("c"), builder.stream("d")
    left.join(right, "left", JoinWindows.of_time_difference(5)).to("e")
    text = builder.build("two").describe()
    assert text.count("Sub-topology") == 2
    assert "KSTREAM-JOIN-0000000004 (stores: [KSTREAM-JOIN-0000000004-store])" in text


def test_a_picture_has_a_box_for_each_node_and_a_line_for_each_edge() -> None:
    topology = word_count()
    picture = ElementTree.fromstring(topology.to_svg())
    space = "{http://www.w3.org/2000/svg}"
    assert len(picture.findall(f"{space}rect")) == len(topology.nodes)
    assert len(picture.findall(f"{space}line")) == len(topology.nodes) - 1
    assert {"lines", "counts"} <= {text.text for text in picture.iter(f"{space}text")}
    assert topology.to_mermaid().splitlines()[:2] == ["flowchart TD", '    n0(["lines"])']


def test_a_grouped_table_is_described_and_drawn_as_in_kafka_streams() -> None:
    builder = StreamsBuilder()
    grouped = builder.table("users").group_by("value.region", "value.name")
    grouped.count(name="users-by-region").to_stream().to("out")
    grouped.reduce(python(max), python(min)).to_stream(lambda key, value: value).to("names")
    topology = builder.build("regions")
    text = topology.describe()
    assert (
        "    Processor: KTABLE-SELECT-0000000001 (stores: [KTABLE-SELECT-0000000001-store])\n"
        "      --> KTABLE-AGGREGATE-0000000002, KTABLE-REDUCE-0000000005\n"
        "      <-- KTABLE-SOURCE-0000000000\n"
    ) in text
    assert "KTABLE-AGGREGATE-0000000002 (stores: [users-by-region])" in text
    assert "KTABLE-REDUCE-0000000005 (stores: [KTABLE-REDUCE-0000000005-STATE-STORE])" in text
    assert '[("KTABLE-AGGREGATE-0000000002<br/>users-by-region")]' in topology.to_mermaid()


def test_steps_have_the_names_they_are_given_and_the_others_the_numbers_they_had() -> None:
    """As in Kafka Streams, where a named step takes a number too."""

    def built(*, named: bool) -> Topology:
        def name(text: str) -> str | None:
            return text if named else None

        builder = StreamsBuilder()
        stream = builder.stream("in", name=name("orders")).filter("true", name=name("good"))
        first, rest = stream.branch("value > 1", name=name("split"))
        first.merge(rest, name=name("again")).group_by("value", name=name("by-value")).count(named=name("many"))
        people = builder.table("people", named=name("people-source"))
        joined = people.join(builder.table("cities"), "left", foreign_key="value", name=name("homes"))
        joined.group_by("value", name=name("by-city")).count(name="cities").to_stream(name=name("changes"))
        stream.join(people, "left", name=name("with-people")).to("out", name=name("written"))
        return builder.build("named")

    named, numbered = list(built(named=True).nodes.values()), list(built(named=False).nodes)
    assert [node.number for node in named] == numbered
    assert [node.name for node in named if node.name != node.number] == [
        "orders", "good", "split-1", "split-0", "again", "by-value", "many", "people-source",
        "homes-subscription-registration-processor", "homes-subscription-join-foreign", "homes-result", "by-city",
        "changes", "with-people", "written",
    ]  # fmt: skip
    assert "    Sink: written (topic: out)\n      <-- with-people" in built(named=True).describe()


@pytest.mark.parametrize("name", ["two words", "", ".", "a" * 250, "a/b"])
def test_a_name_that_could_be_no_topics_is_refused(name: str) -> None:
    with pytest.raises(PipelineError, match="is no name for a step"):
        StreamsBuilder().stream("in").filter("true", name=name)


def test_two_steps_with_one_name_are_refused() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in").filter("true", name="good")
    with pytest.raises(PipelineError, match="has a node good already"):
        stream.filter("true", name="good")
    grouped = stream.group_by_key()
    grouped.count(name="counts").to_stream().to("a")
    grouped.count(name="counts").to_stream().to("b")
    with pytest.raises(PipelineError, match="the name counts names two steps with state"):
        plan(builder.build("twice"))


def test_a_sink_that_goes_by_its_records_is_described_by_its_function() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to(lambda value: value)
    builder.stream("more").to(extractor="concat('out-', value)", name="by-value")
    topology = builder.build("app")
    assert "Sink: KSTREAM-SINK-0000000001 (extractor: lambda value: value)" in topology.describe()
    assert "Sink: by-value (extractor: concat('out-', value))" in topology.describe()
    assert '(["by-value"])' in topology.to_mermaid()


def test_building_a_topology_imports_no_spark() -> None:
    steps = ["import sys, tests.unit.pipelines.streams.test_graph as t", "t.word_count().describe()"]
    code = "; ".join([*steps, "print('pyspark' in sys.modules)"])
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_mistakes_are_told_where_they_are_made() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("a")
    with pytest.raises(PipelineError, match="needs JoinWindows"):
        stream.join(builder.stream("b"), "left")
    with pytest.raises(PipelineError, match="the table has none"):
        stream.group_by_key().count().suppress()
    with pytest.raises(PipelineError, match="mark it with python"):
        stream.peek(print)  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="must not exceed the size"):
        TimeWindows.of_size(5).advance_by(6)
    sessions = stream.group_by_key().windowed_by(SessionWindows.of_inactivity_gap(5))
    with pytest.raises(PipelineError, match="give aggregate a merger"):
        sessions.aggregate(initial=0, adder=python(lambda key, value, so_far: so_far + 1, "int"))
    table = builder.table("t")
    with pytest.raises(PipelineError, match="are for two streams"):
        stream.join(table, "left", JoinWindows.of_time_difference(5))
    with pytest.raises(PipelineError, match="select_key first"):
        stream.left_join(table, "left", key="value")
    grouped = table.group_by("value")
    with pytest.raises(PipelineError, match="give aggregate a subtractor as well"):
        grouped.aggregate(initial=0, adder=python(lambda key, value, so_far: so_far + 1, "int"))
    with pytest.raises(PipelineError, match="max cannot be told without a row that has left"):
        grouped.aggregate(n=aggregates.count(), most=aggregates.max())
    with pytest.raises(PipelineError, match="one named aggregate, several by name, or initial and adder"):
        grouped.aggregate()
    adder = python(lambda key, value, so_far: so_far + 1, "int")
    with pytest.raises(PipelineError, match="cogroup takes streams without windows"):
        stream.group_by_key().cogroup(adder).cogroup(sessions, adder)
    windowed = stream.group_by_key().cogroup(adder).windowed_by(SessionWindows.of_inactivity_gap(5))
    with pytest.raises(PipelineError, match="cogroup them all before windowed_by"):
        windowed.cogroup(stream.group_by_key(), adder)
    with pytest.raises(PipelineError, match="give aggregate a merger"):
        windowed.aggregate(0)
    with pytest.raises(PipelineError, match="make one value, and return int, string"):
        stream.group_by_key().cogroup(adder).cogroup(stream.group_by_key(), python(max)).aggregate(0)
    with pytest.raises(PipelineError, match="mark it with python"):
        stream.group_by_key().cogroup("value")  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="a topic, or an extractor"):
        stream.to()
    with pytest.raises(PipelineError, match="a topic, or an extractor"):
        stream.to("out", extractor="value")
    with pytest.raises(PipelineError, match="no serde is named 'avro'"):
        builder.stream("a", value="avro")
    with pytest.raises(PipelineError, match="letters, digits"):
        builder.build("two words")


@pytest.mark.parametrize(
    ("timestamp", "starts"), [(0, [0]), (4, [0]), (5, [0, 5]), (9, [0, 5]), (10, [5, 10]), (23, [15, 20])]
)
def test_a_record_belongs_to_each_hopping_window_that_covers_its_time(timestamp: int, starts: list[int]) -> None:
    assert TimeWindows.of_size(10).advance_by(5).starts(timestamp) == starts


def test_a_stream_may_say_where_a_first_start_reads_it_from() -> None:
    builder = StreamsBuilder()
    builder.stream("lines", reset="latest").to("copy")
    (query,) = plan(builder.build("copy"))
    assert [one.reset for one in query.sources] == ["latest"]
    with pytest.raises(PipelineError, match="reset is earliest or latest, not 'newest'"):
        builder.stream("lines", reset="newest")

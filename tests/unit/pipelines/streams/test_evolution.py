"""Which changes of a topology keep the state of a checkpoint, and which need a reset. No Spark, no broker."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from ottla.pipelines import PipelineError
from ottla.pipelines.streams import (
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    aggregates,
    python,
    serdes,
)
from ottla.pipelines.streams import notes as kept
from ottla.pipelines.streams.evolution import Evolution, Fate, compare, merged, notes, trace
from ottla.pipelines.streams.planning import own_topics, plan
from ottla.pipelines.streams.shape import signature

Build = Callable[[StreamsBuilder], Any]
NEAR = JoinWindows.of_time_difference(10)


def topology(build: Build) -> Topology:
    builder = StreamsBuilder()
    build(builder)
    return builder.build("app")


def noted(build: Build, known: dict[str, Any] | None = None, accept: Collection[str] = ()) -> dict[str, Any]:
    """What a checkpoint notes when the topology is started on it."""
    made = topology(build)
    if known is None:
        return {"application": "app", "version": 2, "steps": notes(made, plan(made))}
    placed = made.at(trace(known, made))
    return {**known, "version": 2, "steps": merged(known, notes(placed, plan(placed)), accept)}


def old(build: Build) -> dict[str, Any]:
    """What an Ottla before names noted of the same topology, in which every query was called by its node's number."""
    made = topology(build)
    return {"application": "app", "steps": {query.root.number: signature(query) for query in plan(made)}}


def evolved(was: dict[str, Any], build: Build, accept: Collection[str] = ()) -> Evolution:
    made = topology(build)
    placed = made.at(trace(was, made))
    return compare(was, placed, plan(placed), accept=accept)


def fates(found: Evolution) -> dict[str, str]:
    return {step.name: step.fate.value for step in found.steps}


def sums(value: Any = "value", front: Callable[[Any], Any] = lambda stream: stream, **names: str) -> Build:
    """A sum, with steps in front."""

    def build(builder: StreamsBuilder) -> None:
        stream = front(builder.stream("in", value="long"))
        stream.group_by_key().aggregate(aggregates.sum(value), **names).to_stream().to("out")

    return build


def test_a_filter_in_front_of_a_named_aggregate_keeps_its_state_its_checkpoint_and_its_topics() -> None:
    """It was refused, because the query was called by its number."""

    def chain(front: Callable[[Any], Any]) -> Build:
        def build(builder: StreamsBuilder) -> None:
            table = front(builder.stream("in", value="long")).group_by_key().aggregate(aggregates.sum(), name="sums")
            table.to_stream().group_by("value").count(name="many").to_stream().to("out")

        return build

    was = noted(chain(lambda stream: stream))
    filtered = chain(lambda stream: stream.filter("value > 1").peek(python(print)))
    found = evolved(was, filtered)
    assert fates(found) == {"sums": "kept", "many": "kept"}
    found.check("somewhere")
    for build in (chain(lambda stream: stream), filtered):
        made = topology(build)
        assert [query.name for query in plan(made)] == ["sums", "many"]
        assert list(own_topics(made, plan(made))) == ["app-sums-repartition"]


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (sums("value * 10", name="sums"), "aggregates was sum(value) and is sum(value * 10)"),
        (sums(front=lambda stream: stream.select_key("value"), name="sums"), "keys was string and is value"),
    ],
)
def test_an_aggregates_own_expression_and_key_are_its_states(build: Build, what: str) -> None:
    """`sum(value * 10)` over sums of `value` was accepted."""
    was = noted(sums(name="sums"))
    with pytest.raises(PipelineError) as refused:
        evolved(was, build).check("the checkpoint")
    said = str(refused.value)
    assert "the state of sums cannot be gone on with: its " + what in said
    assert "`ottla pipeline plan FILE --checkpoint 'the checkpoint'`" in said
    accepted = evolved(was, build, accept=["sums"])
    accepted.check("the checkpoint")
    assert fates(accepted) == {"sums": "changed"}


def test_what_a_state_depends_on_is_told_line_by_line() -> None:
    def counts(windows: TimeWindows, key: str = "string", topic: str = "in") -> Build:
        def build(builder: StreamsBuilder) -> None:
            stream = builder.stream(topic, key=key)
            stream.group_by_key().windowed_by(windows).count(name="counts").to_stream().to("out")

        return build

    was = noted(counts(TimeWindows.of_size(10)))
    changed = evolved(was, counts(TimeWindows.of_size(20), "long", "other")).steps[0].changes
    assert [(one.what, one.was, one.now) for one in changed] == [
        ("windows", str(TimeWindows.of_size(10)), str(TimeWindows.of_size(20))),
        ("reads", "in", "other"),
        ("keys", "string", "long"),
    ]
    found = evolved(was, counts(TimeWindows.of_size(10), topic="other"), accept=["counts"])
    with pytest.raises(PipelineError, match="its reads was in and is other") as refused:
        found.check("somewhere")
    assert "accept" not in str(refused.value), "nobody's word makes offsets of one topic those of another"


def test_the_values_that_a_join_keeps_are_of_the_serde_they_had() -> None:
    def joined(schema: str, windows: JoinWindows = NEAR, joiner: str = "left") -> Build:
        def build(builder: StreamsBuilder) -> None:
            left = builder.stream("a", value=serdes.json(schema), name="left")
            left.join(builder.stream("b", name="right"), joiner, windows, name="pairs").to("out", name="pairs-out")

        return build

    was = noted(joined("id INT"))
    assert fates(evolved(was, joined("id INT", joiner="right"))) == {"pairs": "kept"}, "a joiner has no state"
    (change,) = evolved(was, joined("id STRING")).steps[0].changes
    assert (change.was, change.now) == ("json(id INT), string", "json(id STRING), string")
    (change,) = evolved(was, joined("id INT", NEAR.before(3))).steps[0].changes
    assert change.what == "windows"


def test_types_are_compared_where_spark_was_asked() -> None:
    """A key of another type would not be found: the state has it as text of the type it had."""
    was, made = noted(sums(name="sums")), topology(sums(name="sums"))
    was["steps"]["sums"]["shape"]["key type"] = "string"
    assert fates(compare(was, made, plan(made))) == {"sums": "kept"}
    same, other = (notes(made, plan(made), {"sums": {"key type": kind}}) for kind in ("string", "bigint"))
    assert fates(compare(was, made, plan(made), steps=same)) == {"sums": "kept"}
    with pytest.raises(PipelineError, match="its key type was string and is bigint"):
        compare(was, made, plan(made), steps=other).check("somewhere")


def test_a_function_is_compared_by_its_source_and_not_by_its_place() -> None:
    def reduced(reducer: Any) -> Build:
        return lambda builder: builder.stream("in").group_by_key().reduce(python(reducer), name="r").to_stream().to("o")

    def times(factor: int) -> Any:
        return lambda so_far, value: so_far + value * factor

    was = noted(reduced(lambda so_far, value: so_far + value))
    same = reduced(
        lambda so_far, value: so_far + value  # moved, and with a comment
    )
    assert fates(evolved(was, same)) == {"r": "kept"}
    one, other = (lambda so_far, value: so_far + value), (lambda so_far, value: value)
    assert fates(evolved(was, reduced(one))) == {"r": "kept"}
    assert fates(evolved(was, reduced(other))) == {"r": "changed"}, "of two in a line, the second one"
    tens = noted(reduced(times(10)))
    assert fates(evolved(tens, reduced(times(10)))) == {"r": "kept"}
    assert fates(evolved(tens, reduced(times(100)))) == {"r": "changed"}
    without_source = eval("lambda so_far, value: value")
    found = evolved(was, reduced(without_source))
    assert fates(found) == {"r": "kept"}
    assert found.unjudged.startswith("the source of functions of r cannot be read")


def test_a_numbered_step_whose_number_shifts_is_refused_with_the_way_to_keep_its_state() -> None:
    """Kafka Streams would begin anew in silence."""
    was = noted(sums())
    shifted = sums(front=lambda stream: stream.filter("value > 1"))
    with pytest.raises(PipelineError, match=r"KSTREAM-AGGREGATE-0000000001 .* first name the step"):
        evolved(was, shifted).check("somewhere")
    named = noted(sums(named="sums"), was)
    assert list(named["steps"]) == ["KSTREAM-AGGREGATE-0000000001"], "its place stays"
    filtered = sums(front=lambda stream: stream.filter("value > 1"), named="sums")
    assert fates(evolved(named, filtered)) == {"sums": "kept"}
    assert topology(filtered).at(trace(named, topology(filtered))).places == {"sums": "KSTREAM-AGGREGATE-0000000001"}


def test_another_step_that_moved_to_a_number_is_not_taken_for_the_one_that_had_it() -> None:
    def build_first(builder: StreamsBuilder) -> None:
        builder.stream("in").map_values("value").filter("true").group_by_key().count().to_stream().to("a")

    def build_then(builder: StreamsBuilder) -> None:
        stream = builder.stream("in")
        stream.peek(python(print)).filter("true").group_by_key().count().to_stream().to("b")

    (step,) = evolved(noted(build_first), build_then).steps
    assert step.needs_reset
    assert [change.what for change in step.changes] == ["steps in front"]


def test_naming_a_store_is_a_new_step_because_its_changelog_would_lack_what_was_before() -> None:
    was = noted(sums())
    found = evolved(was, sums(name="sums"))
    assert fates(found) == {"sums": "added", "KSTREAM-AGGREGATE-0000000001": "removed"}
    assert found.reset == ("KSTREAM-AGGREGATE-0000000001",)


def test_a_source_without_a_name_is_known_by_its_topics_as_offsets_are() -> None:
    was = noted(lambda builder: builder.stream("a").to("b"))

    def build(builder: StreamsBuilder) -> None:
        builder.stream("z").to("y")
        builder.stream("a").to("b")

    found = evolved(was, build)
    assert [(step.place, step.fate) for step in found.steps] == [
        ("KSTREAM-SOURCE-0000000000-2", Fate.ADDED),
        ("KSTREAM-SOURCE-0000000000", Fate.KEPT),
    ]
    again = evolved(noted(build, was), lambda builder: builder.stream("a", name="mine").to("b"))
    assert [(step.name, step.place, step.fate.value) for step in again.steps] == [
        ("mine", "KSTREAM-SOURCE-0000000000", "kept"),
        ("KSTREAM-SOURCE-0000000000", "KSTREAM-SOURCE-0000000000-2", "removed"),
    ]


@pytest.mark.parametrize("name", [None, "mine"])
def test_a_source_may_read_more_topics_and_not_fewer(name: str | None) -> None:
    def reading(*topics: str) -> Build:
        return lambda builder: builder.stream(*topics, name=name).to("out")

    was = noted(reading("a", "b"))
    (step,) = evolved(was, reading("a", "b", "c")).steps
    assert (step.place, step.fate) == (name or "KSTREAM-SOURCE-0000000000", Fate.KEPT)
    (step,) = evolved(was, reading("a")).steps
    assert (step.needs_reset, step.changes[0].what) == (True, "reads")


@pytest.mark.parametrize("name", [None, "mine"])
def test_a_source_of_a_pattern_is_known_by_all_of_it(name: str | None) -> None:
    """A pattern was cut at its plus signs, and one with more of them taken for more topics."""

    def reading(pattern: str, *others: str) -> Build:
        def build(builder: StreamsBuilder) -> None:
            matching = builder.stream(re.compile(pattern), name=name)
            matching.join(builder.stream(*others, name="others"), "left", NEAR, name="pairs").to("out")
            matching.to("copy")

        return build

    was = noted(reading("logs-[a-z]+, +[0-9]+", "a"))
    more = evolved(was, reading("logs-[a-z]+, +[0-9]+", "a", "b"))
    assert {step.fate for step in more.steps} == {Fate.KEPT}, "more topics, and the same pattern"
    other = evolved(was, reading("logs-[a-z]+, +[0-9]+-v[0-9]+", "a"))
    assert [step.name for step in other.steps if step.needs_reset and step.changes[0].what == "reads"] == [
        *([] if name is None else [name]), "pairs",
    ]  # fmt: skip
    if name is None:
        assert (other.steps[0].place, other.steps[0].fate) == ("KSTREAM-SOURCE-0000000000-2", Fate.ADDED)


def counted(windows: Any = None, how: Any = None) -> Build:
    """An aggregate of one of several kinds of windows and functions."""

    def build(builder: StreamsBuilder) -> None:
        grouped: Any = builder.stream("in", value="long").group_by_key()
        if how == "cogroup":
            grouped = grouped.cogroup(ADD).cogroup(builder.stream("in", value="long").group_by_key(), ADD)
        if windows is not None:
            grouped = grouped.windowed_by(windows)
        if how == "cogroup":
            table = grouped.aggregate(0, merger=ADD, name="t") if windows else grouped.aggregate(0, name="t")
        elif isinstance(how, dict):
            table = grouped.aggregate(**how, name="t")
        else:
            table = grouped.aggregate(how or aggregates.sum(), name="t")
        table.to_stream().to("out")

    return build


ADD = python(lambda key, value, so_far: value + so_far, "bigint")
LISTED = {"initial": [], "adder": python(lambda key, value, so_far: [*so_far, value], "array<bigint>")}
OTHER_KINDS = [
    (counted(), counted(TimeWindows.of_size(10))),
    (counted(TimeWindows.of_size(10)), counted(SlidingWindows.of_time_difference(10))),
    (counted(TimeWindows.of_size(10)), counted(SessionWindows.of_inactivity_gap(10))),
    (counted(), counted(how=LISTED)),
    (counted(how=LISTED), counted(how="cogroup")),
    (counted(), counted(how=aggregates.mean())),
    (counted(), counted(how={"total": aggregates.sum(), "many": aggregates.count()})),
]


@pytest.mark.parametrize(("before", "after"), OTHER_KINDS)
def test_state_of_another_kind_is_not_gone_on_with_by_anybodys_word(before: Build, after: Build) -> None:
    """With accept= tasks took states of one kind for those of another, or failed on them in Spark."""
    was = noted(before)
    with pytest.raises(PipelineError, match="the state of t cannot be gone on with") as refused:
        evolved(was, after, accept=["t"]).check("somewhere")
    assert "accept" not in str(refused.value)
    for entry in was["steps"].values():
        del entry["shape"]["kind of state"]
    assert fates(evolved(was, before)) == {"t": "kept"}, "an earlier version did not note it"


def test_a_named_step_may_go_and_come_back_to_its_state() -> None:
    def both(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in").group_by_key()
        grouped.count(name="counts").to_stream().to("counts")
        grouped.count(name="others").to_stream().to("others")

    def one(builder: StreamsBuilder) -> None:
        builder.stream("in").group_by_key().count(name="counts").to_stream().to("counts")

    was = noted(both)
    found = evolved(was, one)
    assert fates(found) == {"counts": "kept", "others": "removed"}
    found.check("somewhere")
    assert fates(evolved(noted(one, was), both)) == {"counts": "kept", "others": "kept"}


def test_a_step_that_comes_back_is_reset_where_nobody_wrote_for_it_meanwhile() -> None:
    """The topic between was not written without it, and the step went on as if nothing had happened."""

    def chain(*names: str) -> Build:
        def build(builder: StreamsBuilder) -> None:
            if "sums" in names:
                table = builder.stream("in", value="long").group_by_key().aggregate(aggregates.sum(), name="sums")
                table.to_stream().to("out")
                for name in {"many", "more"} & {*names}:
                    table.to_stream().group_by("value").count(name=name).to_stream().to("out")
            builder.stream("in").group_by_key().count(name="alone").to_stream().to("out")

        return build

    everything = chain("sums", "many")
    was = noted(everything)
    without = noted(chain("sums"), was)
    again = noted(chain("sums"), without)
    for known in (without, again):
        found = evolved(known, everything)
        assert [step.name for step in found.steps if step.needs_reset] == ["many"]
        with pytest.raises(PipelineError, match="is without what app-sums-repartition would have had"):
            found.check("somewhere")
        assert found.reset == ("many", "sums")
    back = noted(everything, again, accept=["many"])
    assert not evolved(back, everything).reset, "accepted once"
    assert not evolved(noted(chain(), was), everything).reset, "both stood still"
    assert not evolved(noted(chain("sums", "more"), was), everything).reset, "it was written for another step"


def test_a_numbered_step_that_goes_for_good_is_accepted_once() -> None:
    was = noted(sums())
    new: Build = lambda builder: builder.stream("in").to("out")  # noqa: E731
    number = "KSTREAM-AGGREGATE-0000000001"
    evolved(was, new, accept=[number]).check("somewhere")
    evolved(noted(new, was, accept=[number]), new).check("somewhere")


def test_steps_that_are_joined_by_a_topic_are_reset_together() -> None:
    def chain(first: str) -> Build:
        def build(builder: StreamsBuilder) -> None:
            table = builder.stream("in", value="long").group_by_key().aggregate(aggregates.sum(first), name="sums")
            table.to_stream().group_by("value").count(name="many").to_stream().to("out")
            builder.stream("elsewhere").group_by_key().count(name="alone").to_stream().to("alone")

        return build

    found = evolved(noted(chain("value")), chain("value * 10"))
    assert fates(found) == {"sums": "changed", "many": "kept", "alone": "kept"}
    assert found.reset == ("many", "sums")
    assert found.command("/data/my checkpoint", "b:9092") == (
        "ottla streams-application-reset --application-id app --bootstrap-server b:9092 "
        "--checkpoint '/data/my checkpoint' --steps many,sums"
    )


# checkpoints of before names


def test_a_checkpoint_of_an_earlier_version_goes_on_under_its_own_names() -> None:
    def build(front: Callable[[Any], Any]) -> Build:
        def made(builder: StreamsBuilder) -> None:
            counts = front(builder.stream("in")).group_by_key().count(name="counts")
            counts.to_stream().group_by("value").count().to_stream().to("out")

        return made

    was = old(build(lambda stream: stream))
    assert was["steps"]["KSTREAM-COUNT-0000000001"] == "Aggregate(counts, None, folds=[None=count])"
    found = evolved(was, build(lambda stream: stream))
    assert fates(found) == {"counts": "kept", "KSTREAM-COUNT-0000000004": "kept"}
    assert "whether those of counts, KSTREAM-COUNT-0000000004 have changed cannot be judged" in found.unjudged
    found.check("somewhere")
    now = noted(build(lambda stream: stream), was)
    placed = topology(build(lambda stream: stream))
    placed = placed.at(trace(now, placed))
    assert placed.places == {"counts": "KSTREAM-COUNT-0000000001"}
    assert list(own_topics(placed, plan(placed))) == ["app-KSTREAM-COUNT-0000000001-repartition"]
    assert evolved(now, build(lambda stream: stream)).unjudged == ""


def test_a_filter_is_added_to_a_checkpoint_of_an_earlier_version_in_front_of_what_is_named() -> None:
    was = old(sums(name="sums"))
    found = evolved(was, sums(front=lambda stream: stream.filter("value > 1"), name="sums"))
    assert fates(found) == {"sums": "kept"}
    assert found.steps[0].place == "KSTREAM-AGGREGATE-0000000001"
    counted = evolved(was, lambda builder: builder.stream("in").group_by_key().count(name="sums"))
    with pytest.raises(PipelineError, match="its step was Aggregate"):
        counted.check("somewhere")
    whole = "ottla streams-application-reset --application-id app --checkpoint somewhere"
    assert counted.command("somewhere") == whole, "it does not say which steps read each other"


def test_notes_are_added_and_the_newest_counts(tmp_path: Path) -> None:
    (tmp_path / "topology").mkdir()
    (tmp_path / "topology" / "part-00000-by-spark.txt").write_text(json.dumps(old(sums(name="sums"))) + "\n")
    known = kept.read_local(tmp_path)
    assert "version" not in known
    kept.write_local(tmp_path, noted(sums(name="sums"), known))
    again = kept.read_local(tmp_path)
    assert (again["version"], again["generation"]) == (2, 1)
    kept.write_local(tmp_path, {**again, "tasks": 7})
    assert kept.read_local(tmp_path)["tasks"] == 7
    kept.write_local(tmp_path, again)
    (tmp_path / "topology" / "part-9.txt").write_text(json.dumps({"version": 3, "generation": 9}))
    with pytest.raises(PipelineError, match="newer version of Ottla"):
        kept.read_local(tmp_path)

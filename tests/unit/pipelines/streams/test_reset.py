"""A checkpoint taken back to its beginning: what goes, in which order, and what an interruption leaves. No broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipelines import PipelineError
from ottla.pipelines.streams import StreamsBuilder, aggregates
from ottla.pipelines.streams.evolution import check_no_reset, notes
from ottla.pipelines.streams.notes import read_local, write_local
from ottla.pipelines.streams.planning import NOTES, plan
from ottla.pipelines.streams.reset import plan_reset


def checkpoint(home: Path) -> None:
    """Of two steps that are joined by a topic, and one that is alone."""
    builder = StreamsBuilder()
    sums = builder.stream("words").group_by_key().aggregate(aggregates.sum(), name="sums").to_stream()
    sums.group_by("value").count(name="many").to_stream().to("out")
    builder.stream("words").group_by_key().count(name="alone").to_stream().to("out")
    made = builder.build("shop")
    (home / NOTES).mkdir(parents=True)
    write_local(home, {"application": "shop", "tasks": 1, "steps": notes(made, plan(made))})
    for query in plan(made):
        (home / query.name / "state").mkdir(parents=True)


def test_a_start_after_a_reset_that_was_interrupted_is_refused_until_it_is_done_again(tmp_path: Path) -> None:
    """Its topics may be there still: a start would read old results and write them anew."""
    home = tmp_path / "the checkpoint"
    checkpoint(home)
    check_no_reset(read_local(home), str(home))
    begun = plan_reset("shop", str(home), ["sums", "many"])
    begun.begin()
    begun.remove_checkpoints()
    with pytest.raises(PipelineError) as refused:
        check_no_reset(read_local(home), str(home))
    assert str(refused.value) == (
        "a reset of many, sums was interrupted: do it again with `ottla streams-application-reset --application-id "
        f"shop --checkpoint '{home}' --steps many,sums`"
    )
    other = plan_reset("shop", str(home), ["alone"])
    other.begin()
    other.remove_checkpoints()
    other.forget_steps()
    with pytest.raises(PipelineError, match="a reset of many, sums was interrupted"):
        check_no_reset(read_local(home), str(home))
    again = plan_reset("shop", str(home), ["sums", "many"])
    again.begin()
    again.remove_checkpoints()
    again.forget_steps()
    assert [path.name for path in home.iterdir()] == [], "no step is left, so it is a new checkpoint"


def test_steps_that_are_left_go_on_after_a_reset(tmp_path: Path) -> None:
    checkpoint(tmp_path)
    done = plan_reset("shop", str(tmp_path), ["sums", "many"])
    done.begin()
    done.remove_checkpoints()
    done.forget_steps()
    known = read_local(tmp_path)
    check_no_reset(known, str(tmp_path))
    assert (list(known["steps"]), known["tasks"]) == (["alone"], 1)
    assert {path.name for path in tmp_path.iterdir()} == {NOTES, "alone"}


def test_a_whole_reset_takes_no_topic_of_another_application(tmp_path: Path) -> None:
    """It took all that begin with the application's name, and so those of `shop-eu`."""
    checkpoint(tmp_path)
    whole = plan_reset("shop", str(tmp_path))
    assert whole.places == ("sums", "many", "alone")
    assert set(whole.topics or ()) == {
        "shop-sums-repartition", "shop-sums-changelog", "shop-many-changelog", "shop-alone-changelog",
    }  # fmt: skip
    known = read_local(tmp_path)
    write_local(tmp_path, {**known, "steps": {**known["steps"], "KSTREAM-COUNT-0000000001": "Aggregate(old, None)"}})
    assert plan_reset("shop", str(tmp_path)).topics is None, "an old line does not tell them"
    write_local(tmp_path, {**read_local(tmp_path), "resetting": ["sums", "many", "alone", "KSTREAM-COUNT-0000000001"]})
    with pytest.raises(PipelineError, match=r"--checkpoint \S+`$"):
        check_no_reset(read_local(tmp_path), str(tmp_path))

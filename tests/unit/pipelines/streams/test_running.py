"""What a topology's start refuses before it asks anybody."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from ottla.client import FakeAdmin, NewTopic
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams import JoinWindows, StreamsBuilder
from ottla.pipelines.streams.cluster import ClusterTopics
from ottla.pipelines.streams.planning import plan
from ottla.pipelines.streams.processor import Context, Processor, ProcessorOperator, Record, TimeMode
from ottla.pipelines.streams.running import check, check_partitions


class Passing(Processor):
    """Sends on what it gets."""

    def process(self, record: Record, context: Context) -> None:
        context.forward(record.key, record.value)


def test_what_goes_by_the_clock_has_no_end_and_says_so() -> None:
    """Spark would run micro-batches without data for ever."""
    builder = StreamsBuilder()
    operator = ProcessorOperator(processor=Passing(), key_type="string", value_type="string", time=TimeMode.PROCESSING)
    builder.stream("in", key="string", value="string").process(operator).to("out")
    topology = builder.build("clocked")
    nobody = cast(SparkSession, None)
    with pytest.raises(PipelineError, match=r"goes by processing time.*start it without available_now"):
        topology.start(nobody, "nowhere:9092", checkpoint="nowhere", available_now=True)


def _advice(message: str) -> list[str]:
    return re.findall(r"`(\.[^`]*)`", message)


@pytest.mark.parametrize("kind", ["streams", "stream and table", "tables"])
def test_the_advice_for_topics_of_unequal_partitions_is_a_call_that_mends_the_join(kind: str) -> None:
    def joined(advice: str) -> Any:
        builder = StreamsBuilder()
        left: Any = builder.table("left") if kind == "tables" else builder.stream("left")
        right: Any = builder.stream("right") if kind == "streams" else builder.table("right")
        left = eval(f"left{advice}", {"left": left})
        result = left.join(right, "left", *([JoinWindows.of_time_difference(5)] if kind == "streams" else []))
        (result.to_stream() if kind == "tables" else result).to("out")
        return plan(builder.build("unequal"))

    counts = {"left": 1, "right": 2}
    with pytest.raises(PipelineError, match="left has 1, right has 2") as refused:
        check_partitions(joined(""), counts)
    [advice] = _advice(str(refused.value))
    check_partitions(joined(advice), counts)


def test_the_advice_for_a_topic_with_other_partitions_than_before_has_calls_that_exist() -> None:
    facts = {"application": "a", "tasks": 1, "partitions": {"t": 1}}
    with pytest.raises(PipelineError, match="t had 1 partitions") as refused:
        check(facts, {**facts, "partitions": {"t": 2}})
    of_stream, of_table = _advice(str(refused.value))
    builder = StreamsBuilder()
    assert eval(f"stream{of_stream}", {"stream": builder.stream("t")}).node
    assert eval(f"table{of_table}", {"table": builder.table("u")}).node


def test_a_topic_between_steps_that_has_other_partitions_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`repartition(partitions=4)` where the topic has two did nothing, in silence. State does not depend on it."""
    fake = FakeAdmin()
    cluster = fake.cluster
    fake.create_topics([NewTopic("app-lengths-repartition", 2)])["app-lengths-repartition"].result()
    topics = ClusterTopics(cast(SparkSession, None), "fake:9092", kafka={}, source={}, sink={})
    monkeypatch.setattr(ClusterTopics, "admin", lambda _: FakeAdmin(cluster))
    topics.ensure_topics({"app-lengths-repartition": 2, "app-new-repartition": 3})
    assert caplog.messages == []
    topics.ensure_topics({"app-lengths-repartition": 4, "app-new-repartition": 3})
    [told] = caplog.messages
    assert told.startswith("[Topic app-lengths-repartition] It has 2 partitions, and the topology asks for 4")
    assert topics.partitions == {"app-lengths-repartition": 2, "app-new-repartition": 3}

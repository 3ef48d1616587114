"""What may be deleted from the topics between queries: what all that read it have committed, and nothing else."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from ottla.client.admin import FakeAdmin, FakeCluster, NewTopic
from ottla.pipelines.streams import StreamsBuilder, python
from ottla.pipelines.streams.planning import plan
from ottla.pipelines.streams.purging import Progress, Purging, consumed, readers
from ottla.types import TopicPartition

TOPIC = "app-KTABLE-SELECT-0000000001-repartition"


def progress(*sources: dict[str, dict[str, int]] | None) -> dict[str, Any]:
    """What Spark says of a micro-batch, as far as it is looked at; it gives offsets as text or as an object."""
    return {"sources": [{"endOffset": json.dumps(one) if index else one} for index, one in enumerate(sources)]}


def test_only_topics_between_queries_are_looked_at_with_all_that_read_them() -> None:
    builder = StreamsBuilder()
    grouped = builder.table("in").group_by("value")
    counts = grouped.count()
    counts.to_stream().to("out")
    grouped.reduce(python(max), python(min)).join(counts, "left").to_stream().to("joined")
    topology = builder.build("app")
    assert readers(topology, plan(topology)) == {
        TOPIC: ["KTABLE-AGGREGATE-0000000002", "KTABLE-REDUCE-0000000005"],
        "app-KTABLE-REDUCE-0000000005-repartition": ["KTABLE-JOIN-0000000006"],
        "app-KTABLE-AGGREGATE-0000000002-repartition": ["KTABLE-JOIN-0000000006"],
    }


def test_a_record_goes_when_the_slowest_reader_is_done_with_it() -> None:
    topics = {"t": ["a", "b"], "u": ["a"]}
    told = {
        "a": progress({"t": {"0": 7, "1": 4}, "in": {"0": 99}}, {"u": {"0": 5}}, {"u": {"0": 3}}),
        "b": progress({"t": {"0": 2, "1": 9}}),
    }
    assert consumed(topics, told) == {
        TopicPartition("t", 0): 2, TopicPartition("t", 1): 4, TopicPartition("u", 0): 3,
    }  # fmt: skip
    assert consumed(topics, {**told, "b": None}) == {TopicPartition("u", 0): 3}, "b has not told yet"
    assert consumed(topics, {**told, "b": progress(None)}) == {TopicPartition("u", 0): 3}, "b has read nothing"


def test_purging_deletes_up_to_there_and_goes_on_when_a_topic_cannot_be_reached(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = FakeCluster()
    FakeAdmin(cluster).create_topics([NewTopic("t", 1)]).all()
    held = cluster.topics["t"].partitions[0]
    held.timestamps += [0] * 10
    reached: Progress = {"a": progress({"t": {"0": 4}})}
    purging = Purging({"t": ["a"]}, admin=lambda: FakeAdmin(cluster), progress=lambda: reached, interval_s=0.01)
    purging.once()
    assert (held.start_offset, held.end_offset) == (4, 10)
    cluster.topics["gone"] = cluster.topics.pop("t")
    reached = {"a": progress({"t": {"0": 9}})}
    purging.once()
    assert "What was consumed was not deleted" in caplog.text
    cluster.topics["t"] = cluster.topics.pop("gone")
    purging.start()
    while held.start_offset < 9:
        time.sleep(0.01)
    purging.stop()
    assert held.end_offset == 10

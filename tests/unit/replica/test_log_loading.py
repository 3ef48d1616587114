"""`ReplicaManager.open_logs`: metadata that changes while the logs are being opened counts all the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ottla.metadata import Image, ImageBuilder, between
from ottla.replica import ReplicaManager
from ottla.types import TopicPartition
from ottla.wire.metadata import ConfigRecord, RemoveTopicRecord
from tests.unit.replica.node import NODE_ID, TOPIC_CONFIG, TestNode, directory_id, topic_id


def test_what_the_metadata_says_when_the_logs_are_open_is_what_counts() -> None:
    node = TestNode()
    for name in ("kept", "changed", "deleted"):
        node.create_topic(name, retention_ms=1000)
    node.replicas.logs.shutdown()
    replicas = ReplicaManager.create(
        node.world, node.config, NODE_ID, directory_ids={path: directory_id(path) for path in node.directories}
    )
    assert node.virtual is not None
    node.virtual.loop.run_until_complete(replicas.open_logs(node.image))
    assert replicas.logs.logs == {}, "nothing is served before the first metadata"
    builder = ImageBuilder(node.image)
    builder.replay_all(
        [
            ConfigRecord(TOPIC_CONFIG, "changed", "retention.ms", "2000"),
            RemoveTopicRecord(topic_id=topic_id("deleted")),
        ]
    )
    _, image = builder.build(offset=node.image.offset + 2, epoch=1, timestamp_ms=0)
    replicas.on_metadata(between(Image("cluster"), image, is_snapshot=True), image)
    assert {name.topic: one.config.retention_ms for name, one in replicas.logs.logs.items()} == {
        "kept": 1000,
        "changed": 2000,
    }
    assert list(replicas.logs.stray_logs) == [TopicPartition("deleted", 0)]
    assert sorted(replicas.by_name) == ["changed", "kept"]
    replicas.logs.shutdown()


@pytest.mark.parametrize("thread_count", [1, 3])
def test_the_logs_of_each_directory_are_opened_in_as_many_threads_as_the_setting_says(thread_count: int) -> None:
    """`num.recovery.threads.per.data.dir`: for each directory, not for all together."""
    node = TestNode({"num.recovery.threads.per.data.dir": thread_count}, directories=("/a", "/b"))
    for number in range(200):
        node.create_topic(f"t{number}", directory=node.directories[number % 2])
    node.replicas.logs.shutdown()
    replicas = ReplicaManager.create(
        node.world, node.config, NODE_ID, directory_ids={path: directory_id(path) for path in node.directories}
    )
    assert node.virtual is not None
    busy: Counter[str] = Counter()
    most: Counter[str] = Counter()
    in_thread: Any = node.virtual.tasks.in_thread

    async def counted(work: Any) -> object:
        path = work.__self__.directory.path
        busy[path] += 1
        most[path] = max(most[path], busy[path])
        try:
            return await in_thread(work)
        finally:
            busy[path] -= 1

    node.virtual.tasks.in_thread = counted  # type: ignore[method-assign, assignment]
    node.virtual.loop.run_until_complete(replicas.open_logs(node.image))
    assert most == {"/a": thread_count, "/b": thread_count}
    replicas.logs.stop_loading()

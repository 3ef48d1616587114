"""DescribeLogDirs: directories, their room, and the replicas in them."""

from __future__ import annotations

from ottla.errors import KafkaStorageError
from ottla.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tests.support.logs import make_batch
from tests.unit.replica.node import BROKER_CONFIG, NODE_ID, TestNode


def ask(
    node: TestNode, topics: list[DescribableLogDirTopic] | None = None, version: int = 5
) -> DescribeLogDirsResponse:
    response = node.send(DescribeLogDirsRequest(topics), version)
    assert isinstance(response, DescribeLogDirsResponse)
    return response


def test_every_directory_is_shown_with_its_replicas() -> None:
    node = TestNode(directories=["/a", "/b"])
    assert node.virtual is not None
    node.virtual.disk.capacity_bytes = 1 << 30
    node.create_topic("t", 2, directory="/a")
    node.create_topic("u", directory="/b")
    node.partition("t", 1).append(make_batch(b"v"))
    first, second = ask(node).results
    assert [first.log_dir, second.log_dir] == ["/a", "/b"]
    (topic,) = first.topics
    assert [(one.partition_index, one.partition_size, one.offset_lag) for one in topic.partitions] == [
        (0, 0, 0),
        (1, len(make_batch(b"v")), 0),
    ]
    assert first.total_bytes == 1 << 30
    assert 0 < first.usable_bytes < 1 << 30
    (chosen, other) = ask(node, [DescribableLogDirTopic("t", [1])]).results
    assert [one.partition_index for one in chosen.topics[0].partitions] == [1]
    assert other.topics == []


def test_a_directory_that_failed_is_shown_as_such() -> None:
    node = TestNode(directories=["/a", "/b"])
    node.replicas.logs.directories[1].failure = "gone"
    first, second = ask(node).results
    assert (first.error_code, second.error_code) == (0, KafkaStorageError.code)


def test_a_cordoned_directory_is_shown_as_such() -> None:
    node = TestNode(directories=["/a", "/b"])
    assert [one.is_cordoned for one in ask(node).results] == [False, False]
    node.set_config(str(NODE_ID), "cordoned.log.dirs", "/b", kind=BROKER_CONFIG)
    assert [one.is_cordoned for one in ask(node).results] == [False, True]

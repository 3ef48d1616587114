"""The end of a partition is asked of its leader, wherever that is: KIP-1226."""

from __future__ import annotations

import pytest

from ottla.errors import KafkaError, LeaderNotAvailable, NetworkException, NotLeaderOrFollower
from ottla.types import TopicPartition
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.world import Promise
from tests.unit.replica.node import TestNode

LATEST = -1


class Scene:
    """A node that leads `near`; broker 2 leads `far`, and nobody `lost`."""

    def __init__(self) -> None:
        self.node = TestNode()
        self.node.create_topic("near", 1)
        self.node.create_topic("far", 2, replicas=(2, 1))
        self.node.create_topic("lost", 1, replicas=(9,))
        self.ends = self.node.broker.share.ends

    def ask(self, topic: str, index: int = 0) -> Promise[int]:
        promise = self.ends.latest(TopicPartition(topic, index))
        self.node.run_ms(1)
        return promise

    def answer(self, *partitions: ListOffsetsPartitionResponse) -> None:
        (_, request, promise) = self.node.other_brokers.sent[-1]
        assert isinstance(request, ListOffsetsRequest)
        promise.set_result(ListOffsetsResponse(topics=[ListOffsetsTopicResponse("far", list(partitions))]))
        self.node.run_ms(1)


def test_the_lag_of_partitions_with_other_leaders_is_told() -> None:
    scene = Scene()
    assert scene.ask("near").result() == 0
    first = scene.ends.latest(TopicPartition("far", 0))
    second = scene.ask("far", 1)
    ((broker_id, request, _),) = scene.node.other_brokers.sent
    assert broker_id == 2
    assert isinstance(request, ListOffsetsRequest)
    (topic,) = request.topics
    assert (request.replica_id, request.isolation_level, topic.name) == (-1, 0, "far")
    assert [(one.partition_index, one.timestamp) for one in topic.partitions] == [(0, LATEST), (1, LATEST)]
    moved = NotLeaderOrFollower.code
    scene.answer(ListOffsetsPartitionResponse(1, moved), ListOffsetsPartitionResponse(0, 0, -1, 77, 3))
    assert first.result() == 77
    with pytest.raises(NotLeaderOrFollower):
        second.result()


def test_a_partition_without_a_leader_has_no_end() -> None:
    with pytest.raises(LeaderNotAvailable):
        Scene().ask("lost").result()


def test_a_leader_that_does_not_answer_is_an_error_of_the_partition() -> None:
    scene = Scene()
    asked = scene.ask("far")
    error: KafkaError = NetworkException("gone")
    scene.node.other_brokers.sent[-1][2].set_exception(error)
    scene.node.run_ms(1)
    with pytest.raises(NetworkException):
        asked.result()

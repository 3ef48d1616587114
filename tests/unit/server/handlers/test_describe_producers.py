"""DescribeProducers: who writes to a partition."""

from __future__ import annotations

from ottla.errors import InvalidTopicException, NotLeaderOrFollower, UnknownTopicOrPartition
from ottla.wire.messages.describe_producers import DescribeProducersRequest, PartitionResponse, TopicRequest
from tests.support.logs import make_batch
from tests.unit.replica.node import TestNode


def ask(node: TestNode, topic: str, index: int = 0) -> PartitionResponse:
    found = node.send(DescribeProducersRequest([TopicRequest(topic, [index])]), 0).topics[0].partitions[0]
    assert isinstance(found, PartitionResponse)
    return found


def test_producers_are_shown_with_their_sequences_and_open_transactions() -> None:
    node = TestNode({"transaction.partition.verification.enable": "false"})
    node.create_topic("t")
    node.partition().append(make_batch(b"a", b"b", producer_id=1, producer_epoch=2, sequence=0))
    node.partition().append(make_batch(b"c", producer_id=3, producer_epoch=0, sequence=0, is_transactional=True))
    first, second = ask(node, "t").active_producers
    assert (first.producer_id, first.producer_epoch, first.last_sequence) == (1, 2, 1)
    assert first.current_txn_start_offset == -1
    assert (second.producer_id, second.current_txn_start_offset) == (3, 2)


def test_what_is_not_here_is_refused() -> None:
    node = TestNode()
    node.create_topic("t")
    node.create_topic("away", replicas=(2,))
    assert ask(node, "bad name").error_code == InvalidTopicException.code
    assert ask(node, "x").error_code == UnknownTopicOrPartition.code
    assert ask(node, "t", 4).error_code == UnknownTopicOrPartition.code
    assert ask(node, "away").error_code == NotLeaderOrFollower.code

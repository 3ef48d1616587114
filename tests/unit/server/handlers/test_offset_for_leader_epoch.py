"""OffsetForLeaderEpoch: where epochs end."""

from __future__ import annotations

from ottla.errors import FencedLeaderEpoch, NotLeaderOrFollower, UnknownTopicOrPartition
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.logs import make_batch
from tests.unit.replica.node import NODE_ID, TestNode


def ask(node: TestNode, topic: str, leader_epoch: int, *, current: int = -1, version: int = 4) -> EpochEndOffset:
    request = OffsetForLeaderEpochRequest(
        -1, [OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(0, current, leader_epoch)])]
    )
    found = node.send(request, version).topics[0].partitions[0]
    assert isinstance(found, EpochEndOffset)
    return found


def test_an_epoch_ends_where_the_next_one_begins() -> None:
    node = TestNode()
    node.create_topic("t", leader_epoch=1)
    node.partition().append(make_batch(b"a", b"b"))
    node.change_partition("t", 0, leader=NODE_ID)
    node.partition().append(make_batch(b"c"))
    answers = [ask(node, "t", epoch, version=version) for version in (2, 3, 4) for epoch in (1, 2)]
    assert [(one.leader_epoch, one.end_offset) for one in answers] == [(1, 2), (2, 3)] * 3
    unknown = ask(node, "t", 9)
    assert (unknown.error_code, unknown.leader_epoch, unknown.end_offset) == (0, -1, -1)


def test_what_is_not_here_is_refused() -> None:
    node = TestNode()
    node.create_topic("t", leader_epoch=1)
    node.create_topic("away", replicas=(2,))
    assert ask(node, "t", 0, current=0).error_code == FencedLeaderEpoch.code
    assert ask(node, "away", 0).error_code == NotLeaderOrFollower.code
    assert ask(node, "x", 0).error_code == UnknownTopicOrPartition.code

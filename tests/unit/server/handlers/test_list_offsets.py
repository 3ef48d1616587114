"""ListOffsets: the ends of a log, and its first record at or after a time."""

from __future__ import annotations

import pytest

from ottla.errors import (
    FencedLeaderEpoch,
    InvalidRequest,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.support.logs import make_batch
from tests.unit.replica.node import NODE_ID, TestNode

LATEST = 11


def ask(
    node: TestNode,
    timestamp: int,
    *,
    version: int = LATEST,
    topic: str = "t",
    partitions: tuple[int, ...] = (0,),
    isolation_level: int = 0,
    replica_id: int = -1,
    epoch: int = -1,
) -> ListOffsetsPartitionResponse:
    request = ListOffsetsRequest(
        replica_id,
        isolation_level,
        [ListOffsetsTopic(topic, [ListOffsetsPartition(index, epoch, timestamp) for index in partitions])],
    )
    response = node.send(request, version)
    found = response.topics[0].partitions[0]
    assert isinstance(found, ListOffsetsPartitionResponse)
    return found


def node_with_times(*timestamps: int) -> TestNode:
    node = TestNode()
    node.create_topic("t", leader_epoch=2)
    for timestamp in timestamps:
        node.partition().append(make_batch(b"v", timestamp=timestamp))
    return node


def test_the_ends_of_a_log_and_its_largest_timestamp() -> None:
    node = node_with_times(100, 300, 200)
    node.partition().delete_records(1)
    assert (ask(node, -2).offset, ask(node, -1).offset) == (1, 3)
    newest = ask(node, -3)
    assert (newest.offset, newest.timestamp, newest.leader_epoch) == (1, 300, 2)
    assert ask(node, -4).offset == 1
    assert [ask(node, special).offset for special in (-5, -6)] == [-1, -1]


def test_the_first_record_at_or_after_a_time() -> None:
    node = node_with_times(100, 300, 200)
    found = ask(node, 150)
    assert (found.error_code, found.offset, found.timestamp, found.leader_epoch) == (0, 1, 300, 2)
    nothing = ask(node, 301)
    assert (nothing.error_code, nothing.offset, nothing.timestamp, nothing.leader_epoch) == (0, -1, -1, -1)


def test_read_committed_ends_where_the_first_open_transaction_begins() -> None:
    node = TestNode({"transaction.partition.verification.enable": "false"})
    node.create_topic("t")
    node.partition().append(make_batch(b"a"))
    node.partition().append(make_batch(b"b", producer_id=1, producer_epoch=0, sequence=0, is_transactional=True))
    assert (ask(node, -1).offset, ask(node, -1, isolation_level=1).offset) == (2, 1)


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_special_timestamps_are_known_since_their_version(timestamp: int, since: int) -> None:
    node = node_with_times(100)
    assert ask(node, timestamp, version=since - 1).error_code == UnsupportedVersion.code
    assert ask(node, timestamp, version=since).error_code == 0
    assert ask(node, -7).error_code == UnsupportedVersion.code


def test_each_partition_is_refused_by_itself() -> None:
    node = node_with_times(100)
    node.create_topic("away", replicas=(2,))
    assert ask(node, -1, topic="x").error_code == UnknownTopicOrPartition.code
    assert ask(node, -1, topic="away").error_code == NotLeaderOrFollower.code
    assert ask(node, -1, epoch=1).error_code == FencedLeaderEpoch.code
    assert ask(node, -1, partitions=(0, 0)).error_code == InvalidRequest.code


def test_a_debugging_reader_may_ask_a_follower() -> None:
    node = TestNode()
    node.create_topic("t", replicas=(2, NODE_ID))
    assert ask(node, -2).error_code == NotLeaderOrFollower.code
    assert ask(node, -2, replica_id=-2).offset == 0


def test_a_leader_that_lags_its_epoch_says_so_in_words_that_clients_know() -> None:
    node = TestNode()
    node.create_topic("t", replicas=(NODE_ID, 2))
    node.partition().append(make_batch(b"a"))
    node.change_partition("t", 0, leader=NODE_ID)
    assert ask(node, -1).error_code == OffsetNotAvailable.code
    assert ask(node, -1, version=4).error_code == LeaderNotAvailable.code
    assert ask(node, -2).error_code == 0

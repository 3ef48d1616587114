"""What a partition appends, shows and refuses."""

from __future__ import annotations

import pytest

from ottla.errors import (
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    PolicyViolation,
    UnknownLeaderEpoch,
)
from ottla.replica import Partition
from ottla.storage import Isolation, SpecialTimestamp, TimedOffset
from tests.support.logs import make_batch
from tests.unit.replica.node import NODE_ID, TestNode


def partition_of(node: TestNode, **topic: object) -> Partition:
    made = node.create_topic("t", **topic)  # type: ignore[arg-type]
    assert made is not None
    return made


def high_watermark(partition: Partition) -> int:
    assert partition.log is not None
    return partition.log.high_watermark


def test_a_single_replica_shows_what_it_appended_at_once() -> None:
    partition = partition_of(TestNode())
    info = partition.append(make_batch(b"a", b"b"))
    assert (info.first_offset, info.last_offset) == (0, 1)
    assert high_watermark(partition) == 2
    read = partition.read(0, bytes_max=1000)
    assert read.records is not None
    assert read.records.size == info.size


def test_the_high_watermark_waits_for_every_in_sync_follower() -> None:
    partition = partition_of(TestNode(), replicas=(NODE_ID, 2, 3), isr=(NODE_ID, 2))
    partition.append(make_batch(b"a"))
    assert high_watermark(partition) == 0
    assert partition.replication_outcome(1) is None
    partition.record_fetch(3, fetch_offset=1, log_start_offset=0)
    assert high_watermark(partition) == 0, "broker 3 is not in sync, and does not count"
    partition.record_fetch(2, fetch_offset=1, log_start_offset=0)
    assert high_watermark(partition) == 1
    assert partition.replication_outcome(1) == 0


def test_acks_all_needs_min_insync_replicas_and_acks_one_does_not() -> None:
    partition = partition_of(TestNode(), replicas=(NODE_ID, 2), isr=(NODE_ID,), min_insync_replicas=2)
    with pytest.raises(NotEnoughReplicas):
        partition.append(make_batch(b"a"), required_acks=-1)
    assert partition.append(make_batch(b"a"), required_acks=1).first_offset == 0
    assert high_watermark(partition) == 0, "what only the leader has could be lost with it"
    assert partition.replication_outcome(0) == NotEnoughReplicasAfterAppend.code


def test_min_insync_replicas_is_at_most_the_number_of_replicas() -> None:
    partition = partition_of(TestNode(), min_insync_replicas=3)
    assert partition.append(make_batch(b"a"), required_acks=-1).first_offset == 0


def test_a_follower_neither_appends_nor_answers_as_a_leader() -> None:
    partition = partition_of(TestNode(), replicas=(2, NODE_ID))
    with pytest.raises(NotLeaderOrFollower):
        partition.append(make_batch(b"a"))
    with pytest.raises(NotLeaderOrFollower):
        partition.read(0, bytes_max=100)
    assert partition.read(0, bytes_max=100, only_leader=False).records is None


def test_metadata_that_is_older_than_what_is_known_changes_nothing() -> None:
    node = TestNode()
    partition = partition_of(node, replicas=(NODE_ID, 2))
    old = node.image.topics.by_name["t"].partitions[0]
    node.change_partition("t", 0, leader=NODE_ID)
    assert partition.log is not None
    assert not partition.lead(old, partition.log)
    assert not partition.follow(old, partition.log)
    assert (partition.leader_epoch, partition.is_leader) == (1, True)


def test_a_first_batch_beyond_the_limit_is_given_only_when_there_must_be_one() -> None:
    partition = partition_of(TestNode())
    partition.append(make_batch(b"a" * 100))
    whole = partition.read(0, bytes_max=10, at_least_one=True).records
    assert whole is not None
    assert whole.size > 100
    assert partition.read(0, bytes_max=10, at_least_one=False).records is None


def test_a_reader_that_diverges_is_told_where_the_logs_still_agree() -> None:
    node = TestNode()
    partition = partition_of(node, replicas=(NODE_ID, 2), isr=(NODE_ID,))
    partition.append(make_batch(b"a", b"b"))
    node.change_partition("t", 0, leader=NODE_ID)
    node.change_partition("t", 0, leader=NODE_ID)
    partition.append(make_batch(b"c"))
    read = partition.read(5, bytes_max=100, last_fetched_epoch=1, replica_id=2, current_leader_epoch=2)
    assert read.diverging == (0, 2)
    assert read.records is None
    with pytest.raises(OffsetOutOfRange):
        partition.read(0, bytes_max=100, last_fetched_epoch=9, replica_id=2)
    with pytest.raises(UnknownLeaderEpoch):
        partition.read(0, bytes_max=100, replica_id=7, current_leader_epoch=2)
    with pytest.raises(NotLeaderOrFollower):
        partition.read(0, bytes_max=100, replica_id=7)


def test_a_leader_that_lags_its_epoch_does_not_tell_where_the_end_is() -> None:
    node = TestNode()
    partition = partition_of(node, replicas=(NODE_ID, 2), isr=(NODE_ID, 2))
    partition.append(make_batch(b"a"))
    node.change_partition("t", 0, leader=NODE_ID)
    with pytest.raises(OffsetNotAvailable):
        partition.offset_for_timestamp(SpecialTimestamp.LATEST, isolation=Isolation.HIGH_WATERMARK)
    assert partition.offset_for_timestamp(SpecialTimestamp.LATEST) == TimedOffset(-1, 1, 1)
    partition.record_fetch(2, fetch_offset=1, log_start_offset=0)
    found = partition.offset_for_timestamp(SpecialTimestamp.LATEST, isolation=Isolation.HIGH_WATERMARK)
    assert found == TimedOffset(-1, 1, 1)


def test_records_are_deleted_up_to_an_offset_or_the_high_watermark() -> None:
    partition = partition_of(TestNode())
    for value in (b"a", b"b", b"c"):
        partition.append(make_batch(value))
    assert partition.delete_records(1) == 1
    assert partition.low_watermark == 1
    with pytest.raises(OffsetOutOfRange):
        partition.delete_records(9)
    with pytest.raises(OffsetOutOfRange):
        partition.delete_records(-2)
    assert partition.delete_records(-1) == 3
    with pytest.raises(OffsetOutOfRange):
        partition.read(0, bytes_max=100)


def test_a_compacted_topic_keeps_its_records() -> None:
    partition = partition_of(TestNode(), cleanup_policy="compact")
    with pytest.raises(PolicyViolation):
        partition.delete_records(0)

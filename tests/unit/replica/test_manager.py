"""Partitions follow the metadata: made, led, configured and removed."""

from __future__ import annotations

import errno

import pytest

from ottla.errors import (
    FencedLeaderEpoch,
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.metadata import UNASSIGNED
from ottla.types import TopicPartition, Uuid
from ottla.wire.metadata import PartitionRecord, TopicRecord
from tests.support.logs import make_batch
from tests.unit.replica.node import BROKER_CONFIG, NODE_ID, TestNode, directory_id, topic_id


def test_a_new_topic_has_logs_with_its_id_and_a_leader() -> None:
    node = TestNode()
    node.create_topic("t", 2, leader_epoch=3)
    partition = node.partition("t", 1)
    assert partition.is_leader
    assert partition.leader_epoch == 3
    assert partition.log is not None
    assert partition.log.topic_id == topic_id("t")
    assert partition.log.epochs.latest_epoch == 3
    node.replicas.logs.chores.run_due()
    assert node.world.disk.exists("/logs/t-1/partition.metadata")


def test_a_log_is_made_in_the_directory_that_the_metadata_names() -> None:
    node = TestNode(directories=["/a", "/b"])
    node.create_topic("t", directory="/b")
    assert node.world.disk.exists("/b/t-0")
    assert not node.assigned


def test_a_directory_that_this_node_chose_is_told() -> None:
    node = TestNode(directories=["/a", "/b"])
    partition = node.create_topic("t", directory=UNASSIGNED)
    assert partition is not None
    assert partition.log is not None
    assert node.assigned == [(topic_id("t"), 0, directory_id(partition.log.log_dir.path))]


def test_a_deleted_topic_is_gone_at_once_and_its_files_after_a_while() -> None:
    node = TestNode()
    node.create_topic("t", file_delete_delay_ms=1000)
    node.delete_topic("t")
    with pytest.raises(UnknownTopicOrPartition):
        node.replicas.partition_by_name("t", 0)
    assert not node.world.disk.exists("/logs/t-0")
    assert any(name.endswith("-delete") for name in node.world.disk.names("/logs"))
    assert node.virtual is not None
    node.virtual.clock.advance(1001)
    node.replicas.logs.run_chores()
    assert not any(name.endswith("-delete") for name in node.world.disk.names("/logs"))


def test_a_topic_made_anew_begins_empty_under_its_new_id() -> None:
    node = TestNode()
    partition = node.create_topic("t")
    assert partition is not None
    partition.append(make_batch(b"old"))
    node.delete_topic("t")
    again = Uuid(16 * b"\7")
    node.create_topic("t", uuid=again)
    made = node.replicas.partition_by_id(again, 0)
    assert made.log is not None
    assert (made.log.log_end_offset, made.log.topic_id) == (0, again)
    with pytest.raises(UnknownTopicId):
        node.replicas.partition_by_id(topic_id("t"), 0)


def test_what_cannot_be_found_says_where_to_look() -> None:
    node = TestNode()
    node.create_topic("here", leader_epoch=5)
    node.create_topic("elsewhere", replicas=(2,))
    with pytest.raises(UnknownTopicOrPartition):
        node.replicas.partition_by_name("nowhere", 0)
    with pytest.raises(UnknownTopicOrPartition):
        node.replicas.partition_by_name("here", 1)
    with pytest.raises(NotLeaderOrFollower):
        node.replicas.partition_by_name("elsewhere", 0)
    with pytest.raises(FencedLeaderEpoch):
        node.replicas.partition_by_name("here", 0, current_leader_epoch=4)
    with pytest.raises(UnknownLeaderEpoch):
        node.replicas.partition_by_name("here", 0, current_leader_epoch=6)


def test_a_partition_that_moves_away_is_removed_here() -> None:
    node = TestNode()
    node.create_topic("t", replicas=(NODE_ID, 2))
    node.change_partition("t", 0, replicas=[2], isr=[2], leader=2, directories=[directory_id("/other")])
    with pytest.raises(NotLeaderOrFollower):
        node.replicas.partition_by_name("t", 0)
    assert TopicPartition("t", 0) not in node.replicas.logs.logs


def test_topic_settings_act_at_once() -> None:
    node = TestNode()
    partition = node.create_topic("t", retention_ms=5000)
    assert partition is not None
    assert partition.log is not None
    assert partition.log.config.retention_ms == 5000
    node.set_config("t", "retention.ms", "7000")
    assert partition.log.config.retention_ms == 7000
    node.set_config("t", "retention.ms", None)
    assert partition.log.config.retention_ms == 604_800_000


def test_dynamic_settings_of_brokers_reach_topics_that_have_none_of_their_own() -> None:
    node = TestNode({"log.retention.hours": "2"})
    plain = node.create_topic("plain")
    own = node.create_topic("own", retention_ms=5000)
    assert plain is not None
    assert plain.log is not None
    assert own is not None
    assert own.log is not None
    assert plain.log.config.retention_ms == 7_200_000
    node.set_config("", "log.retention.ms", "1000", kind=BROKER_CONFIG)
    assert (plain.log.config.retention_ms, own.log.config.retention_ms) == (1000, 5000)
    node.set_config(str(NODE_ID), "log.retention.ms", "2000", kind=BROKER_CONFIG)
    assert plain.log.config.retention_ms == 2000


def test_dynamic_settings_of_the_cleaner_act_at_once_and_after_a_restart() -> None:
    """They were taken and told of, and the cleaner went on with those of the file."""
    node = TestNode({"log.cleaner.backoff.ms": "7"})
    assert node.replicas.logs.cleaner is not None
    assert node.replicas.logs.cleaner.config.backoff_ms == 7
    node.set_config("", "log.cleaner.backoff.ms", "70", kind=BROKER_CONFIG)
    assert node.replicas.logs.cleaner.config.backoff_ms == 70
    node.stop()
    again = TestNode({"log.cleaner.backoff.ms": "7"}, world=node.world, image=node.image)
    assert again.replicas.logs.cleaner is not None
    assert again.replicas.logs.cleaner.config.backoff_ms == 70
    again.set_config("", "log.cleaner.backoff.ms", None, kind=BROKER_CONFIG)
    assert again.replicas.logs.cleaner.config.backoff_ms == 7


def test_a_dynamic_setting_that_cannot_be_used_is_left_out_alone() -> None:
    """All dynamic settings of the broker were left out with it."""
    node = TestNode()
    partition = node.create_topic("t")
    assert partition is not None
    assert partition.log is not None
    node.set_config("", "log.retention.ms", "1000", kind=BROKER_CONFIG)
    node.set_config("", "log.cleaner.backoff.ms", "soon", kind=BROKER_CONFIG)
    assert partition.log.config.retention_ms == 1000


def test_a_setting_that_cannot_be_read_is_left_out_alone(caplog: pytest.LogCaptureFixture) -> None:
    node = TestNode()
    partition = node.create_topic("t", retention_ms="soon", segment_bytes=2097152)
    assert partition is not None
    assert partition.log is not None
    assert partition.log.config.segment_bytes == 2097152
    assert partition.log.config.retention_ms == 604_800_000
    assert "retention.ms" in caplog.text


def test_a_restart_finds_its_partitions_and_sets_strays_aside() -> None:
    node = TestNode()
    kept = node.create_topic("kept", leader_epoch=1)
    node.create_topic("gone")
    assert kept is not None
    kept.append(make_batch(b"v"))
    node.stop()
    image = node.image
    again = TestNode(world=node.world, image=None)
    assert TopicPartition("kept", 0) not in again.replicas.logs.logs, "a cluster without topics knows none"
    assert [name for name in again.world.disk.names("/logs") if name.endswith("-stray")]
    assert image.topics.by_name["kept"].id == topic_id("kept")


def test_a_leader_of_a_new_epoch_writes_it_down_before_it_appends() -> None:
    node = TestNode()
    partition = node.create_topic("t")
    assert partition is not None
    partition.append(make_batch(b"v"))
    node.change_partition("t", 0, leader=NODE_ID)
    assert partition.leader_epoch == 1
    assert partition.end_offset_for_epoch(0) == (0, 1)
    assert partition.end_offset_for_epoch(1) == (1, 1)


def test_a_failed_directory_takes_only_its_own_partitions_out_of_service() -> None:
    node = TestNode(directories=["/a", "/b"])
    node.create_topic("bad", directory="/a")
    node.create_topic("good", directory="/b")
    assert node.virtual is not None
    node.virtual.disk.fail_at(1, errno.EIO, kinds=["write"])
    with pytest.raises(KafkaStorageError):
        node.partition("bad").append(make_batch(b"v"))
    assert [one.path for one in node.replicas.check_directories()] == ["/a"]
    assert node.failed_directories == ["/a"]
    with pytest.raises(KafkaStorageError):
        node.replicas.partition_by_name("bad", 0)
    node.partition("good").append(make_batch(b"v"))
    assert node.replicas.check_directories() == []
    # A new topic whose directory is the failed one is not begun elsewhere: what it has may come back.
    node.create_topic("lost", directory="/a")
    with pytest.raises(KafkaStorageError):
        node.replicas.partition_by_name("lost", 0)


def test_counters_of_deleted_topics_stay_in_the_total() -> None:
    node = TestNode()
    node.create_topic("t")
    node.replicas.stats_of("t").bytes_in += 10
    node.delete_topic("t")
    assert node.replicas.all_stats().bytes_in == 10
    assert "t" not in node.replicas.topic_stats()


def test_a_large_topic_is_begun_log_by_log_and_the_others_are_served_in_between() -> None:
    node = TestNode()
    node.create_topic("large", 30)
    assert len(node.replicas.by_name["large"]) == 8
    with pytest.raises(NotLeaderOrFollower):
        node.replicas.partition_by_name("large", 29)
    node.create_topic("small")
    assert node.partition("small").is_leader
    many = [
        record
        for number in range(30)
        for record in (
            TopicRecord(name=f"many-{number}", topic_id=topic_id(f"many-{number}")),
            PartitionRecord(topic_id=topic_id(f"many-{number}"), replicas=[NODE_ID], isr=[NODE_ID], leader=NODE_ID),
        )
    ]
    node.publish(*many)
    assert sum(name.startswith("many") for name in node.replicas.by_name) == 8
    node.run_ms(1)
    assert sum(name.startswith("many") for name in node.replicas.by_name) == 30
    assert sorted(node.replicas.by_name["large"]) == list(range(30))
    assert node.replicas.partition_by_name("large", 29).is_leader


def test_a_large_topic_that_is_deleted_or_changed_while_it_is_begun_ends_as_the_metadata_says() -> None:
    node = TestNode()
    node.create_topic("deleted", 30)
    node.create_topic("moved", 30, replicas=(NODE_ID, 2))
    node.delete_topic("deleted")
    node.change_partition("moved", 29, leader=2)
    node.run_ms(1)
    assert "deleted" not in node.replicas.by_name
    assert not [
        name for name in node.world.disk.names("/logs") if name.startswith("deleted") and "delete" not in name[8:]
    ]
    assert len(node.replicas.by_name["moved"]) == 30
    assert [node.partition("moved", index).is_leader for index in (28, 29)] == [True, False]


def test_producer_settings_that_the_metadata_changes_reach_the_logs() -> None:
    node = TestNode()
    partition = node.create_topic("t")
    assert partition is not None
    assert partition.log is not None
    config = partition.log.producers.config
    node.set_config("", "transaction.partition.verification.enable", "false", kind=BROKER_CONFIG)
    node.set_config("", "producer.id.expiration.ms", "1234", kind=BROKER_CONFIG)
    assert (config.transaction_partition_verification_enable, config.producer_id_expiration_ms) == (False, 1234)
    node.set_config("", "transaction.partition.verification.enable", None, kind=BROKER_CONFIG)
    assert config.transaction_partition_verification_enable

"""A directory that a real Kafka 4.3.1 wrote: opened, read, rebuilt and written again, byte for byte."""

from __future__ import annotations

import logging
import random
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from ottla.config import LogConfig
from ottla.records import NO_PRODUCER_ID, TimestampType, restamp
from ottla.sim import VirtualClock
from ottla.storage import AppendOrigin, Chores, Isolation, Log, LogDir, LogManager, ProducerStateConfig, load_log
from ottla.types import TopicPartition
from ottla.world import World
from ottla.world.system import SystemDisk
from tests.support.golden import golden_data_dir, golden_expected
from tests.support.logs import NO_VERIFICATION, read_batches

# What the broker that wrote the directory was set to (golden/README.md), and what its metadata log has for topics.
BROKER = {"log.index.interval.bytes": 1024, "log.index.size.max.bytes": 65536}
TOPICS: dict[str, dict[str, object]] = {
    "plain": {"internal.segment.bytes": 16384},
    "compacted": {"internal.segment.bytes": 16384, "cleanup.policy": "compact"},
    "transactions": {"internal.segment.bytes": 16384},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "broker-zstd": {"compression.type": "zstd"},
}
EXPECTED: dict[str, Any] = golden_expected()["topics"]
PARTITIONS = [TopicPartition(topic, int(number)) for topic, numbers in EXPECTED.items() for number in numbers]
SEGMENT_FILES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def golden_world() -> World:
    """The real disk, at the time the directory was written: producers expire by the clock."""
    return World(clock=VirtualClock(1_794_770_200_000), disk=SystemDisk(), random=random.Random(1))


def config_of(topic: str) -> LogConfig:
    return LogConfig(BROKER).with_topic(TOPICS.get(topic, {}))


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    return golden_data_dir(tmp_path / "golden")


@pytest.fixture
def manager(golden: Path) -> LogManager:
    manager = LogManager(golden_world(), [str(golden)], config_of=config_of)
    manager.start()
    return manager


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def test_it_opens_without_repair(golden: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is rebuilt, nothing is rewritten, nobody is warned; only the clean-shutdown marker is used up."""
    before = contents(golden)
    with caplog.at_level(logging.WARNING):
        manager = LogManager(golden_world(), [str(golden)], config_of=config_of)
        manager.start()
    assert caplog.messages == []
    assert len(manager.logs) == len({path.split("/")[0] for path in before if "/" in path}) - 1, "all but the metadata"
    after = contents(golden)
    assert before.pop(".kafka_cleanshutdown")
    assert after == before


def test_a_clean_stop_leaves_the_bytes_that_kafka_left(golden: Path, manager: LogManager) -> None:
    before = contents(golden)
    manager.shutdown(broker_epoch=19)
    after = contents(golden)
    assert after.pop(".kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":19}'
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        # The order of the lines is a hash map's in Kafka.
        assert sorted(after.pop(name).splitlines()) == sorted(before.pop(name).splitlines())
    # Opening an empty log takes back an epoch in which nothing was written, as Kafka does.
    for name in [name for name in before if name.endswith("leader-epoch-checkpoint")]:
        partition = name.rpartition("/")[0]
        if not any(data for path, data in before.items() if path.startswith(partition) and path.endswith(".log")):
            assert after.pop(name) == b"0\n0\n"
            del before[name]
    assert after == before


@pytest.mark.parametrize("bytes_max", [1, 3000, 1 << 20])
@pytest.mark.parametrize("isolation", [Isolation.HIGH_WATERMARK, Isolation.TXN_COMMITTED])
def test_every_record_is_what_a_stock_consumer_read(manager: LogManager, isolation: Isolation, bytes_max: int) -> None:
    name = "read_committed" if isolation is Isolation.TXN_COMMITTED else "read_uncommitted"
    for partition in PARTITIONS:
        rows = [
            [
                record.offset,
                2 if batch.timestamp_type is TimestampType.LOG_APPEND_TIME else 1,
                record.timestamp,
                encoded(record.key),
                encoded(record.value),
                [[key, encoded(value)] for key, value in record.headers],
            ]
            for batch in read_batches(manager.logs[partition], isolation=isolation, bytes_max=bytes_max)
            if not batch.is_control
            for record in batch.records()
        ]
        assert rows == EXPECTED[partition.topic][str(partition.partition)][name], partition


def encoded(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def test_low_and_high_offsets_are_what_a_stock_consumer_saw(manager: LogManager) -> None:
    for partition in PARTITIONS:
        expected = EXPECTED[partition.topic][str(partition.partition)]
        log = manager.logs[partition]
        assert (log.log_start_offset, log.high_watermark) == (expected["low"], expected["high"]), partition
        assert log.high_watermark == log.last_stable_offset == log.log_end_offset, partition


def test_look_ups_by_time_are_what_a_stock_consumer_got(manager: LogManager) -> None:
    count = 0
    for partition in PARTITIONS:
        log = manager.logs[partition]
        for timestamp, expected in EXPECTED[partition.topic][str(partition.partition)]["offset_for_time"]:
            found = log.offset_for_timestamp(timestamp)
            # A client that finds nothing gets the log's end from librdkafka, or -1.
            got = found.offset if found is not None else -1
            assert got == expected or (got == -1 and expected == log.high_watermark), (partition, timestamp)
            count += 1
    assert count > 20


@pytest.mark.parametrize("was_clean", [True, False])
def test_deleted_indexes_and_snapshots_come_back_byte_for_byte(golden: Path, was_clean: bool) -> None:
    before = contents(golden)
    for suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
        for path in golden.rglob("*" + suffix):
            if "__cluster_metadata" not in str(path):
                path.unlink()
    if not was_clean:
        (golden / ".kafka_cleanshutdown").unlink()
    manager = LogManager(golden_world(), [str(golden)], config_of=config_of)
    manager.start()
    manager.shutdown()
    after = contents(golden)
    names = {name for name in {*before, *after} if name.endswith(SEGMENT_FILES)}
    assert {name: after.get(name) for name in names} == {name: before.get(name) for name in names}


# Compaction has merged the segments of `compacted`: no run of appends leaves its files.
APPENDED = [partition for partition in PARTITIONS if partition.topic != "compacted"]
# The broker's own clock and its zstd library made the bytes of these.
BROKER_MADE = ("append-time", "broker-zstd")


@pytest.mark.parametrize("partition", APPENDED, ids=str)
def test_a_follower_that_appends_the_same_batches_writes_the_same_files(
    golden: Path, tmp_path: Path, partition: TopicPartition
) -> None:
    source = open_log(golden, partition)
    target = open_log(tmp_path / "new", partition)
    for batch in read_batches(source, isolation=Isolation.LOG_END):
        target.append_as_follower(bytes(batch.data), leader_epoch=batch.leader_epoch)
    target.close()
    assert_same_files(golden / str(partition), tmp_path / "new" / str(partition))


@pytest.mark.parametrize("partition", [p for p in APPENDED if p.topic not in BROKER_MADE], ids=str)
def test_a_leader_that_appends_the_same_batches_writes_the_same_files(
    golden: Path, tmp_path: Path, partition: TopicPartition
) -> None:
    """As the producers sent them: offsets from zero, no epoch. The broker's own stamps and codecs are another test."""
    source = open_log(golden, partition)
    target = open_log(tmp_path / "new", partition)
    for batch in read_batches(source, isolation=Isolation.LOG_END):
        data = bytearray(batch.data)
        restamp(data, 0, base_offset=0, leader_epoch=-1)
        if batch.is_control:
            target.append_as_leader(
                data, leader_epoch=batch.leader_epoch, origin=AppendOrigin.COORDINATOR, transaction_version=0
            )
        else:
            target.append_as_leader(data, leader_epoch=batch.leader_epoch)
        assert target.log_end_offset == batch.next_offset
    target.close()
    assert_same_files(golden / str(partition), tmp_path / "new" / str(partition))


def open_log(directory: Path, partition: TopicPartition) -> Log:
    world = golden_world()
    directory.mkdir(exist_ok=True)
    config = config_of(partition.topic).with_topic({"message.timestamp.after.max.ms": 2**62})
    log = load_log(
        world,
        LogDir(str(directory)),
        f"{directory}/{partition}",
        config,
        Chores(world.clock),
        was_clean_shutdown=True,
        producer_config=NO_VERIFICATION,
    )
    log.update_high_watermark(log.log_end_offset)
    return log


def assert_same_files(expected: Path, found: Path) -> None:
    wanted = {name: data for name, data in contents(expected).items() if name.endswith(SEGMENT_FILES)}
    got = {name: data for name, data in contents(found).items() if name.endswith(SEGMENT_FILES)}
    assert sorted(got) == sorted(wanted)
    for name, data in wanted.items():
        assert got[name] == data, name


def test_idempotent_producers_are_known_after_opening(golden: Path) -> None:
    """Their records are stamped years before the directory was written, so the expiry is set beyond that."""
    keep = ProducerStateConfig(producer_id_expiration_ms=2**62)
    manager = LogManager(golden_world(), [str(golden)], config_of=config_of, producer_config=keep)
    manager.start()
    log = manager.logs[TopicPartition("idempotent", 0)]
    last = list(read_batches(log))[-1]
    assert last.producer_id > NO_PRODUCER_ID
    assert log.producers.producers[last.producer_id].last_sequence == last.last_sequence

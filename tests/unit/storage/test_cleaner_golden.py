"""A directory that a real Kafka wrote, compacted: every codec, transactions, the coordinators' own topics."""

from __future__ import annotations

import random
from pathlib import Path

from ottla.config import CleanerConfig, LogConfig
from ottla.sim import VirtualClock
from ottla.storage import Isolation, Log, LogManager
from ottla.types import TopicPartition
from ottla.world import World
from ottla.world.system import SystemDisk
from tests.support.golden import golden_data_dir
from tests.support.logs import read_records

CONFIG = LogConfig(
    {"log.index.interval.bytes": 1024, "log.cleanup.policy": "compact", "log.cleaner.min.cleanable.ratio": 0.0}
)


def latest(log: Log) -> dict[bytes, tuple[int, bytes]]:
    """What an application that reads committed records to the end knows of every key. Tombstones may be gone."""
    found: dict[bytes, tuple[int, bytes]] = {}
    for record in read_records(log, isolation=Isolation.TXN_COMMITTED):
        if record.value is not None and record.key is not None:
            found[record.key] = record.offset, record.value
        elif record.key is not None:
            found.pop(record.key, None)
    return found


def start(directory: Path) -> LogManager:
    world = World(clock=VirtualClock(1_794_770_200_000), disk=SystemDisk(), random=random.Random(1))
    manager = LogManager(world, [str(directory)], config_of=lambda _: CONFIG, cleaner_config=CleanerConfig())
    manager.start()
    return manager


def test_compaction_keeps_the_latest_value_of_every_key_that_kafka_wrote(tmp_path: Path) -> None:
    manager = start(golden_data_dir(tmp_path))
    assert manager.cleaner is not None
    before = {partition: latest(log) for partition, log in manager.logs.items()}
    ends = {partition: log.log_end_offset for partition, log in manager.logs.items()}
    sizes = {partition: log.size for partition, log in manager.logs.items()}
    for log in manager.logs.values():
        log.roll()
    cleaned: set[TopicPartition] = set()
    while (step := manager.cleaner.step()).delay_ms == 0:
        if step.sync is not None:
            step.sync.run()
        if manager.cleaner.cleaning is not None:
            cleaned.add(manager.cleaner.cleaning)
    assert cleaned == {partition for partition, size in sizes.items() if size}
    assert manager.cleaner.uncleanable(manager.directories[0]) == []
    assert {partition: latest(log) for partition, log in manager.logs.items()} == before
    offsets = [log for partition, log in manager.logs.items() if partition.topic == "__consumer_offsets"]
    assert sum(log.size for log in offsets) < sum(sizes[log.partition] for log in offsets)
    manager.shutdown()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    again = start(tmp_path)
    assert {partition: log.log_end_offset for partition, log in again.logs.items()} == ends
    assert {partition: latest(log) for partition, log in again.logs.items()} == before

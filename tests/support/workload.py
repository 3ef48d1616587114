"""A directory with a bit of everything in it, written by Ottla: what other readers are tried on."""

from __future__ import annotations

import random

from ottla.config import LogConfig
from ottla.records import Codec, Record, build_batch
from ottla.sim import VirtualClock
from ottla.storage import AppendOrigin, Log, LogManager
from ottla.types import TopicPartition, Uuid
from ottla.world import World
from ottla.world.system import SystemDisk
from tests.support.logs import NO_VERIFICATION, end_transaction

NOW = 1_767_225_600_000
SMALL: dict[str, object] = {"internal.segment.bytes": 4000, "index.interval.bytes": 200}
TOPICS: dict[str, dict[str, object]] = {
    "plain": {**SMALL},
    "compacted": {**SMALL, "cleanup.policy": "compact"},
    "transactions": {**SMALL},
    "append-time": {**SMALL, "message.timestamp.type": "LogAppendTime"},
    "recompressed": {**SMALL, "compression.type": "gzip"},
    "preallocated": {**SMALL, "preallocate": True},
    **{codec.name.lower(): {**SMALL} for codec in Codec if codec is not Codec.NONE},
}


def write_everything(directory: str, seed: int = 1) -> int:
    """Fill `directory` and stop in order, twice; returns how many records the logs hold, control records included."""
    rng = random.Random(seed)
    clock = VirtualClock(NOW)
    world = World(clock=clock, disk=SystemDisk(), random=rng)
    for _ in range(2):
        manager = LogManager(
            world,
            [directory],
            config_of=lambda topic: LogConfig().with_topic(TOPICS[topic]),
            producer_config=NO_VERIFICATION,
        )
        manager.start()
        for number, topic in enumerate(TOPICS):
            log = manager.create(TopicPartition(topic, 0), topic_id=Uuid(bytes([number + 1]) * 16))
            _fill(log, topic, rng, clock)
            log.update_high_watermark(log.log_end_offset)
        manager.run_chores()
        manager.checkpoint()
        count = sum(one.log_end_offset - one.log_start_offset for one in manager.logs.values())
        manager.shutdown(broker_epoch=5)
    return count


def _fill(log: Log, topic: str, rng: random.Random, clock: VirtualClock) -> None:
    codec = Codec[topic.upper()] if topic.upper() in Codec.__members__ else Codec.NONE
    epoch = log.log_end_offset // 50
    sequences = {
        producer_id: entry.last_sequence + 1 if entry else 0
        for producer_id in (100, 200)
        for entry in [log.producers.producers.get(producer_id)]
    }
    for number in range(40):
        clock.advance(rng.randrange(1000))
        records = [
            Record(
                index,
                clock.now_ms() - rng.randrange(5000),
                b"key %d" % rng.randrange(10),
                rng.choice([None, b"", rng.randbytes(rng.randrange(200))]),
                tuple((f"header {n}", rng.choice([None, b"x"])) for n in range(rng.randrange(3))),
            )
            for index in range(rng.randrange(1, 5))
        ]
        is_transactional = topic == "transactions"
        producer_id = rng.choice([100, 200]) if is_transactional or number % 3 == 0 else -1
        batch = build_batch(
            records,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequences.get(producer_id, -1),
            is_transactional=is_transactional,
        )
        log.append_as_leader(bytearray(batch), leader_epoch=epoch)
        if producer_id >= 0:
            sequences[producer_id] += len(records)
        if is_transactional and rng.random() < 0.4:
            marker = end_transaction(producer_id, 0, commit=rng.random() < 0.5, timestamp=clock.now_ms())
            log.append_as_leader(marker, leader_epoch=epoch, origin=AppendOrigin.COORDINATOR, transaction_version=0)

"""The short way of an everyday append does what the long way does: the same files, answers and refusals."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from ottla.errors import KafkaError
from ottla.records import Codec, crc32c
from ottla.storage import AppendInfo, Log
from ottla.storage.log_appender import LogAppender
from tests.support.logs import DIRECTORY, TestLog, make_batch, new_world

NOW_MS = 1_767_225_600_000


def random_batch(chance: random.Random, sequences: dict[int, int]) -> bytearray:
    """Mostly good batches, some of known producers, some with a field that is wrong in one of many ways."""
    key = chance.choice([b"k", b"k", None])
    values = [chance.randbytes(chance.randrange(40)) for _ in range(chance.randrange(1, 4))]
    producer_id = chance.choice([-1, -1, 7, 8])
    sequence = -1
    if producer_id >= 0:
        sequence = max(0, sequences.get(producer_id, 0) + chance.choice([0, 0, 0, 0, 1, -1]))
        if chance.randrange(4):
            sequences[producer_id] = sequence + len(values)
    batch = bytearray(
        make_batch(
            *values,
            key=key,
            timestamp=NOW_MS + chance.choice([0, 0, 5, 7_200_000]),
            codec=chance.choice([Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD]),
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            sequence=sequence,
        )
    )
    match chance.randrange(16):
        case 0:
            del batch[chance.randrange(len(batch)) :]
        case 1:
            batch += batch[: chance.randrange(len(batch))]
        case 2:
            batch[chance.randrange(len(batch))] ^= 1 << chance.randrange(8)
        case 3 | 4:  # a field that the checksum covers, with a checksum that agrees
            position = chance.randrange(21, 61)
            batch[position] ^= 1 << chance.randrange(8)
            struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
        case 5 | 6:  # records that are not what the header says
            batch[chance.randrange(61, len(batch))] ^= 1 << chance.randrange(8)
            struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return batch


def append(log: Log, batch: bytearray, epoch: int) -> AppendInfo | tuple[type[KafkaError], str]:
    try:
        info = log.append_as_leader(batch, leader_epoch=epoch)
    except KafkaError as error:
        return type(error), error.message
    log.update_high_watermark(log.log_end_offset)
    return info


def files(test_log: TestLog) -> dict[str, bytes]:
    disk = test_log.world.disk
    return {name: disk.read(f"{test_log.path}/{name}") for name in disk.names(test_log.path)}


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"segment_bytes": 1 << 20, "internal_segment_bytes": 700, "index_interval_bytes": 100},
        {"max_message_bytes": 120, "flush_messages": 3},
        {"message_timestamp_after_max_ms": 2**62, "segment_ms": 3},
        {"message_timestamp_before_max_ms": 3_600_000},
        {"cleanup_policy": "compact"},
    ],
    ids=["defaults", "small-segments", "small-messages", "any-time", "recent", "compacted"],
)
def test_the_short_way_writes_and_answers_what_the_long_way_does(
    seed: int, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = []
    for _ in range(2):
        world = new_world(seed)
        world.clock.set_now_ms(NOW_MS)
        logs.append(TestLog(world, directory=DIRECTORY, **settings))
    short, long = logs
    plain = LogAppender.append_plain
    monkeypatch.setattr(
        LogAppender, "append_plain", lambda self, *asked: None if self is long.log.appender else plain(self, *asked)
    )
    chance = random.Random(seed)
    sequences: dict[int, int] = {}
    epoch = 0
    for _ in range(60):
        if chance.randrange(20) == 0:
            epoch += 1
        batch = random_batch(chance, sequences)
        assert append(short.log, copied(batch), epoch) == append(long.log, copied(batch), epoch)
        assert short.log.log_end_offset == long.log.log_end_offset
        assert short.log.recovery_point == long.log.recovery_point
    assert short.log.log_end_offset > 0, "some of the batches are good"
    short.log.close()
    long.log.close()
    assert files(short) == files(long)


def copied(batch: bytearray) -> bytearray:
    """A copy of its own: an append stamps what it is given."""
    return bytearray(batch)


def test_a_batch_in_memory_that_must_not_change_is_copied() -> None:
    test_log = TestLog()
    data = make_batch(b"v")
    before = bytes(data)
    test_log.log.append_as_leader(data, leader_epoch=3)
    assert data == before
    assert test_log.log.log_end_offset == 1


def made_batch(chance: random.Random) -> bytearray:
    """As a coordinator makes them: keys, one time for all records, mostly without a producer and never compressed."""
    producer_id = chance.choice([-1, -1, -1, -1, 7])
    return bytearray(
        make_batch(
            *(chance.randbytes(chance.randrange(60)) for _ in range(chance.randrange(1, 4))),
            key=b"k",
            timestamp=NOW_MS,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            sequence=0 if producer_id >= 0 else -1,
        )
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "settings",
    [
        {"cleanup_policy": "compact"},
        {"segment_bytes": 1 << 20, "internal_segment_bytes": 700, "index_interval_bytes": 100},
        {"max_message_bytes": 120, "flush_messages": 3},
        {"message_timestamp_type": "LogAppendTime"},
    ],
    ids=["compacted", "small-segments", "small-messages", "append-time"],
)
def test_a_batch_made_here_is_written_as_if_it_were_checked(seed: int, settings: dict[str, Any]) -> None:
    logs = []
    for _ in range(2):
        world = new_world(seed)
        world.clock.set_now_ms(NOW_MS)
        logs.append(TestLog(world, directory=DIRECTORY, **settings))
    short, long = logs
    chance = random.Random(seed)
    made = 0
    for step in range(60):
        epoch = step // 20
        batch = made_batch(chance)
        given = copied(batch)
        first_offset = short.log.append_made(memoryview(given), epoch)
        if first_offset is None:
            assert given == batch, "a batch that is declined is left as it was"
            append(short.log, given, epoch)
        else:
            made += 1
            assert first_offset == long.log.log_end_offset
            short.log.update_high_watermark(short.log.log_end_offset)
        append(long.log, batch, epoch)
        assert short.log.log_end_offset == long.log.log_end_offset
        assert short.log.recovery_point == long.log.recovery_point
    assert (made > 10) is ("message_timestamp_type" not in settings)
    short.log.close()
    long.log.close()
    assert short.log.append_made(memoryview(made_batch(chance)), 2) is None, "the log is closed"
    assert files(short) == files(long)

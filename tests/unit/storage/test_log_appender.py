"""`ottla/storage/log_appender.py`: one way in, on which a batch is checked once and a refused one changes nothing."""

from __future__ import annotations

import random
import struct
from collections import Counter
from typing import Any

import pytest

from ottla.errors import KafkaError, MessageTooLarge
from ottla.records import Batch, Codec, check_rows, crc32c
from ottla.storage import AppendOrigin
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


SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "small-segments": {"segment_bytes": 1 << 20, "internal_segment_bytes": 700, "index_interval_bytes": 100},
    "small-messages": {"max_message_bytes": 120, "flush_messages": 3},
    "any-time": {"message_timestamp_after_max_ms": 2**62, "segment_ms": 3},
    "recent": {"message_timestamp_before_max_ms": 3_600_000},
    "compacted": {"cleanup_policy": "compact"},
    "append-time": {"message_timestamp_type": "LogAppendTime"},
    "lz4": {"compression_type": "lz4"},
}


def new_log(seed: int, **settings: Any) -> TestLog:
    world = new_world(seed)
    world.clock.set_now_ms(NOW_MS)
    return TestLog(world, directory=DIRECTORY, **settings)


def state(test_log: TestLog) -> object:
    """All that an append may change: the files' bytes, the bounds, the epochs, the producers."""
    log, disk = test_log.log, test_log.world.disk
    for segment in log.segments:
        segment.offset_index.write_out()
        segment.time_index.write_out()
    return (
        {name: disk.read(f"{test_log.path}/{name}") for name in disk.names(test_log.path)},
        (log.log_start_offset, log.log_end_offset, log.batches_end, log.high_watermark, log.last_stable_offset),
        log.recovery_point,
        [segment.base_offset for segment in log.segments],
        log.epochs.entries,
        {one: repr(entry) for one, entry in log.producers.producers.items()},
        (log.producers.map_end_offset, log.producers.first_unstable_offset),
    )


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("seed", range(10))
def test_a_refused_batch_changes_nothing(seed: int, name: str) -> None:
    """Neither does one that is there already: no segment ends for it, and no epoch begins."""
    test_log = new_log(seed, **SETTINGS[name])
    chance = random.Random(seed)
    sequences: dict[int, int] = {}
    epoch = refused = 0
    for _ in range(60):
        epoch += chance.randrange(20) == 0
        before = state(test_log)
        try:
            info = test_log.log.append_as_leader(random_batch(chance, sequences), leader_epoch=epoch)
        except KafkaError:
            refused += 1
            assert state(test_log) == before
        else:
            assert (state(test_log) == before) is (info.is_duplicate or info.first_offset < 0)
            test_log.log.update_high_watermark(test_log.log.log_end_offset)
    assert refused > 5
    assert test_log.log.log_end_offset > 0, "some of the batches are good"


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("producer_id", [-1, 7])
def test_a_batch_is_checked_once(codec: Codec, producer_id: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One checksum and one pass over the records: for the first batch of a log, of an epoch, of a segment and of a
    producer as for any other."""
    test_log = new_log(1, **SETTINGS["small-segments"])
    calls: Counter[str] = Counter()
    checksum, read_over = crc32c, check_rows

    def counted_checksum(data: Any) -> int:
        calls["checksum"] += 1
        return checksum(data)

    def counted_check(*section: Any, ignores_sizes: bool) -> Any:
        calls["records"] += 1
        return read_over(*section, ignores_sizes=ignores_sizes)

    monkeypatch.setattr("ottla.storage.validator.crc32c", counted_checksum)
    monkeypatch.setattr("ottla.records.batch.crc32c", counted_checksum)
    monkeypatch.setattr("ottla.storage.validator.check_rows", counted_check)
    monkeypatch.setattr("ottla.records.batch.check_rows", counted_check)
    for number in range(40):
        batch = make_batch(
            b"value" * 8,
            timestamp=NOW_MS,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            sequence=number if producer_id >= 0 else -1,
        )
        calls.clear()
        test_log.log.append_as_leader(bytearray(batch), leader_epoch=number // 15)
        assert calls == {"checksum": 1, "records": 1}, f"batch {number}"
    assert len(test_log.log.segments) > 3
    assert len(test_log.log.epochs) == 3


def test_a_batch_in_memory_that_must_not_change_is_copied() -> None:
    test_log = TestLog()
    data = make_batch(b"v")
    before = bytes(data)
    test_log.log.append_as_leader(data, leader_epoch=3)
    assert data == before
    assert test_log.log.log_end_offset == 1


def test_settings_that_change_are_held_to_from_the_next_batch_on() -> None:
    test_log = TestLog()
    test_log.append(b"v" * 200)
    test_log.log.update_config(test_log.log.config.with_topic({"max.message.bytes": 150}))
    with pytest.raises(MessageTooLarge):
        test_log.append(b"v" * 200)


def made_batch(chance: random.Random) -> bytearray:
    """As a coordinator makes them: with keys, one time for all records, and no codec."""
    values = [chance.randbytes(chance.randrange(60)) for _ in range(chance.randrange(1, 4))]
    return bytearray(make_batch(*values, key=b"k", timestamp=NOW_MS))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["compacted", "small-segments", "small-messages", "append-time", "lz4"])
def test_a_coordinators_batch_is_written_as_if_it_were_checked(
    seed: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checksum and its records are not looked at, unless it must be stored in another form."""
    trusted, checked = new_log(seed, **SETTINGS[name]), new_log(seed, **SETTINGS[name])
    chance = random.Random(seed)
    for step in range(60):
        epoch = step // 20
        batch = made_batch(chance)
        outcomes = []
        for test_log, origin in ((trusted, AppendOrigin.COORDINATOR), (checked, AppendOrigin.CLIENT)):
            with monkeypatch.context() as patch:
                if origin is AppendOrigin.COORDINATOR:
                    patch.setattr("ottla.storage.validator.crc32c", None)
                    if name not in ("append-time", "lz4"):
                        patch.setattr(Batch, "check_records", None)
                        patch.setattr("ottla.storage.validator.check_rows", None)
                try:
                    outcomes.append(repr(test_log.log.append_as_leader(bytearray(batch), epoch, origin)))
                except MessageTooLarge as error:
                    outcomes.append(error.message)
            test_log.log.update_high_watermark(test_log.log.log_end_offset)
        assert outcomes[0] == outcomes[1]
    assert trusted.log.log_end_offset > 10
    assert state(trusted) == state(checked)

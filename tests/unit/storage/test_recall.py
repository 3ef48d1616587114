"""A producer's older batches are found in the log after a restart, so that none is written twice.

The case beside a real Kafka, which has forgotten them, is in tests/cluster/test_sequences_after_restart.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from ottla.errors import InvalidProducerEpoch, OutOfOrderSequenceNumber
from ottla.storage import recall
from tests.support.logs import TestLog, values

NOW = 1_767_225_600_000


def written(count: int = 8, *, between: int = 0, size: int = 10, **settings: Any) -> TestLog:
    """One batch for each sequence of producer 1, with so many of another producer after each; stopped in order."""
    log = TestLog(**settings)
    others = 0
    for number in range(count):
        send(log, number)
        for _ in range(between):
            log.append(b"." * size, producer_id=2, sequence=others, timestamp=NOW)
            others += 1
    log.reopen()
    return log


def send(log: TestLog, number: int, *, producer_epoch: int = 0) -> bool:
    """Whether it is a duplicate."""
    info = log.append(
        b"value %d" % number, producer_id=1, sequence=number, producer_epoch=producer_epoch, timestamp=NOW
    )
    return info.is_duplicate


def mine(log: TestLog) -> list[bytes | None]:
    return [value for value in values(log.log) if value is not None and value.startswith(b"value")]


@pytest.mark.parametrize("between", [0, 3])
@pytest.mark.parametrize("segment_bytes", [300, 100_000])
def test_what_was_in_flight_at_a_restart_is_a_duplicate(segment_bytes: int, between: int) -> None:
    log = written(between=between, internal_segment_bytes=segment_bytes, index_interval_bytes=100)
    for number in range(3, 8):
        assert send(log, number), f"sequence {number}"
    assert not send(log, 8)
    assert mine(log) == [b"value %d" % number for number in range(9)]


def test_more_than_the_last_five_are_not_remembered_after_a_restart_either() -> None:
    log = written()
    with pytest.raises(OutOfOrderSequenceNumber):
        send(log, 2)
    assert send(log, 3)


def test_a_batch_that_was_never_written_is_still_out_of_order() -> None:
    log = written()
    with pytest.raises(OutOfOrderSequenceNumber):
        send(log, 9)
    assert send(log, 3)
    assert not send(log, 8)


def test_batches_are_recalled_over_the_end_of_the_sequences() -> None:
    log = TestLog()
    sequences = [2**31 - 3, 2**31 - 2, 2**31 - 1, 0, 1]
    for number in sequences:
        send(log, number)
    log.reopen()
    # 0 is taken for the producer's first one: whatever came before it is not looked for.
    assert [send(log, number) for number in (0, 1)] == [True, True]
    log = TestLog()
    for number in sequences[:3]:
        send(log, number)
    log.reopen()
    assert [send(log, number) for number in sequences[:3]] == [True, True, True]
    assert not send(log, 0)


def test_batches_are_recalled_after_a_truncation_too() -> None:
    log = written()
    send(log, 8)
    log.log.truncate_to(8)
    assert send(log, 4)
    assert not send(log, 8)


def test_the_batches_of_an_older_epoch_are_not_recalled() -> None:
    """They may not be sent again: a client that has a new epoch begins at 0."""
    log = written(3)
    send(log, 0, producer_epoch=1)
    log.reopen()
    with pytest.raises(InvalidProducerEpoch):
        send(log, 2)
    assert [batch.first_sequence for batch in log.log.producers.producers[1].batches] == [0]


def test_what_lies_below_the_log_start_is_not_read() -> None:
    log = written(internal_segment_bytes=300)
    bases = log.log.segments.base_offsets
    log.log.update_high_watermark(log.log.log_end_offset)
    log.log.delete_records(bases[-1])
    log.log.delete_segments([segment for segment in log.log.segments if segment.base_offset < bases[-1]], "test")
    for number in range(max(3, bases[-1]), 8):
        assert send(log, number)
    with pytest.raises(OutOfOrderSequenceNumber):
        send(log, bases[-1] - 1)


@pytest.mark.parametrize("window_size", [200, 1 << 20])
def test_no_more_of_the_log_is_read_than_the_bound_says(window_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And only once: a client that sends nonsense over and over must not make the broker read all the time."""
    monkeypatch.setattr(recall, "BYTES_MAX", 2_000)
    monkeypatch.setattr(recall, "WINDOW_SIZE", window_size)
    log = written(between=20, size=200, index_interval_bytes=100)
    with pytest.raises(OutOfOrderSequenceNumber):
        send(log, 6)  # 20 batches of the other producer lie between it and the last one
    monkeypatch.undo()
    with pytest.raises(OutOfOrderSequenceNumber):
        send(log, 6)
    assert send(log, 7)


def test_a_damaged_index_does_not_keep_batches_from_being_recalled() -> None:
    log = written(30, between=2, index_interval_bytes=100)
    log.log.close()
    path = f"{log.path}/{0:020d}.index"
    file = log.world.disk.open(path)
    data = bytearray(log.world.disk.read(path))
    for entry in range(0, len(data), 8):
        data[entry + 4 : entry + 8] = (int.from_bytes(data[entry + 4 : entry + 8], "big") + 7).to_bytes(4, "big")
    file.write_at(0, bytes(data))
    file.close()
    log.open(clean=True)
    assert send(log, 25)

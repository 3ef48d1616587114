"""Reading a log: limits, isolation, ranges, times and epochs."""

from __future__ import annotations

import errno
import random
from typing import Any

import pytest

from ottla.errors import KafkaStorageError, OffsetOutOfRange
from ottla.records import batches
from ottla.storage import Isolation, SpecialTimestamp
from ottla.storage.transaction_index import TransactionIndex
from tests.support.logs import TestLog, make_batch, new_world, read_records, values

NOW = 1_767_225_600_000


def filled(count: int = 40, **settings: Any) -> TestLog:
    """Batches of one to three records over several segments."""
    log = TestLog(**{"internal_segment_bytes": 600, "index_interval_bytes": 100, **settings})
    number = 0
    while number < count:
        size = number % 3 + 1
        log.append(*(b"value-%d" % n for n in range(number, number + size)), timestamp=NOW + number * 10)
        number += size
    return log


def test_every_offset_can_be_read_from() -> None:
    log = filled()
    assert len(log.log.segments) > 3
    everything = read_records(log.log)
    assert [record.offset for record in everything] == list(range(log.log.log_end_offset))
    for offset in range(log.log.log_end_offset):
        assert read_records(log.log, offset, bytes_max=1) == everything[offset:]


@pytest.mark.parametrize("bytes_max", [0, 1, 100, 250, 10_000])
def test_a_read_keeps_to_its_limit_but_gives_one_batch_if_asked(bytes_max: int) -> None:
    log = filled()
    first = next(batches(log.file(".log"))).size
    some = log.log.read(0, bytes_max=bytes_max)
    assert some.slice is not None
    assert some.slice.size == max(first, min(bytes_max, log.log.segments.first.size))
    assert not some.first_batch_incomplete
    strict = log.log.read(0, bytes_max=bytes_max, at_least_one=False)
    assert (strict.slice.size if strict.slice else 0) == min(bytes_max, log.log.segments.first.size)
    assert strict.first_batch_incomplete is (0 < bytes_max < first)


def test_nothing_is_served_beyond_what_the_isolation_allows() -> None:
    log = filled(10)
    for high_watermark in range(log.log.log_end_offset + 1):
        log.log.update_high_watermark(high_watermark)
        seen = read_records(log.log)
        assert all(record.offset < log.log.log_end_offset for record in seen)
        # A batch is visible once all of it is below the high watermark.
        whole = [b for segment in log.log.segments for _, b in segment.batches() if b.next_offset <= high_watermark]
        assert [record.offset for record in seen] == [r.offset for batch in whole for r in batch.records()]
    assert len(read_records(log.log, isolation=Isolation.LOG_END)) == log.log.log_end_offset


def test_a_read_at_the_end_finds_nothing_and_beyond_it_is_an_error() -> None:
    log = filled(5)
    end = log.log.log_end_offset
    at_end = log.log.read(end, bytes_max=100)
    assert at_end.slice is None
    assert at_end.start == log.log.end
    with pytest.raises(OffsetOutOfRange, match=f"upto {end}"):
        log.log.read(end + 1, bytes_max=100)
    with pytest.raises(OffsetOutOfRange):
        log.log.read(-1, bytes_max=100)


def test_a_read_above_the_high_watermark_but_in_the_log_finds_nothing() -> None:
    log = filled(10)
    log.log.update_high_watermark(3)
    assert log.log.read(6, bytes_max=100).slice is None


def test_a_read_below_the_log_start_is_an_error() -> None:
    log = filled(10)
    log.log.delete_records(4)
    with pytest.raises(OffsetOutOfRange, match="starting from offset: 4"):
        log.log.read(3, bytes_max=100)
    assert read_records(log.log)[0].offset == 4


@pytest.mark.parametrize("seed", range(4))
def test_a_look_up_by_time_finds_the_first_record_at_or_after_it(seed: int) -> None:
    """Timestamps in no order: brute force over all records is the judge, before and after the log is opened again."""
    rng = random.Random(seed)
    log = TestLog(internal_segment_bytes=700, index_interval_bytes=rng.choice([0, 100, 4096]))
    for _ in range(40):
        count = rng.randint(1, 4)
        log.append(*[b"x"] * count, timestamps=[NOW - rng.randrange(10_000) for _ in range(count)])
    for _ in range(2):
        records = read_records(log.log)
        for timestamp in [0, NOW - 10_001, NOW, NOW + 1, *(NOW - rng.randrange(10_000) for _ in range(50))]:
            first = next((r for r in records if r.timestamp >= timestamp), None)
            found = log.log.offset_for_timestamp(timestamp)
            assert (found and (found.offset, found.timestamp)) == (first and (first.offset, first.timestamp))
        newest = log.log.offset_for_timestamp(SpecialTimestamp.MAX_TIMESTAMP)
        everything = [r for segment in log.log.segments for _, b in segment.batches() for r in b.records()]
        expected = max(everything, key=lambda r: (r.timestamp, -r.offset))
        assert newest is not None
        assert (newest.timestamp, newest.offset) == (expected.timestamp, expected.offset)
        log.reopen()
        log.log.update_high_watermark(log.log.log_end_offset)


def test_special_timestamps_name_the_ends_of_the_log() -> None:
    log = TestLog()
    assert log.log.offset_for_timestamp(SpecialTimestamp.EARLIEST) == (-1, 0, None)
    assert log.log.offset_for_timestamp(SpecialTimestamp.LATEST) == (-1, 0, None)
    assert log.log.offset_for_timestamp(SpecialTimestamp.MAX_TIMESTAMP) is None
    log.append(b"a", epoch=3)
    log.append(b"b", epoch=5)
    assert log.log.offset_for_timestamp(SpecialTimestamp.EARLIEST) == (-1, 0, 3)
    assert log.log.offset_for_timestamp(SpecialTimestamp.EARLIEST_LOCAL) == (-1, 0, 3)
    assert log.log.offset_for_timestamp(SpecialTimestamp.LATEST) == (-1, 2, 5)
    assert log.log.offset_for_timestamp(SpecialTimestamp.LATEST_TIERED) == (-1, -1, -1)
    assert log.log.offset_for_timestamp(SpecialTimestamp.EARLIEST_PENDING_UPLOAD) == (-1, -1, -1)


def test_the_end_of_an_epoch_is_where_the_next_begins() -> None:
    log = TestLog()
    log.append(b"a", b"b", epoch=1)
    log.append(b"c", epoch=4)
    assert log.log.end_offset_for_epoch(1) == (1, 2)
    assert log.log.end_offset_for_epoch(3) == (1, 2)
    assert log.log.end_offset_for_epoch(4) == (4, 3)
    assert log.log.end_offset_for_epoch(5) is None
    assert log.log.end_offset_for_epoch(-1) is None


def test_a_log_without_aborted_transactions_searches_no_index_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    log = TestLog(internal_segment_bytes=200)
    for number in range(6):
        log.append(b"value %d" % number)
    assert len(log.log.segments) > 2
    monkeypatch.setattr(TransactionIndex, "collect_aborted", lambda *_: pytest.fail("an index was searched"))
    for offset in range(6):
        assert log.log.read(offset, bytes_max=1, isolation=Isolation.TXN_COMMITTED).aborted == []


def test_aborted_transactions_are_found_across_segments() -> None:
    log = TestLog(internal_segment_bytes=300)
    log.append(b"a", producer_id=1, sequence=0, is_transactional=True)
    for number in range(10):
        log.append(b"filler %d" % number)
    log.end_transaction(1, commit=False)
    log.append(b"end")
    assert len(log.log.segments) > 3
    read = log.log.read(0, bytes_max=1, isolation=Isolation.TXN_COMMITTED)
    assert [txn.producer_id for txn in read.aborted or ()] == [1]
    assert b"a" not in values(log.log, isolation=Isolation.TXN_COMMITTED, bytes_max=1)
    assert log.log.read(11, bytes_max=1, isolation=Isolation.TXN_COMMITTED).aborted is not None
    assert log.log.read(12, bytes_max=1, isolation=Isolation.TXN_COMMITTED).aborted == []


def test_a_transaction_index_that_cannot_be_read_takes_the_directory_offline() -> None:
    """Found by the simulator: readers of committed records were told UNKNOWN_SERVER_ERROR, which clients give up on."""
    world = new_world()
    log = TestLog(world)
    log.append(b"a", producer_id=1, sequence=0, is_transactional=True)
    log.end_transaction(1, commit=False)

    def fail(kind: str, path: str) -> None:
        if path.endswith(".txnindex"):
            raise OSError(errno.EIO, "the device does not answer", path)

    world.disk.on_operation = fail
    with pytest.raises(KafkaStorageError, match="reading from"):
        log.log.read(0, bytes_max=100, isolation=Isolation.TXN_COMMITTED)
    assert log.directory.is_offline


def test_a_damaged_offset_index_is_noticed_and_rebuilt_while_reading() -> None:
    log = filled(40, internal_segment_bytes=100_000)
    log.log.close()
    path = f"{log.path}/{0:020d}.index"
    whole = log.world.disk.read(path)
    assert len(whole) >= 24
    file = log.world.disk.open(path)
    file.write_at(4, (77).to_bytes(4, "big"))  # no batch begins at byte 77
    file.close()
    log.open(clean=True)
    log.log.update_high_watermark(log.log.log_end_offset)
    for offset in range(log.log.log_end_offset):
        assert read_records(log.log, offset, bytes_max=1)[0].offset == offset
    log.log.close()
    assert log.world.disk.read(path) == whole


def test_reads_do_not_see_a_batch_before_it_is_whole_in_the_log() -> None:
    log = TestLog()
    log.append(b"a")
    before = log.log.read(0, bytes_max=1 << 20, isolation=Isolation.LOG_END)
    log.log.append_as_leader(bytearray(make_batch(b"b")), leader_epoch=0)
    assert before.slice is not None
    assert len(list(batches(before.slice.read()))) == 1, "a slice ends where the log ended when it was cut"

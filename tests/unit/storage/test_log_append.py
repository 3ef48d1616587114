"""Appending to a log: offsets, stamps, the rules a batch is held to, producers and transactions."""

from __future__ import annotations

import struct

import pytest

from ottla.errors import (
    CorruptMessage,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTxnState,
    KafkaError,
    MessageTooLarge,
    OutOfOrderSequenceNumber,
    RecordListTooLarge,
)
from ottla.records import Batch, Codec, Record, TimestampType, batches, build_batch, crc32c
from ottla.storage import (
    AppendOrigin,
    InvalidRecords,
    InvalidTimestamps,
    Isolation,
    OffsetsOutOfOrder,
    UnexpectedAppendOffset,
    validator,
)
from tests.support.logs import TestLog, make_batch, read_batches, read_records, values

NOW = 1_767_225_600_000


def altered(batch: bytes, position: int, layout: str, value: int) -> bytearray:
    """The batch with one header field changed and a checksum that agrees."""
    data = bytearray(batch)
    struct.pack_into(layout, data, position, value)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return data


def test_offsets_follow_each_other_and_the_answer_names_them() -> None:
    log = TestLog()
    first = log.append(b"a", b"b")
    second = log.append(b"c")
    assert (first.first_offset, first.last_offset, second.first_offset) == (0, 1, 2)
    assert log.log.log_end_offset == 3
    assert [(r.offset, r.value) for r in read_records(log.log)] == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_the_batch_is_stamped_with_offset_and_epoch_and_keeps_its_checksum() -> None:
    log = TestLog()
    log.append(b"a")
    sent = bytearray(make_batch(b"b"))
    log.log.append_as_leader(sent, leader_epoch=7)
    stored = log.file(".log")
    assert stored[-len(sent) :] == sent, "stamped in place, written from the same buffer"
    batch = list(batches(stored))[-1]
    assert (batch.base_offset, batch.leader_epoch) == (1, 7)
    assert batch.check_crc()


def test_a_read_only_buffer_is_taken_too() -> None:
    log = TestLog()
    log.log.append_as_leader(make_batch(b"a"), leader_epoch=0)
    assert log.log.log_end_offset == 1


def test_no_batch_at_all_changes_nothing() -> None:
    log = TestLog()
    info = log.log.append_as_leader(bytearray(), leader_epoch=0)
    assert (info.first_offset, info.last_offset, info.size) == (-1, -1, 0)
    info = log.log.append_as_leader(bytearray(make_batch(b"a")[:-1]), leader_epoch=0)
    assert info.first_offset == -1, "a batch that is cut off is none"
    assert log.file(".log") == b""


def test_bytes_behind_the_batch_are_dropped() -> None:
    log = TestLog()
    batch = make_batch(b"a")
    log.log.append_as_leader(bytearray(batch + batch[:30]), leader_epoch=0)
    assert log.log.size == len(batch)


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (bytearray(make_batch(b"a") * 2), InvalidRecord, "more than one batch"),
        (altered(make_batch(b"a"), 0, ">q", 5), InvalidRecord, "should be 0, but it is 5"),
        (bytearray(make_batch(b"a")[:-1] + b"?"), CorruptMessage, "corrupt"),
        (altered(make_batch(b"a"), 23, ">i", -1), InvalidRecord, "invalid offset range"),
        (altered(make_batch(b"a"), 57, ">i", 0), InvalidRecord, "Invalid reported count"),
        (altered(make_batch(b"a"), 57, ">i", 2), InvalidRecord, "Inconsistent batch offset range"),
        (altered(make_batch(b"a"), 21, ">h", 0x20), InvalidRecord, "not allowed to write control records"),
        (altered(make_batch(b"a", producer_id=5, sequence=0), 53, ">i", -1), InvalidRecord, "Invalid sequence number"),
        (bytearray(make_batch(bytes(2000))), MessageTooLarge, "exceeds the maximum configured value of 1000"),
        (altered(make_batch(b"a"), 16, ">b", 1), InvalidRecord, "magic"),
        (altered(make_batch(b"a"), 16, ">b", 9), CorruptMessage, "magic"),
        (bytearray(bytes(100)), CorruptMessage, "less than the minimum"),
    ],
)
def test_a_batch_that_breaks_a_rule_is_refused_and_nothing_changes(
    data: bytearray, error: type[KafkaError], words: str
) -> None:
    log = TestLog(max_message_bytes=1000)
    log.append(b"before")
    with pytest.raises(error, match=words) as caught:
        log.log.append_as_leader(data, leader_epoch=0)
    assert type(caught.value).code == error.code
    assert values(log.log) == [b"before"]
    log.append(b"after")
    assert values(log.log) == [b"before", b"after"]


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    log = TestLog(internal_segment_bytes=500)
    with pytest.raises(RecordListTooLarge, match="maximum configured segment size of 500"):
        log.append(bytes(600))


def test_coordinators_may_write_control_records() -> None:
    log = TestLog()
    log.append(b"x", producer_id=3, sequence=0, is_transactional=True)
    log.end_transaction(3, commit=True)
    assert [batch.is_control for batch in read_batches(log.log)] == [False, True]


# Timestamps


def test_a_record_from_too_far_in_the_future_is_refused_by_name() -> None:
    log = TestLog()
    with pytest.raises(InvalidTimestamps, match="invalid timestamp") as caught:
        log.append(b"a", b"b", timestamps=[NOW, NOW + 3_600_001])
    assert [error.batch_index for error in caught.value.record_errors] == [1]
    assert isinstance(caught.value, InvalidTimestamp)
    log.append(b"a", timestamp=NOW + 3_600_000)


def test_a_record_from_too_far_in_the_past_is_refused_by_name() -> None:
    log = TestLog(message_timestamp_before_max_ms=1000)
    with pytest.raises(InvalidTimestamps) as caught:
        log.append(b"a", b"b", b"c", timestamps=[NOW - 1001, NOW, NOW - 5000])
    assert [error.batch_index for error in caught.value.record_errors] == [0, 2]
    log.append(b"a", timestamp=NOW - 1000)
    log.append(b"a", timestamp=-1)


def test_log_append_time_is_the_brokers_clock_for_every_record() -> None:
    log = TestLog(message_timestamp_type="LogAppendTime")
    log.world.clock.advance(1234)  # type: ignore[attr-defined]
    info = log.append(b"a", b"b", timestamps=[5, 6])
    assert info.append_time_ms == NOW + 1234
    (batch,) = read_batches(log.log)
    assert batch.max_timestamp == NOW + 1234
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert batch.check_crc()
    assert [record.timestamp for record in batch.records()] == [NOW + 1234] * 2


def test_a_producer_may_not_claim_log_append_time() -> None:
    log = TestLog(message_timestamp_type="LogAppendTime")
    claimed = build_batch([Record(0, 5, None, b"a")], timestamp_type=TimestampType.LOG_APPEND_TIME, append_time_ms=5)
    with pytest.raises(InvalidTimestamps, match="invalid timestamp"):
        log.log.append_as_leader(bytearray(claimed), leader_epoch=0)


# Compaction and codecs


def test_a_compacted_topic_refuses_records_without_a_key() -> None:
    log = TestLog(cleanup_policy="compact")
    with pytest.raises(InvalidRecords, match="without key") as caught:
        log.append(b"a", b"b", keys=[b"k", None])
    assert [error.batch_index for error in caught.value.record_errors] == [1]
    log.append(b"a", key=b"k")


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", [*Codec, None])
def test_compression_type_decides_the_stored_codec(source: Codec, target: Codec | None) -> None:
    name = "producer" if target is None else "uncompressed" if target is Codec.NONE else target.name.lower()
    log = TestLog(compression_type=name)
    log.append(b"one", b"two", codec=source, timestamps=[NOW - 2, NOW - 1])
    log.append(b"three", codec=source, producer_id=5, sequence=0)
    stored = list(read_batches(log.log))
    assert [batch.codec for batch in stored] == [source if target is None else target] * 2
    assert all(batch.check_crc() for batch in stored)
    assert [(r.offset, r.timestamp, r.value) for r in read_records(log.log)] == [
        (0, NOW - 2, b"one"),
        (1, NOW - 1, b"two"),
        (2, NOW, b"three"),
    ]
    assert (stored[1].producer_id, stored[1].base_sequence) == (5, 0)


def test_a_batch_that_recompression_makes_too_large_is_refused() -> None:
    log = TestLog(compression_type="uncompressed", max_message_bytes=5000)
    with pytest.raises(MessageTooLarge, match="once compressed"):
        log.append(bytes(100_000), codec=Codec.ZSTD)
    assert log.log.log_end_offset == 0


# Idempotent producers


def test_a_repeated_batch_is_answered_with_its_first_offsets() -> None:
    log = TestLog()
    for sequence in range(6):
        log.append(b"v%d" % sequence, producer_id=9, sequence=sequence)
    for sequence in range(1, 6):
        again = log.append(b"v%d" % sequence, producer_id=9, sequence=sequence)
        assert again.is_duplicate
        assert (again.first_offset, again.last_offset) == (sequence, sequence)
    assert log.log.log_end_offset == 6
    with pytest.raises(OutOfOrderSequenceNumber):
        log.append(b"v0", producer_id=9, sequence=0)


def test_a_gap_in_the_sequence_is_refused() -> None:
    log = TestLog()
    log.append(b"a", b"b", producer_id=9, sequence=0)
    with pytest.raises(OutOfOrderSequenceNumber):
        log.append(b"c", producer_id=9, sequence=3)
    log.append(b"c", producer_id=9, sequence=2)


def test_an_older_epoch_is_fenced() -> None:
    log = TestLog()
    log.append(b"a", producer_id=9, producer_epoch=4, sequence=0)
    with pytest.raises(InvalidProducerEpoch):
        log.append(b"b", producer_id=9, producer_epoch=3, sequence=1)


def test_duplicates_are_known_after_a_restart_and_after_a_crash() -> None:
    for clean in (True, False):
        log = TestLog()
        log.append(b"a", producer_id=9, sequence=0)
        log.append(b"b", producer_id=9, sequence=1)
        log.reopen(clean=clean)
        again = log.append(b"b", producer_id=9, sequence=1)
        assert (again.is_duplicate, again.first_offset) == (True, 1)
        assert log.append(b"c", producer_id=9, sequence=2).first_offset == 2


def test_transactional_batches_need_a_verified_transaction() -> None:
    log = TestLog()
    log.log.producers.config.transaction_partition_verification_enable = True
    try:
        with pytest.raises(InvalidTxnState):
            log.append(b"a", producer_id=9, sequence=0, is_transactional=True)
        guard = log.log.producers.start_verification(
            9, sequence=0, producer_epoch=0, supports_epoch_bump=False, now_ms=NOW
        )
        batch = make_batch(b"a", producer_id=9, sequence=0, is_transactional=True)
        log.log.append_as_leader(bytearray(batch), leader_epoch=0, verification_guard=guard)
        assert log.log.log_end_offset == 1
    finally:
        log.log.producers.config.transaction_partition_verification_enable = False


# Transactions


def test_the_last_stable_offset_waits_for_the_first_open_transaction() -> None:
    log = TestLog()
    log.append(b"plain")
    log.append(b"a", producer_id=1, sequence=0, is_transactional=True)
    log.append(b"b", producer_id=2, sequence=0, is_transactional=True)
    assert (log.log.first_unstable_offset, log.log.last_stable_offset) == (1, 1)
    log.end_transaction(2, commit=True)
    assert log.log.last_stable_offset == 1
    log.end_transaction(1, commit=False)
    assert log.log.last_stable_offset == log.log.log_end_offset == 5
    assert values(log.log, isolation=Isolation.TXN_COMMITTED) == [b"plain", b"b"]
    assert values(log.log) == [b"plain", b"a", b"b"]
    aborted = log.log.read(0, bytes_max=1 << 20, isolation=Isolation.TXN_COMMITTED).aborted
    assert aborted is not None
    assert [(txn.producer_id, txn.first_offset, txn.last_offset) for txn in aborted] == [(1, 1, 4)]


def test_a_marker_above_the_high_watermark_does_not_make_its_transaction_stable() -> None:
    log = TestLog()
    log.append(b"a", producer_id=1, sequence=0, is_transactional=True)
    log.end_transaction(1, commit=True, is_seen=False)
    assert (log.log.high_watermark, log.log.last_stable_offset) == (1, 0)
    log.log.advance_high_watermark(2)
    assert log.log.last_stable_offset == 2


# Followers


def test_a_follower_takes_batches_as_they_are() -> None:
    leader, follower = TestLog(name="leader-0"), TestLog(name="follower-0")
    leader.append(b"a", b"b", epoch=1)
    leader.append(b"c", epoch=2)
    data = leader.file(".log")
    info = follower.log.append_as_follower(data + data[:20], leader_epoch=2)
    assert (info.first_offset, info.last_offset, info.size) == (0, 2, len(data))
    assert follower.file(".log") == data
    assert [tuple(entry) for entry in follower.log.epochs.entries] == [(1, 0), (2, 2)]


def test_a_follower_leaves_out_batches_of_an_epoch_it_does_not_know() -> None:
    leader, follower = TestLog(name="leader-0"), TestLog(name="follower-0")
    leader.append(b"a", epoch=1)
    leader.append(b"b", epoch=2)
    follower.log.append_as_follower(leader.file(".log"), leader_epoch=1)
    assert follower.log.log_end_offset == 1


def test_a_follower_refuses_batches_below_its_end_or_out_of_order() -> None:
    leader, follower = TestLog(name="leader-0"), TestLog(name="follower-0")
    leader.append(b"a")
    leader.append(b"b")
    data = leader.file(".log")
    half = len(data) // 2
    with pytest.raises(OffsetsOutOfOrder):
        follower.log.append_as_follower(data[half:] + data[:half], leader_epoch=0)
    follower.log.append_as_follower(data, leader_epoch=0)
    with pytest.raises(UnexpectedAppendOffset) as caught:
        follower.log.append_as_follower(data[half:], leader_epoch=0)
    assert (caught.value.first_offset, caught.value.last_offset) == (1, 1)


def test_a_follower_takes_gaps_that_compaction_has_left() -> None:
    follower = TestLog()
    batch = build_batch([Record(5, NOW, b"k", b"a"), Record(9, NOW, b"k", b"b")], leader_epoch=0)
    follower.log.append_as_follower(batch, leader_epoch=0)
    assert follower.log.log_end_offset == 10
    assert [record.offset for record in read_records(follower.log, isolation=Isolation.LOG_END)] == [5, 9]


def test_a_damaged_batch_stops_a_follower() -> None:
    follower = TestLog()
    data = bytearray(make_batch(b"abc"))
    data[-2] ^= 1
    with pytest.raises(CorruptMessage):
        follower.log.append_as_follower(data, leader_epoch=0)


def test_raft_batches_come_with_their_offsets_and_must_have_the_leaders_epoch() -> None:
    log = TestLog()
    one = build_batch([Record(0, NOW, None, b"a")], leader_epoch=3)
    two = build_batch([Record(1, NOW, None, b"b")], leader_epoch=3)
    log.log.append_as_leader(one + two, leader_epoch=3, origin=AppendOrigin.RAFT_LEADER)
    assert log.log.log_end_offset == 2
    wrong = build_batch([Record(2, NOW, None, b"c")], leader_epoch=2)
    with pytest.raises(InvalidRecord, match="expected 3"):
        log.log.append_as_leader(wrong, leader_epoch=3, origin=AppendOrigin.RAFT_LEADER)


def test_a_batch_spanning_more_than_31_bits_of_time_is_stored_as_it_is() -> None:
    log = TestLog()
    log.append(b"a", b"b", timestamps=[NOW - 2**40, NOW])
    assert [record.timestamp for record in read_records(log.log)] == [NOW - 2**40, NOW]
    (batch,) = read_batches(log.log)
    assert isinstance(batch, Batch)
    assert batch.max_timestamp == NOW


def test_a_few_bytes_that_would_become_very_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer splits a batch that is too large; nothing has been kept in memory for it by then."""
    monkeypatch.setattr(validator, "DECOMPRESSED_MAX", 1 << 20)
    log = TestLog()
    log.append(bytes(1 << 19), codec=Codec.ZSTD)
    with pytest.raises(MessageTooLarge, match="when decompressed"):
        log.append(bytes(1 << 20), codec=Codec.ZSTD)
    assert log.log.log_end_offset == 1

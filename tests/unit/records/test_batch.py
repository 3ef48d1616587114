"""`ottla/records/batch.py`: headers, walking a buffer, and the stamps that a leader puts on a batch."""

from __future__ import annotations

import struct
from copy import deepcopy

import pytest

from ottla.errors import CorruptMessage, InvalidRecord, UnsupportedCompressionType
from ottla.records import (
    HEADER,
    HEADER_SIZE,
    NO_SEQUENCE,
    Batch,
    Codec,
    Record,
    TimestampType,
    batch_size,
    batches,
    build_batch,
    decrement_sequence,
    filter_batch,
    increment_sequence,
    is_sequence_before,
    recompress,
    restamp,
    set_max_timestamp,
    stamp_append_time,
)
from ottla.records.compression import _kept
from tests.unit.records.samples import ROWS, only, sample, sealed

RECORDS = [Record(0, 1000, b"a", b"1"), Record(1, 2000, b"b", b"2"), Record(2, 1500, b"c", b"3")]


def test_the_header_has_its_size() -> None:
    assert HEADER.size == HEADER_SIZE


def test_a_batch_shows_every_field_of_its_header() -> None:
    data = build_batch(
        [record._replace(offset=record.offset + 70) for record in RECORDS],
        producer_id=9000,
        producer_epoch=4,
        base_sequence=17,
        is_transactional=True,
        leader_epoch=6,
    )
    batch = only(data)
    assert (batch.base_offset, batch.last_offset, batch.next_offset, batch.last_offset_delta) == (70, 72, 73, 2)
    assert (batch.size, batch.position, batch.record_count, batch.magic) == (len(data), 0, 3, 2)
    assert (batch.base_timestamp, batch.max_timestamp) == (1000, 2000)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (9000, 4, 17, 19)
    assert batch.leader_epoch == 6
    assert (batch.is_transactional, batch.is_control, batch.has_producer_id) == (True, False, True)
    assert (batch.codec, batch.timestamp_type) == (Codec.NONE, TimestampType.CREATE_TIME)
    assert batch.delete_horizon_ms is None
    assert bytes(batch.data) == data
    assert "offsets=[70, 72]" in repr(batch)


def test_a_batch_without_a_producer_has_no_sequences() -> None:
    batch = only(build_batch(RECORDS))
    assert not batch.has_producer_id
    assert (batch.last_sequence, batch.sequence_of(1)) == (NO_SEQUENCE, NO_SEQUENCE)


def test_the_base_timestamp_is_the_delete_horizon_when_its_bit_is_set() -> None:
    batch = only(build_batch(RECORDS, delete_horizon_ms=500))
    assert (batch.delete_horizon_ms, batch.base_timestamp) == (500, 500)
    assert batch.records() == RECORDS


def test_sequences_wrap_to_zero_after_the_largest_int() -> None:
    batch = only(build_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2))
    assert batch.last_sequence == 0
    assert [batch.sequence_of(offset) for offset in (0, 1, 2)] == [2**31 - 2, 2**31 - 1, 0]
    assert increment_sequence(2**31 - 1, 1) == 0
    assert decrement_sequence(0, 1) == 2**31 - 1
    assert decrement_sequence(increment_sequence(2**31 - 5, 9), 9) == 2**31 - 5


def test_a_sequence_near_the_largest_comes_before_those_behind_the_wrap() -> None:
    assert is_sequence_before(4, 5)
    assert is_sequence_before(2**31 - 1, 0)
    assert is_sequence_before(2**31 - 5, 9)
    assert not is_sequence_before(5, 5)
    assert not is_sequence_before(0, 2**31 - 1)
    assert not is_sequence_before(9, 2**31 - 5)


@pytest.mark.parametrize("number", [5, 6, 7])
def test_a_codec_number_that_kafka_does_not_use_is_unsupported(number: int) -> None:
    batch = only(sealed(sample(), attributes=number))
    with pytest.raises(UnsupportedCompressionType):
        _ = batch.codec
    with pytest.raises(UnsupportedCompressionType):
        batch.rows()


# --- walking a buffer ---


def test_batches_are_walked_one_after_another_from_a_start_to_an_end() -> None:
    one, two, three = (build_batch([Record(n, n, None, bytes(n))]) for n in (1, 20, 300))
    data = one + two + three
    assert [batch.base_offset for batch in batches(data)] == [1, 20, 300]
    assert [batch.position for batch in batches(data)] == [0, len(one), len(one) + len(two)]
    assert [batch.base_offset for batch in batches(memoryview(data), len(one))] == [20, 300]
    assert [batch.base_offset for batch in batches(bytearray(data), 0, len(one) + len(two))] == [1, 20]
    assert list(batches(b"")) == []


def test_what_is_left_of_a_batch_that_was_cut_off_is_passed_over_at_every_byte() -> None:
    whole = build_batch(RECORDS)
    for cut in range(len(whole)):
        assert len(list(batches(whole + whole[:cut]))) == 1
        assert len(list(batches(whole + whole, 0, len(whole) + cut))) == 1


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13])
def test_a_length_below_any_batchs_is_corrupt(length: int) -> None:
    data = bytearray(sample())
    struct.pack_into(">i", data, 8, length)
    for buffer in (data, data[:12], data[:40]):
        with pytest.raises(CorruptMessage, match="minimum"):
            list(batches(buffer))
        with pytest.raises(CorruptMessage, match="minimum"):
            batch_size(buffer)


@pytest.mark.parametrize("length", [14, 48])
def test_a_length_below_the_headers_is_corrupt(length: int) -> None:
    data = bytearray(sample())
    struct.pack_into(">i", data, 8, length)
    for buffer in (data, data[: 12 + length]):
        with pytest.raises(CorruptMessage, match="overhead 61"):
            list(batches(buffer))


@pytest.mark.parametrize("magic", [0, 1])
def test_a_whole_batch_of_an_old_magic_is_an_invalid_record(magic: int) -> None:
    data = bytearray(sample())
    data[16] = magic
    with pytest.raises(InvalidRecord, match=f"magic {magic}"):
        list(batches(data))
    assert list(batches(data[:-1])) == []
    old = struct.pack(">qiIbb", 0, 14, 0, magic, 0) + struct.pack(">ii", -1, -1)
    with pytest.raises(InvalidRecord, match=f"magic {magic}"):
        list(batches(old))


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_a_magic_there_never_was_is_corrupt(magic: int) -> None:
    data = bytearray(sample())
    data[16] = magic
    for buffer in (data, data[:17]):
        with pytest.raises(CorruptMessage, match="Invalid magic"):
            list(batches(buffer))


def test_the_good_batches_before_a_bad_one_are_given_first() -> None:
    bad = bytearray(sample())
    bad[16] = 9
    walk = batches(sample() + bad)
    assert next(walk).record_count == len(ROWS)
    with pytest.raises(CorruptMessage):
        next(walk)


def test_the_size_of_the_next_batch_is_known_once_its_magic_is_there() -> None:
    data = sample()
    assert [batch_size(data[:count]) for count in (0, 11, 12, 16)] == [None] * 4
    assert batch_size(data[:17]) == len(data)
    assert batch_size(b"xyz" + data, 3) == len(data)


# --- the checksum ---


def test_every_flipped_bit_under_the_checksum_is_found() -> None:
    data = build_batch([Record(0, 5, b"k", b"v")])
    only(data).ensure_valid()
    for position in range(17, len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            batch = only(damaged)
            assert not batch.check_crc()
            with pytest.raises(CorruptMessage, match="crc"):
                batch.ensure_valid()


def test_the_offset_and_the_epoch_lie_outside_the_checksum() -> None:
    data = bytearray(b"ahead" + sample())
    restamp(data, 5, base_offset=2**40, leader_epoch=77)
    (batch,) = batches(data, 5)
    assert (batch.base_offset, batch.leader_epoch) == (2**40, 77)
    assert batch.check_crc()
    assert data[:5] == b"ahead"
    assert [record.offset for record in batch.records()] == [2**40 + row.offset for row in ROWS]


# --- the leader's stamps ---


def test_an_append_time_becomes_the_timestamp_of_every_record() -> None:
    data = bytearray(sample())
    stamp_append_time(data, 0, len(data), 1234567)
    batch = only(data)
    assert batch.check_crc()
    assert (batch.timestamp_type, batch.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 1234567)
    assert batch.base_timestamp == only(sample()).base_timestamp
    assert {record.timestamp for record in batch.records()} == {1234567}
    assert set(batch.scan().timestamps) == {1234567}


def test_a_wrong_largest_timestamp_is_corrected_in_place() -> None:
    data = bytearray(sealed(build_batch(RECORDS), max_timestamp=9))
    set_max_timestamp(data, 0, len(data), timestamp_type=TimestampType.CREATE_TIME, max_timestamp=2000)
    assert bytes(data) == build_batch(RECORDS)


def test_a_right_largest_timestamp_leaves_the_batch_and_its_checksum_alone() -> None:
    data = bytearray(build_batch(RECORDS))
    data[17:21] = b"\0\0\0\0"
    before = bytes(data)
    set_max_timestamp(data, 0, len(data), timestamp_type=TimestampType.CREATE_TIME, max_timestamp=2000)
    assert bytes(data) == before


def test_the_append_time_bit_is_taken_back_for_create_time() -> None:
    data = bytearray(build_batch(RECORDS))
    stamp_append_time(data, 0, len(data), 5)
    set_max_timestamp(data, 0, len(data), timestamp_type=TimestampType.CREATE_TIME, max_timestamp=2000)
    assert bytes(data) == build_batch(RECORDS)


def test_a_stamp_drops_attribute_bits_without_a_meaning_and_keeps_the_others() -> None:
    data = bytearray(sealed(sample(), attributes=0x5580 | 0x70 | Codec.ZSTD))
    stamp_append_time(data, 0, len(data), 5)
    assert only(data).attributes == 0x70 | 0x08 | Codec.ZSTD
    assert only(data).check_crc()


def test_a_batch_inside_a_larger_buffer_is_stamped_where_it_lies() -> None:
    before, batch, after = b"before", sample(), sample()
    data = bytearray(before + batch + after)
    stamp_append_time(memoryview(data), len(before), len(batch), 99)
    stamped, untouched = batches(data, len(before))
    assert stamped.check_crc()
    assert stamped.max_timestamp == 99
    assert bytes(untouched.data) == after
    assert data.startswith(before)


def test_a_batch_is_a_view_of_its_buffer() -> None:
    data = sample()
    batch = only(data)
    assert isinstance(batch, Batch)
    assert batch.buffer.obj is data


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE], ids=lambda codec: codec.label)
def test_nothing_that_was_read_from_a_batch_changes_when_the_next_is_decompressed(codec: Codec) -> None:
    """All batches are decompressed into the same memory, and every reader but the check hands out what it read."""
    first, second = (
        only(build_batch([Record(n, n, letter * 50, letter * 3000) for n in range(40)], codec=codec))
        for letter in (b"a", b"b")
    )
    scan = first.scan()
    read = (first.rows(), first.records(), first.payload(), scan.data, scan.keys)
    other_codec = recompress(first, scan, Codec.NONE, base_offset=7, leader_epoch=1)
    filtered = filter_batch(first, scan, [0, 3])
    copies = deepcopy(read), bytes(other_codec), bytes(filtered)
    second.check_records()
    second.rows()
    assert (read, other_codec, filtered) == copies
    assert {row[3] for row in only(filtered).rows()} == {b"a" * 3000}
    _kept[-1].append(0)  # a BufferError while anything has a view of it


def test_a_check_leaves_no_view_of_the_memory_behind_not_even_when_it_fails() -> None:
    batch = only(build_batch([Record(n, n, b"key", b"v" * 3000) for n in range(40)], codec=Codec.LZ4))
    batch.check_records()
    _kept[-1].append(0)
    batch.record_count += 1
    with pytest.raises(InvalidRecord) as caught:
        batch.check_records()
    memory = _kept[-1]
    del caught
    memory.append(0)

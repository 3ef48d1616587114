"""`ottla/records/builder.py`: batches made record by record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records import (
    HEADER_SIZE,
    Codec,
    Record,
    RecordBatchBuilder,
    TimestampType,
    assemble_batch,
    build_batch,
    complete_batch,
    compress,
)
from tests.unit.records.samples import ROWS, only, row_lists


def test_an_uncompressed_batch_has_the_bytes_that_kafka_writes() -> None:
    """The bytes are from Kafka's `MemoryRecordsBuilder`, for the same two records."""
    records = [
        Record(5, 1700000000000, b"key", b"value", (("h", b"x"), ("n", None))),
        Record(7, 1699999999990, None, None),
    ]
    data = build_batch(
        records, producer_id=13, producer_epoch=2, base_sequence=9, is_transactional=True, leader_epoch=4
    )
    assert data.hex() == (
        "00000000000000050000004e0000000402b79600f60010000000020000018bcfe568000000018bcfe568000000000000"
        "00000d000200000009000000022a000000066b65790a76616c75650402680278026e010c001304010100"
    )


def test_no_records_make_no_batch() -> None:
    assert build_batch([]) == b""
    assert RecordBatchBuilder().build() == b""


def test_the_bounds_of_a_batch_may_lie_outside_its_records() -> None:
    batch = only(build_batch(ROWS[2:4], base_offset=0, last_offset=9))
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (0, 9, 2)
    assert batch.records() == ROWS[2:4]


def test_the_largest_timestamp_is_the_largest_or_none() -> None:
    assert only(build_batch(ROWS)).max_timestamp == 1700000100000
    assert only(build_batch([Record(0, -1, None, None)])).max_timestamp == -1


def test_a_log_append_time_batch_carries_the_time_it_is_given() -> None:
    data = build_batch(ROWS, timestamp_type=TimestampType.LOG_APPEND_TIME, append_time_ms=77)
    batch = only(data)
    assert (batch.max_timestamp, batch.base_timestamp) == (77, ROWS[0].timestamp)
    assert {record.timestamp for record in batch.records()} == {77}


@given(rows=row_lists())
def test_a_builder_gives_records_consecutive_offsets(rows: list[Record]) -> None:
    builder = RecordBatchBuilder(base_offset=50)
    for _, timestamp, key, value, headers in rows:
        assert builder.append(timestamp, key, value, headers)
    assert (builder.record_count, builder.next_offset) == (len(rows), 50 + len(rows))
    data = builder.build()
    assert builder.estimated_size == len(data)
    assert [record.offset for record in only(data).records()] == list(range(50, 50 + len(rows)))


def test_a_builder_takes_records_until_its_bound_and_the_first_always() -> None:
    small = RecordBatchBuilder(bytes_max=10)
    assert small.append(0, None, bytes(500))
    assert not small.append(0, None, b"")
    builder = RecordBatchBuilder(bytes_max=1000)
    while builder.append(0, b"key", bytes(50)):
        assert builder.estimated_size <= 1000
    data = builder.build()
    assert builder.record_count == only(data).record_count == (1000 - HEADER_SIZE) // 60
    assert len(data) <= 1000


def test_a_refused_record_leaves_no_trace() -> None:
    builder = RecordBatchBuilder(bytes_max=200)
    builder.append(5, b"a", b"b")
    before = builder.build()
    assert not builder.append(99, b"a", bytes(500))
    assert builder.build() == before


def test_a_compressed_batch_is_estimated_by_the_ratio_its_producer_knows() -> None:
    builder = RecordBatchBuilder(codec=Codec.ZSTD, bytes_max=10_000)
    builder.compression_ratio = 0.1
    while builder.append(0, None, bytes(1000)):
        pass
    assert builder.record_count > 80
    assert only(builder.build()).record_count == builder.record_count


def test_producer_state_may_be_set_until_the_batch_is_built() -> None:
    builder = RecordBatchBuilder()
    builder.append(0, None, b"v")
    builder.producer_id, builder.producer_epoch, builder.base_sequence = 4, 1, 100
    builder.is_transactional = True
    batch = only(builder.build())
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.is_transactional) == (4, 1, 100, True)


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
def test_the_codec_and_its_level_reach_the_payload(codec: Codec) -> None:
    level = None if codec in (Codec.NONE, Codec.SNAPPY) else 2
    plain, compressed = build_batch(ROWS), build_batch(ROWS, codec=codec, level=level)
    assert compressed[HEADER_SIZE:] == compress(codec, plain[HEADER_SIZE:], level)
    assert only(compressed).attributes == codec


@given(st.sampled_from([bytes, bytearray, memoryview]))
def test_keys_and_values_may_be_any_buffer(kind: type[bytes] | type[bytearray] | type[memoryview]) -> None:
    builder = RecordBatchBuilder()
    builder.append(0, kind(b"key"), kind(b""))
    assert only(builder.build()).records() == [Record(0, 0, b"key", b"")]


# --- mistakes ---


@pytest.mark.parametrize("offset", [4, 5])
def test_offsets_that_do_not_increase_are_a_mistake(offset: int) -> None:
    with pytest.raises(ValueError, match="only increase"):
        build_batch([Record(5, 0, None, None), Record(offset, 0, None, None)])


@pytest.mark.parametrize("offset", [9, 10 + 2**31])
def test_an_offset_outside_the_batch_is_a_mistake(offset: int) -> None:
    with pytest.raises(ValueError, match="begins at 10"):
        build_batch([Record(offset, 0, None, None)], base_offset=10)


@pytest.mark.parametrize("last_offset", [5, 2**31])
def test_a_last_offset_outside_the_batch_is_a_mistake(last_offset: int) -> None:
    with pytest.raises(ValueError, match="cannot be the last offset"):
        build_batch(ROWS, last_offset=last_offset)


def test_a_timestamp_before_1970_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="-2 is negative"):
        build_batch([Record(0, -2, None, None)])


def test_a_producer_that_is_not_whole_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="needs a producer id"):
        build_batch(ROWS, is_transactional=True)
    with pytest.raises(ValueError, match="needs a producer epoch"):
        build_batch(ROWS, producer_id=1, base_sequence=0)
    with pytest.raises(ValueError, match="needs a sequence"):
        build_batch(ROWS, producer_id=1, producer_epoch=0)
    assert only(build_batch(ROWS, producer_id=1, producer_epoch=0, is_control=True)).base_sequence == -1


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
def test_a_header_written_in_place_is_the_one_of_an_assembled_batch(codec: Codec) -> None:
    payload = compress(codec, bytes(range(256)) * 3)
    fields = {
        "base_offset": 7,
        "last_offset_delta": 2,
        "leader_epoch": -1,
        "attributes": int(codec),
        "base_timestamp": 1_700_000_000_000,
        "max_timestamp": 1_700_000_000_005,
        "producer_id": 2**40,
        "producer_epoch": 3,
        "base_sequence": 11,
        "record_count": 3,
    }
    whole = memoryview(bytearray(b"x" * HEADER_SIZE + payload))
    complete_batch(whole, **fields)
    assert bytes(whole) == assemble_batch(payload, **fields)
    only(bytes(whole)).ensure_valid()

"""`ottla/records/rewrite.py`: what the cleaner leaves of a batch, and what the leader makes of one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records import (
    HEADER_SIZE,
    Batch,
    Codec,
    Record,
    TimestampType,
    build_batch,
    empty_batch,
    filter_batch,
    recompress,
    stamp_append_time,
)
from tests.unit.records.samples import ROWS, only, row_lists, sample, sealed


def producers(codec: Codec = Codec.NONE, *, horizon: int | None = None) -> Batch:
    """A producer's batch."""
    data = build_batch(
        ROWS,
        codec=codec,
        producer_id=8,
        producer_epoch=1,
        base_sequence=30,
        is_transactional=True,
        leader_epoch=5,
        delete_horizon_ms=horizon,
    )
    return only(data)


def identity(batch: Batch) -> tuple[object, ...]:
    """What compaction must not change, so that the producer's state and the epochs can be read from what is left."""
    return (
        batch.base_offset, batch.last_offset, batch.producer_id, batch.producer_epoch, batch.base_sequence,
        batch.last_sequence, batch.leader_epoch, batch.is_transactional, batch.is_control, batch.timestamp_type,
    )  # fmt: skip


# --- filter ---


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
def test_a_batch_that_keeps_all_its_records_stays_as_it_is(codec: Codec) -> None:
    batch = producers(codec)
    assert filter_batch(batch, batch.scan(), range(len(ROWS))) == bytes(batch.data)
    marked = producers(codec, horizon=3)
    assert filter_batch(marked, marked.scan(), range(len(ROWS)), delete_horizon_ms=99) == bytes(marked.data)


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
@pytest.mark.parametrize("retained", [[0], [6], [1, 5], [0, 2, 3, 4], [2, 4, 5, 6]])
def test_the_records_that_stay_are_unchanged_and_the_batch_keeps_its_place(codec: Codec, retained: list[int]) -> None:
    batch = producers(codec)
    left = only(filter_batch(batch, batch.scan(), retained))
    assert left.check_crc()
    assert left.records() == [ROWS[index] for index in retained]
    assert identity(left) == identity(batch)
    assert left.codec is codec
    assert left.base_timestamp == ROWS[retained[0]].timestamp
    assert left.max_timestamp == max(ROWS[index].timestamp for index in retained)


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
def test_a_horizon_is_set_though_no_record_goes(codec: Codec) -> None:
    batch = producers(codec)
    marked = only(filter_batch(batch, batch.scan(), range(len(ROWS)), delete_horizon_ms=123456))
    assert marked.check_crc()
    assert marked.delete_horizon_ms == 123456
    assert marked.records() == ROWS
    assert (marked.max_timestamp, identity(marked)) == (batch.max_timestamp, identity(batch))


def test_a_horizon_once_set_is_kept() -> None:
    batch = producers(horizon=777)
    left = only(filter_batch(batch, batch.scan(), [1, 2], delete_horizon_ms=999))
    assert left.delete_horizon_ms == 777
    assert left.records() == ROWS[1:3]


def test_a_horizon_before_1970_is_no_horizon() -> None:
    batch = only(sealed(producers().data.tobytes(), attributes=0x50, base_timestamp=-9))
    left = only(filter_batch(batch, batch.scan(), [0, 1]))
    assert left.delete_horizon_ms is None
    assert left.records() == batch.records()[:2]


def test_the_append_time_outlives_compaction() -> None:
    data = bytearray(producers().data)
    stamp_append_time(data, 0, len(data), 1800000000000)
    batch = only(data)
    left = only(filter_batch(batch, batch.scan(), [3, 4]))
    assert (left.timestamp_type, left.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 1800000000000)
    assert left.base_timestamp == 1800000000000
    assert left.records() == [row._replace(timestamp=1800000000000) for row in ROWS[3:5]]


def test_attribute_bits_without_a_meaning_do_not_survive() -> None:
    batch = only(sealed(producers().data.tobytes(), attributes=0x1290))
    assert only(filter_batch(batch, batch.scan(), [0])).attributes == 0x10
    assert only(empty_batch(batch)).attributes == 0x10


@given(rows=row_lists(size_min=2), codec=st.sampled_from(Codec), data=st.data())
def test_filtering_twice_is_filtering_once(rows: list[Record], codec: Codec, data: st.DataObject) -> None:
    batch = only(build_batch(rows, codec=codec))
    first = sorted(data.draw(st.sets(st.integers(0, len(rows) - 1), min_size=1)))
    second = sorted(data.draw(st.sets(st.integers(0, len(first) - 1), min_size=1)))
    once = filter_batch(batch, batch.scan(), [first[index] for index in second])
    between = only(filter_batch(batch, batch.scan(), first))
    twice = filter_batch(between, between.scan(), second)
    assert only(twice).rows() == only(once).rows() == [rows[first[index]] for index in second]
    assert (only(twice).base_offset, only(twice).last_offset) == (batch.base_offset, batch.last_offset)


# --- empty ---


def test_an_emptied_batch_keeps_its_place_and_its_producer_and_nothing_else() -> None:
    for batch in (producers(), producers(Codec.LZ4), producers(horizon=5)):
        empty = only(empty_batch(batch))
        assert empty.size == HEADER_SIZE
        assert empty.check_crc()
        assert identity(empty) == identity(batch)
        assert (empty.record_count, empty.base_timestamp, empty.max_timestamp) == (0, -1, batch.max_timestamp)
        assert (empty.codec, empty.delete_horizon_ms) == (Codec.NONE, None)
        assert empty.rows() == []


# --- recompress ---


@pytest.mark.parametrize("source", list(Codec), ids=lambda codec: codec.label)
@pytest.mark.parametrize("target", list(Codec), ids=lambda codec: codec.label)
def test_a_batch_in_another_codec_holds_the_same_records_at_its_place_in_the_log(source: Codec, target: Codec) -> None:
    batch = producers(source)
    made = recompress(batch, batch.scan(), target, base_offset=4000, leader_epoch=9)
    result = only(made)
    assert result.check_crc()
    assert result.codec is target
    assert result.records() == [row._replace(offset=4000 + row.offset) for row in ROWS]
    assert (result.base_offset, result.last_offset, result.leader_epoch) == (4000, 4006, 9)
    assert (result.producer_id, result.producer_epoch, result.base_sequence) == (8, 1, 30)
    assert result.is_transactional
    assert (result.base_timestamp, result.max_timestamp) == (batch.base_timestamp, batch.max_timestamp)
    if target is Codec.NONE:
        plain = only(producers().data.tobytes())
        assert made[HEADER_SIZE:] == plain.payload()


def test_an_append_time_is_stamped_while_recompressing() -> None:
    batch = producers()
    result = only(
        recompress(
            batch,
            batch.scan(),
            Codec.ZSTD,
            base_offset=0,
            leader_epoch=0,
            timestamp_type=TimestampType.LOG_APPEND_TIME,
            append_time_ms=5,
        )
    )
    assert (result.max_timestamp, result.base_timestamp) == (5, ROWS[0].timestamp)
    assert {record.timestamp for record in result.records()} == {5}
    assert result.payload() == batch.payload()


def test_offsets_with_gaps_become_consecutive() -> None:
    batch = only(build_batch([Record(offset, 10 * offset, b"k", b"v") for offset in (3, 8, 20)]))
    result = only(recompress(batch, batch.scan(), Codec.LZ4, base_offset=100, leader_epoch=0))
    assert [(record.offset, record.timestamp) for record in result.records()] == [(100, 30), (101, 80), (102, 200)]
    assert result.last_offset == 102


def test_the_base_timestamp_becomes_the_first_records() -> None:
    batch = only(sealed(sample(), base_timestamp=500))
    result = only(recompress(batch, batch.scan(), Codec.GZIP, base_offset=0, leader_epoch=0))
    first = batch.records()[0].timestamp
    assert (first, result.base_timestamp) == (500, 500)
    shifted = only(build_batch(ROWS, delete_horizon_ms=3))
    result = only(recompress(shifted, shifted.scan(), Codec.GZIP, base_offset=0, leader_epoch=0))
    assert (result.base_timestamp, result.delete_horizon_ms) == (ROWS[0].timestamp, None)
    assert result.records() == ROWS


def test_the_level_reaches_the_codec() -> None:
    batch = only(build_batch([Record(n, 0, b"%d" % n, b"text %d" % (n * n)) for n in range(2000)]))
    low, high = (
        recompress(batch, batch.scan(), Codec.ZSTD, level, base_offset=0, leader_epoch=0) for level in (-50, 19)
    )
    assert len(high) < len(low)
    with pytest.raises(ValueError, match="level: 99"):
        recompress(batch, batch.scan(), Codec.ZSTD, 99, base_offset=0, leader_epoch=0)

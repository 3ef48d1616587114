"""`ottla/client/columnar/reader.py`: record batches become Arrow record batches, value for value."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from ottla.client.columnar import COLUMNS, ArrowBuilder, JsonValues, record_schema, to_record_batch, to_table
from ottla.client.consumer.fetch_buffer import Fetched
from ottla.client.consumer.partition_state import PartitionState, Position
from ottla.client.errors import CorruptRecord, RecordDeserialization
from ottla.records import (
    Batch,
    Codec,
    ControlType,
    EndTransactionMarker,
    Record,
    TimestampType,
    batches,
    build_batch,
    end_transaction_batch,
    stamp_append_time,
)
from ottla.types import TopicPartition
from ottla.wire.messages.fetch import AbortedTransaction
from tests.unit.records.samples import ROWS, mutations, only, sample, sealed
from tests.unit.records.test_golden_records import every_batch

ORDERS = TopicPartition("orders", 3)
BILLS = TopicPartition("bills", 0)


def moment(timestamp: int) -> datetime | None:
    return None if timestamp == -1 else datetime.fromtimestamp(timestamp / 1000, UTC)


def expected(partition: TopicPartition, row: Record) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": row.offset,
        "timestamp": moment(row.timestamp),
        "key": row.key,
        "value": row.value,
        "headers": [{"key": name, "value": value} for name, value in row.headers],
    }


def plain(batch: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
def test_a_fetch_becomes_one_record_batch(codec: Codec) -> None:
    found = to_record_batch([(ORDERS, [(only(sample(codec)), 0)]), (BILLS, [(only(sample()), 2)])])
    found.validate(full=True)
    assert found.schema == record_schema()
    assert tuple(found.schema.names) == COLUMNS
    assert plain(found) == [expected(ORDERS, row) for row in ROWS] + [expected(BILLS, row) for row in ROWS[2:]]


def test_what_kafka_wrote_becomes_the_rows_that_it_is() -> None:
    builder = ArrowBuilder()
    rows: list[dict[str, Any]] = []
    for _, batch in every_batch():
        if not batch.is_control:
            builder.add(ORDERS, batch, batch.base_offset)
            rows += [expected(ORDERS, record) for record in batch.records()]
    assert len(builder) == len(rows) > 100
    found = builder.finish()
    found.validate(full=True)
    assert plain(found) == rows


def test_columns_come_as_they_are_asked_for_in_their_order() -> None:
    names = ["leader_epoch", "value", "timestamp_type", "offset"]
    data = bytearray(sample())
    stamp_append_time(data, 0, len(data), 1_800_000_000_000)
    unled = only(build_batch(ROWS[:1]))
    found = to_record_batch([(ORDERS, [(only(sample()), 0), (only(data), 6), (unled, 0)])], names)
    found.validate(full=True)
    assert found.schema.names == names
    assert plain(found) == [
        *(
            {"leader_epoch": 3, "value": row.value, "timestamp_type": "CreateTime", "offset": row.offset}
            for row in ROWS
        ),
        {"leader_epoch": 3, "value": ROWS[6].value, "timestamp_type": "LogAppendTime", "offset": 6},
        {"leader_epoch": None, "value": ROWS[0].value, "timestamp_type": "CreateTime", "offset": 0},
    ]


def test_a_column_that_records_do_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="records have no column 'valeu': there are topic, partition"):
        ArrowBuilder(["valeu"])
    with pytest.raises(ValueError, match="'key' is named twice"):
        ArrowBuilder(["key", "key"])


def test_the_buffers_are_not_copied(build: str) -> None:
    """What the builder allocated is what Arrow points to: the batch keeps it alive, and nothing else does."""
    found = to_record_batch([(ORDERS, [(only(sample()), 0)])])
    key = found.column("key")
    again = pa.Array.from_buffers(pa.binary(), len(key), key.buffers(), null_count=key.null_count)
    del found, key
    assert again.to_pylist() == [row.key for row in ROWS]


def test_nothing_fetched_is_an_empty_record_batch() -> None:
    found = to_record_batch([])
    found.validate(full=True)
    assert (found.num_rows, found.schema) == (0, record_schema())
    assert plain(to_record_batch([(ORDERS, [(only(sample()), 99)])])) == []


def test_a_builder_is_used_again() -> None:
    builder = ArrowBuilder(["offset"])
    assert builder.add(ORDERS, only(sample()), 1, 3) == 2
    assert plain(builder.finish()) == [{"offset": 1}, {"offset": 2}]
    assert len(builder) == builder.data_size == 0
    assert builder.add(BILLS, only(sample()), 6) == 1
    assert plain(builder.finish()) == [{"offset": 6}]


def test_a_table_is_cut_into_chunks_with_one_dictionary() -> None:
    chosen = [(ORDERS, [(only(sample()), 0)] * 3), (BILLS, [(only(sample()), 0)] * 3)]
    table = to_table(chosen, chunk_bytes=10_000, end_offset=6)
    table.validate(full=True)
    assert table.column("topic").num_chunks == 3
    rows = [expected(partition, row) for partition in (ORDERS, BILLS) for _ in range(3) for row in ROWS[:6]]
    assert plain(table) == rows
    assert plain(to_table(chosen)) == plain(to_record_batch(chosen))
    assert to_table([]).schema == record_schema()


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
def test_a_damaged_batch_is_told_with_its_place_and_leaves_the_others(codec: Codec) -> None:
    damaged = bytearray(sample(codec))
    damaged[-1] ^= 1
    builder = ArrowBuilder()
    builder.add(ORDERS, only(sample()))
    with pytest.raises(CorruptRecord, match="Record batch for partition orders-3 at offset 0 is invalid") as caught:
        builder.add(ORDERS, only(damaged), 2)
    assert (caught.value.topic_partition, caught.value.offset) == (ORDERS, 2)
    assert plain(builder.finish()) == [expected(ORDERS, row) for row in ROWS]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4], ids=lambda codec: codec.label)
def test_damage_behind_a_good_checksum_is_refused_or_becomes_valid_columns(codec: Codec) -> None:
    builder = ArrowBuilder()
    outcomes = {"refused": 0, "decoded": 0}
    for data in mutations(sample(codec), count=400, seed=3):
        try:
            builder.add(ORDERS, only(data))
            outcomes["decoded"] += 1
        except CorruptRecord:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 20, outcomes
    builder.finish().validate(full=True)


def test_a_count_that_lies_is_refused() -> None:
    with pytest.raises(CorruptRecord):
        ArrowBuilder().add(ORDERS, only(sealed(sample(), record_count=2**31 - 1)))


def test_a_consumers_fetch_has_no_row_of_an_aborted_transaction() -> None:
    """read_committed: the fetch buffer leaves out what the broker told was aborted, and every mark."""

    def part(offset: int, producer_id: int, *values: bytes) -> bytes:
        rows = [Record(offset + index, 1, None, value) for index, value in enumerate(values)]
        return build_batch(rows, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)

    def mark(offset: int, producer_id: int, kind: ControlType) -> bytes:
        end = EndTransactionMarker(kind, 0)
        return end_transaction_batch(end, producer_id=producer_id, producer_epoch=0, timestamp=1, base_offset=offset)

    data = b"".join(
        (
            part(0, 1, b"aborted"),
            part(1, 2, b"committed", b"too"),
            mark(3, 1, ControlType.ABORT),
            part(4, 1, b"committed later"),
            mark(5, 2, ControlType.COMMIT),
            mark(6, 1, ControlType.COMMIT),
            build_batch([Record(7, 1, None, b"plain")], codec=Codec.ZSTD),
        )
    )
    aborted = [AbortedTransaction(producer_id=1, first_offset=0)]
    state = PartitionState(ORDERS)
    fetched = Fetched(state, Position(0, -1), data, aborted, is_read_committed=True, check_crcs=True)
    found = to_record_batch([(ORDERS, fetched.take_batches())], ["offset", "value"], check_crcs=False)
    assert plain(found) == [
        {"offset": 1, "value": b"committed"},
        {"offset": 2, "value": b"too"},
        {"offset": 4, "value": b"committed later"},
        {"offset": 7, "value": b"plain"},
    ]


def test_checksums_are_not_compared_twice_where_the_caller_has_done_it() -> None:
    data = bytearray(sample())
    data[17] ^= 1  # the checksum itself
    assert len(to_record_batch([(ORDERS, [(only(data), 0)])], check_crcs=False)) == len(ROWS)
    with pytest.raises(CorruptRecord):
        to_record_batch([(ORDERS, [(only(data), 0)])])


def test_values_become_typed_columns_and_tombstones_null() -> None:
    decoder = JsonValues(pa.schema([("id", pa.int64()), ("name", pa.string())]))
    rows = [Record(0, 1, b"k", b'{"id":1,"name":"a"}'), Record(1, 1, None, None), Record(2, 1, b"k", b'{"id":2}')]
    found = to_record_batch([(ORDERS, [(only(build_batch(rows)), 0)])], ["offset", "value"], value=decoder)
    found.validate(full=True)
    assert found.schema.field("value").type == decoder.type
    assert plain(found) == [
        {"offset": 0, "value": {"id": 1, "name": "a"}},
        {"offset": 1, "value": None},
        {"offset": 2, "value": {"id": 2, "name": None}},
    ]


@pytest.mark.parametrize("columns", [None, ["value"], ["key", "value"]])
def test_a_bad_value_is_told_with_its_partition_and_offset(columns: list[str] | None) -> None:
    decoder = JsonValues(pa.schema([("id", pa.int64())]))
    good = only(build_batch([Record(offset, 1, b'{"id":3}', b'{"id":1}') for offset in range(10)]))
    bad = only(build_batch([Record(offset, 1, b"{}", b"{" if offset == 25 else b"{}") for offset in range(20, 30)]))
    chosen: list[tuple[TopicPartition, list[tuple[Batch, int]]]] = [
        (ORDERS, [(good, 0)]),
        (BILLS, [(good, 4), (bad, 22)]),
    ]
    with pytest.raises(RecordDeserialization, match="value for partition bills-0 at offset 25") as caught:
        to_record_batch(chosen, columns, value=decoder, key=decoder)
    assert (caught.value.topic_partition, caught.value.offset) == (BILLS, 25)


def test_both_kinds_of_time_are_in_one_column() -> None:
    data = bytearray(sample())
    stamp_append_time(data, 0, len(data), 1_800_000_000_000)
    found = to_record_batch([(ORDERS, [(only(data), 5), (only(sample()), 5)])], ["timestamp"])
    assert [row["timestamp"] for row in plain(found)] == [
        moment(1_800_000_000_000),
        moment(1_800_000_000_000),
        moment(ROWS[5].timestamp),
        None,
    ]
    assert only(data).timestamp_type is TimestampType.LOG_APPEND_TIME


def test_many_batches_of_many_partitions_keep_their_order() -> None:
    data = b"".join(
        build_batch([Record(number * 2 + index, 7, b"k", b"%d" % number) for index in (0, 1)]) for number in range(50)
    )
    partitions = [TopicPartition("t", number % 3) for number in range(50)]
    builder = ArrowBuilder(["topic", "partition", "offset", "value"])
    for partition, batch in zip(partitions, batches(data), strict=True):
        builder.add(partition, batch)
    assert plain(builder.finish()) == [
        {"topic": "t", "partition": number % 3, "offset": number * 2 + index, "value": b"%d" % number}
        for number in range(50)
        for index in (0, 1)
    ]

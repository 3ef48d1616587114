"""Record batches as Kafka sends them, decoded into Arrow record batches.

No object is made for a record: `ottla.records.ColumnBuilder` fills the buffers, and Arrow takes them as they are.
The caller chooses the batches: control batches and those of aborted transactions are none of them (the consumer's
fetch buffer leaves them out). Called by the consumers' `poll_arrow` and by `topic.read`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.columnar.arrays import number, numbers_in, repeated, texts
from ottla.client.columnar.schema import (
    HEADER_TYPE,
    HEADERS_TYPE,
    TIMESTAMP_TYPE,
    record_schema,
)
from ottla.client.columnar.values import BadValue, ValueDecoder
from ottla.client.errors import CorruptRecord, RecordDeserialization
from ottla.errors import KafkaError
from ottla.records import (
    HEADER_SIZE,
    NO_TIMESTAMP,
    Batch,
    BinaryBuffers,
    ColumnBuilder,
    Columns,
    HeaderBuffers,
    TimestampType,
)
from ottla.types import Buffer, TopicPartition

INT64_MAX = 2**63 - 1

Chosen = tuple[TopicPartition, Iterable[tuple[Batch, int]]]
"""A partition's batches, each with the offset from which its records are wanted."""


class _Run(NamedTuple):
    """Rows, one after another, that have everything in common but their content."""

    partition: TopicPartition
    timestamp_type: int
    leader_epoch: int


class ArrowBuilder:
    """One Arrow record batch in the making, from record batches of any partitions. `add` them, then `finish`.

    `columns` chooses what is decoded (see `schema.FIELDS`); `key` and `value` make typed columns of those two. With
    `check_crcs` each batch's checksum is compared, which the consumer has done already for what it hands over.
    Bad input raises `CorruptRecord` or `RecordDeserialization`, with the place; what was added before stays.
    """

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        *,
        key: ValueDecoder | None = None,
        value: ValueDecoder | None = None,
        check_crcs: bool = True,
    ) -> None:
        wanted = record_schema(columns).names
        self._decoders = {
            name: decoder
            for name, decoder in (("key", key), ("value", value))
            if decoder is not None and name in wanted
        }
        self._columns = wanted
        self._check_crcs = check_crcs
        self._builder = ColumnBuilder(
            # A bad value is told with its offset, whether or not anyone asked for that column.
            offset="offset" in wanted or bool(self._decoders),
            timestamp="timestamp" in wanted,
            key="key" in wanted,
            value="value" in wanted,
            headers="headers" in wanted,
        )
        self._runs: list[_Run] = []
        self._counts: list[int] = []

    def __len__(self) -> int:
        """The rows so far."""
        return len(self._builder)

    @property
    def schema(self) -> pa.Schema:
        """The schema of what `finish` returns. With `AvroValues` of a registry it is known after the first value."""
        types = {name: decoder.type for name, decoder in self._decoders.items()}
        return record_schema(self._columns, **types)

    @property
    def data_size(self) -> int:
        """The bytes of keys, values and headers so far."""
        return self._builder.data_size

    def expect(self, rows: int, value_bytes: int) -> None:
        """Make room for about so many rows and bytes of values."""
        self._builder.expect(rows, value_bytes)

    def add(
        self,
        partition: TopicPartition,
        batch: Batch,
        start_offset: int = 0,
        end_offset: int = INT64_MAX,
    ) -> int:
        """Decode the records of a batch in [start_offset, end_offset), and return how many these are.

        `OverflowError`, and nothing added, when a column would hold more than 2 GiB: `finish`, then add it again.
        """
        try:
            if self._check_crcs:
                batch.ensure_valid()
            data = batch.payload() if batch.is_compressed else batch.data[HEADER_SIZE:]
            count = self._builder.append(
                data,
                batch.record_count,
                batch.base_offset,
                batch.base_timestamp,
                batch.max_timestamp if batch.timestamp_type is TimestampType.LOG_APPEND_TIME else None,
                start_offset,
                end_offset,
            )
        except KafkaError as error:
            raise CorruptRecord(
                partition,
                max(start_offset, batch.base_offset),
                f"Record batch for partition {partition} at offset {batch.base_offset} is invalid: {error}",
            ) from error
        if count:
            run = _Run(partition, batch.timestamp_type, batch.leader_epoch)
            if self._runs and self._runs[-1] == run:
                self._counts[-1] += count
            else:
                self._runs.append(run)
                self._counts.append(count)
        return count

    def finish(self) -> pa.RecordBatch:
        """The record batch; the builder is empty afterwards and may be used again."""
        columns = self._builder.finish()
        runs, counts = self._runs, self._counts
        self._runs, self._counts = [], []
        arrays = [self._array(name, columns, runs, counts) for name in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, name: str, columns: Columns, runs: list[_Run], counts: list[int]) -> pa.Array:
        match name:
            case "topic":
                return _topics(runs, counts)
            case "partition":
                return repeated(pa.int32(), [run.partition.partition for run in runs], counts)
            case "timestamp_type":
                types = repeated(pa.int8(), [run.timestamp_type for run in runs], counts)
                labels = texts([kind.label for kind in TimestampType])
                return pa.DictionaryArray.from_arrays(types, labels, safe=False)
            case "leader_epoch":
                epochs = repeated(pa.int32(), [run.leader_epoch for run in runs], counts)
                return _null_where_negative(epochs)
            case "offset":
                return _numbers(pa.int64(), columns.offset, columns.row_count)
            case "timestamp":
                return _timestamps(columns.timestamp, columns.row_count)
            case "headers":
                assert columns.headers is not None, "the builder was asked for them"
                return _headers(columns.headers, columns.row_count)
            case _:
                buffers = columns.key if name == "key" else columns.value
                assert buffers is not None, "the builder was asked for it"
                array = _binary(pa.binary(), buffers, columns.row_count)
                decoder = self._decoders.get(name)
                return array if decoder is None else _decoded(name, array, decoder, columns, runs, counts)


def to_record_batch(
    chosen: Iterable[Chosen],
    columns: Sequence[str] | None = None,
    *,
    key: ValueDecoder | None = None,
    value: ValueDecoder | None = None,
    check_crcs: bool = True,
) -> pa.RecordBatch:
    """One record batch of everything: what a whole fetch brought. Arguments and errors as `ArrowBuilder` has them."""
    builder = ArrowBuilder(columns, key=key, value=value, check_crcs=check_crcs)
    for partition, batches in chosen:
        for batch, start_offset in batches:
            builder.add(partition, batch, start_offset)
    return builder.finish()


def to_table(
    chosen: Iterable[Chosen],
    columns: Sequence[str] | None = None,
    *,
    end_offset: int = INT64_MAX,
    key: ValueDecoder | None = None,
    value: ValueDecoder | None = None,
    check_crcs: bool = True,
    chunk_bytes: int = 64 * 1024 * 1024,
) -> pa.Table:
    """A table of everything, in chunks of about `chunk_bytes` of content; nothing from `end_offset` on."""
    builder = ArrowBuilder(columns, key=key, value=value, check_crcs=check_crcs)
    chunks = []
    for partition, batches in chosen:
        for batch, start_offset in batches:
            builder.add(partition, batch, start_offset, end_offset)
            if builder.data_size >= chunk_bytes:
                chunks.append(builder.finish())
    if len(builder) or not chunks:
        chunks.append(builder.finish())
    # Each chunk has the topics it met as its dictionary; a table has one for all.
    return pa.Table.from_batches(chunks).unify_dictionaries()


def _decoded(
    name: str, array: pa.Array, decoder: ValueDecoder, columns: Columns, runs: list[_Run], counts: list[int]
) -> pa.Array:
    try:
        return decoder.decode(array)
    except BadValue as error:
        offset = _numbers(pa.int64(), columns.offset, columns.row_count)[error.row].as_py()
        behind = 0
        for run, count in zip(runs, counts, strict=True):
            behind += count
            if error.row < behind:
                raise RecordDeserialization(
                    run.partition,
                    offset,
                    f"Error deserializing {name} for partition {run.partition} at offset {offset}: {error.why}. "
                    "If needed, please seek past the record to continue consumption.",
                ) from error
        raise


def _numbers(kind: pa.DataType, buffer: Buffer | None, count: int) -> pa.Array:
    assert buffer is not None, "the builder was asked for it"
    return numbers_in(kind, buffer, count)


def _binary(kind: pa.DataType, buffers: BinaryBuffers, count: int) -> pa.Array:
    validity = None if buffers.validity is None else pa.py_buffer(buffers.validity)
    return pa.Array.from_buffers(
        kind,
        count,
        [validity, pa.py_buffer(buffers.offsets), pa.py_buffer(buffers.data)],
        null_count=buffers.null_count,
    )


def _headers(buffers: HeaderBuffers, count: int) -> pa.Array:
    pairs = pa.StructArray.from_arrays(
        [
            _binary(pa.string(), buffers.key, buffers.header_count),
            _binary(pa.binary(), buffers.value, buffers.header_count),
        ],
        fields=list(HEADER_TYPE),
    )
    return pa.Array.from_buffers(
        HEADERS_TYPE, count, [None, pa.py_buffer(buffers.offsets)], null_count=0, children=[pairs]
    )


def _timestamps(buffer: Buffer | None, count: int) -> pa.Array:
    numbers = _numbers(pa.int64(), buffer, count)
    # The format's word for "no timestamp" is a moment in 1969 to everyone else.
    if count and pc.min(numbers).as_py() <= NO_TIMESTAMP:
        has_one = pc.not_equal(numbers, number(pa.int64(), NO_TIMESTAMP))
        numbers = pc.if_else(has_one, numbers, pa.nulls(1, pa.int64())[0])
    return numbers.view(TIMESTAMP_TYPE)


def _null_where_negative(numbers: pa.Array) -> pa.Array:
    if len(numbers) and pc.min(numbers).as_py() < 0:
        is_known = pc.greater_equal(numbers, number(pa.int32(), 0))
        return pc.if_else(is_known, numbers, pa.nulls(1, pa.int32())[0])
    return numbers


def _topics(runs: list[_Run], counts: list[int]) -> pa.Array:
    topics = list(dict.fromkeys(run.partition.topic for run in runs))
    indices = repeated(pa.int32(), [topics.index(run.partition.topic) for run in runs], counts)
    return pa.DictionaryArray.from_arrays(indices, texts(topics), safe=False)

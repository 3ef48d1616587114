"""Record batches as rows of a DataFrame: Arrow record batches with Spark's columns and types.

No object is made for a record: `ottla.records.ColumnBuilder` fills the buffers of the columns that are asked for, and
of no others. Runs in Spark's tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ottla.client.errors import CorruptRecord
from ottla.errors import KafkaError
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.source.planning import Range
from ottla.pipelines.source.range_reader import READERS, Patience
from ottla.records import HEADER_SIZE, Batch, BinaryBuffers, ColumnBuilder, Columns, HeaderBuffers, TimestampType
from ottla.types import Buffer, TopicPartition

CHUNK_BYTES = 2 * 1024 * 1024
CHUNK_ROWS = 50_000
"""A record batch is given to Spark when it has this many bytes of keys, values and headers, or rows."""
MS_MAX = (2**63 - 1) // 1000

HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS_TYPE = pa.list_(pa.field("element", HEADER_TYPE))
TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
}


def read_rows(
    settings: dict[str, str], wanted: Range, columns: Sequence[str], patience: Patience
) -> Iterator[pa.RecordBatch]:
    """The records of a range, a row each."""
    rows = Rows(TopicPartition(wanted.topic, wanted.partition), columns)
    with READERS.lent(settings) as reader:
        fetches = reader.read(wanted, patience)
        try:
            for batches in fetches:
                for batch, start_offset in batches:
                    rows.add(batch, max(start_offset, wanted.start), wanted.end)
                    if rows.data_size >= CHUNK_BYTES or len(rows) >= CHUNK_ROWS:
                        yield rows.finish()
            if len(rows):
                yield rows.finish()
        finally:
            fetches.close()  # type: ignore[attr-defined]  # it is a generator


class Rows:
    """One record batch in the making, of one partition."""

    def __init__(self, partition: TopicPartition, columns: Sequence[str]) -> None:
        self._partition = partition
        self._columns = tuple(columns)
        self._schema = pa.schema([pa.field(name, TYPES[name]) for name in columns])
        self._builder = ColumnBuilder(
            offset="offset" in columns,
            timestamp="timestamp" in columns,
            key="key" in columns,
            value="value" in columns,
            headers="headers" in columns,
        )
        self._topic = _Repeated(partition.topic)
        self._number = _Repeated(partition.partition)
        self._kinds = {int(kind): _Repeated(int(kind)) for kind in TimestampType}
        self._types: list[tuple[int, int]] = []
        """Timestamp types, and how many rows in a row have them."""

    def __len__(self) -> int:
        return len(self._builder)

    @property
    def data_size(self) -> int:
        """The bytes of keys, values and headers so far."""
        return self._builder.data_size

    def add(self, batch: Batch, start_offset: int, end_offset: int) -> None:
        """The records of a batch in [start_offset, end_offset). `CorruptRecord` when it cannot be read."""
        kind = batch.timestamp_type
        try:
            count = self._builder.append(
                batch.payload() if batch.is_compressed else batch.data[HEADER_SIZE:],
                batch.record_count,
                batch.base_offset,
                batch.base_timestamp,
                batch.max_timestamp if kind is TimestampType.LOG_APPEND_TIME else None,
                start_offset,
                end_offset,
            )
        except KafkaError as error:
            raise CorruptRecord(
                self._partition,
                max(start_offset, batch.base_offset),
                f"Record batch for partition {self._partition} at offset {batch.base_offset} is invalid: {error}",
            ) from error
        if self._types and self._types[-1][0] == kind:
            self._types[-1] = (kind, self._types[-1][1] + count)
        else:
            self._types.append((kind, count))

    def finish(self) -> pa.RecordBatch:
        """What was added, as a record batch; the next begins empty."""
        columns = self._builder.finish()
        types, self._types = self._types, []
        arrays = [self._array(name, columns, types) for name in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, name: str, columns: Columns, types: list[tuple[int, int]]) -> pa.Array:
        count = columns.row_count
        match name:
            case "topic":
                return self._topic.first(count)
            case "partition":
                return self._number.first(count)
            case "timestampType":
                parts = [self._kinds[kind].first(number) for kind, number in types]
                return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
            case "offset":
                return _numbers(columns.offset, count)
            case "timestamp":
                return self._timestamps(columns)
            case "headers":
                assert columns.headers is not None, "the builder was asked for them"
                return _headers(columns.headers, count)
            case _:
                buffers = columns.key if name == "key" else columns.value
                assert buffers is not None, "the builder was asked for it"
                return _binary(pa.binary(), buffers, count)

    def _timestamps(self, columns: Columns) -> pa.Array:
        """Microseconds, as Spark counts. A record without a timestamp has -1 ms, as Spark's connector shows it."""
        assert columns.timestamp is not None, "the builder was asked for it"
        times = np.frombuffer(columns.timestamp, np.int64)
        first, last = int(times.min()), int(times.max())
        if first < -MS_MAX or last > MS_MAX:
            raise PipelineError(
                f"A record of {self._partition} has a timestamp between {first} and {last} ms, which Spark cannot hold "
                "in microseconds: its producer should write milliseconds"
            )
        return pa.Array.from_buffers(TYPES["timestamp"], len(times), [None, pa.py_buffer(times * 1000)], null_count=0)


class _Repeated:
    """A column that has the same value in every row: made once for many rows, and cut for fewer."""

    def __init__(self, value: int | str) -> None:
        self._value = value
        self._array: pa.Array | None = None

    def first(self, count: int) -> pa.Array:
        if self._array is None or len(self._array) < count:
            self._array = self._make(max(count, CHUNK_ROWS))
        return self._array.slice(0, count)

    def _make(self, count: int) -> pa.Array:
        # Of buffers: `pyarrow.scalar` and `pyarrow.array` import pandas where it is installed.
        if isinstance(self._value, int):
            numbers = np.full(count, self._value, np.int32)
            return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(numbers)], null_count=0)
        text = self._value.encode()
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(text))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text * count)]
        return pa.Array.from_buffers(pa.string(), count, buffers, null_count=0)


def _numbers(buffer: Buffer | None, count: int) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(buffer)], null_count=0)


def _binary(kind: pa.DataType, buffers: BinaryBuffers, count: int) -> pa.Array:
    validity = None if buffers.validity is None else pa.py_buffer(buffers.validity)
    return pa.Array.from_buffers(
        kind,
        count,
        [validity, pa.py_buffer(buffers.offsets), pa.py_buffer(buffers.data)],
        null_count=buffers.null_count,
    )


def _headers(buffers: HeaderBuffers, count: int) -> pa.Array:
    """Lists of pairs; null for a record without headers, as Spark's connector has it."""
    pairs = pa.StructArray.from_arrays(
        [
            _binary(pa.string(), buffers.key, buffers.header_count),
            _binary(pa.binary(), buffers.value, buffers.header_count),
        ],
        fields=list(HEADER_TYPE),
    )
    offsets = pa.py_buffer(buffers.offsets)
    has_some = np.diff(np.frombuffer(buffers.offsets, np.int32, count + 1)) > 0
    validity = pa.py_buffer(np.packbits(has_some, bitorder="little"))
    return pa.Array.from_buffers(HEADERS_TYPE, count, [validity, offsets], children=[pairs])

"""Record batches as rows of a DataFrame: Arrow record batches with Spark's columns and types.

No object is made for a record: `ottla.records.ColumnBuilder` fills the buffers of the columns that are asked for, and
of no others. Runs in Spark's tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

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
                return pa.repeat(pa.scalar(self._partition.topic, pa.string()), count)
            case "partition":
                return pa.repeat(pa.scalar(self._partition.partition, pa.int32()), count)
            case "timestampType":
                return pa.concat_arrays([pa.repeat(pa.scalar(kind, pa.int32()), number) for kind, number in types])
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
        times = _numbers(columns.timestamp, columns.row_count)
        try:
            return pc.multiply_checked(times, 1000).view(TYPES["timestamp"])
        except pa.ArrowInvalid:
            found = pc.min_max(times).as_py()
            raise PipelineError(
                f"A record of {self._partition} has a timestamp between {found['min']} and {found['max']} ms, which "
                "Spark cannot hold in microseconds: its producer should write milliseconds"
            ) from None


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
    lists = pa.Array.from_buffers(HEADERS_TYPE, count, [None, offsets], null_count=0, children=[pairs])
    has_some = pc.greater(pc.list_value_length(lists), 0)
    validity = has_some.buffers()[1]
    return pa.Array.from_buffers(HEADERS_TYPE, count, [validity, offsets], children=[pairs])

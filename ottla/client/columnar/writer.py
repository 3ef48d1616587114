"""Arrow record batches encoded into sections of records, partition by partition: what `send_arrow` sends.

No object is made for a row: `ottla.records.RowEncoder` reads Arrow's buffers where they lie. What is here chooses the
columns, the partitions and the limits; the producer compresses a section and puts a batch's header in front.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.columnar.arrays import number, numbers_in, repeated
from ottla.records import BinaryView, HeaderView, RowEncoder, group_rows
from ottla.types import Buffer

KNOWN = ("topic", "partition", "offset", "timestamp", "timestamp_type", "leader_epoch", "key", "value", "headers")
"""The columns that may be there. Offsets, epochs and timestamp types are the broker's to give, and are passed over."""


class EncodedSection(NamedTuple):
    """Records for one batch of one partition, behind the room for its header that was asked for."""

    partition: int
    section: Buffer
    """Writable, and nobody else's."""
    record_count: int
    base_timestamp: int
    max_timestamp: int


class ArrowRows:
    """The rows of an Arrow record batch, as records to be.

    The columns are `key`, `value`, `headers`, `timestamp` and `partition`, each of which may be missing. Keys and
    values are bytes or text; headers are lists of structs of a name and a value, or maps; a timestamp is an Arrow one,
    or an integer of milliseconds, and `now_ms` where it is null; a partition is an integer, and null is "by the key".
    `ValueError` for columns that are none of these, or of another type, or that no broker would take.
    """

    def __init__(self, batch: pa.RecordBatch, *, now_ms: int) -> None:
        unknown = [name for name in batch.schema.names if name not in KNOWN]
        if unknown:
            raise ValueError(f"records have no column {unknown[0]!r}: there are {', '.join(KNOWN)}")
        self._count: int = batch.num_rows
        self._partition = _integers(batch, "partition", pa.int32())
        key = _bytes(batch, "key")
        self._encoder = RowEncoder(
            batch.num_rows,
            _timestamps(batch, now_ms),
            None if key is None else _binary_view(key),
            None if (value := _bytes(batch, "value")) is None else _binary_view(value),
            _header_view(batch),
        )

    def __len__(self) -> int:
        return self._count

    def sections(
        self, partition_count: int, *, size_max: int, keyless: Sequence[int] | None = None, head_size: int = 0
    ) -> Iterator[EncodedSection]:
        """All rows as sections of at most `size_max` bytes, partition by partition, in the order of the rows; each has
        `head_size` bytes more in front of it.

        A row goes to the partition that it names, else where its key belongs, as any Kafka producer has it; rows
        without either are dealt out to the partitions `keyless` in equal runs, by default to all of them. A section
        larger than `size_max` holds one record, which is too large: refuse it or send it, it is the caller's to say.
        """
        if self._count == 0:
            return
        partitions = self.partitions(partition_count, range(partition_count) if keyless is None else keyless)
        rows, ends = group_rows(partitions, partition_count)
        start = 0
        for partition, end in enumerate(ends):
            while start < end:
                encoded = self._encoder.encode(rows, start, end, size_max, head_size)
                section, stop, base_timestamp, max_timestamp = encoded
                yield EncodedSection(partition, section, stop - start, base_timestamp, max_timestamp)
                start = stop

    def partitions(self, partition_count: int, keyless: Sequence[int]) -> Buffer:
        """Each row's partition, as 32-bit numbers."""
        chosen = numbers_in(pa.int32(), self._encoder.partitions(partition_count), self._count)
        if self._partition is not None:
            _check_range(self._partition, partition_count)
            chosen = pc.coalesce(self._partition, chosen)
        undecided = pc.equal(chosen, number(pa.int32(), -1))
        count = pc.sum(undecided).as_py() or 0
        if count:
            bounds = [-(-count * place // len(keyless)) for place in range(len(keyless) + 1)]
            dealt = repeated(pa.int32(), keyless, [end - start for start, end in pairwise(bounds)])
            chosen = dealt if count == self._count else pc.replace_with_mask(chosen, undecided, dealt)
        return memoryview(chosen.buffers()[1])[4 * chosen.offset : 4 * (chosen.offset + self._count)]


def times_ms(batch: pa.RecordBatch, now_ms: int) -> list[int]:
    """Each row's time as it is sent: milliseconds since 1970, `now_ms` where the row does not say it."""
    times = _timestamps(batch, now_ms)
    return [times] * batch.num_rows if isinstance(times, int) else memoryview(times).cast("B").cast("q").tolist()


def by_topic(batch: pa.RecordBatch) -> list[tuple[str, pa.RecordBatch]]:
    """The rows of each topic that the column `topic` names, in their order; a row without a topic is a `ValueError`."""
    index = batch.schema.get_field_index("topic")
    if index < 0:
        raise ValueError("which topic? Name one, or give the rows a column 'topic'")
    column = batch.column(index)
    if column.null_count:
        raise ValueError(f"row {pc.index(pc.is_null(column), True).as_py()} has no topic")
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    rest = batch.remove_column(index)
    names = column.dictionary.to_pylist()
    used = [number for number in range(len(names)) if number in set(pc.unique(column.indices).to_pylist())]
    if len(used) == 1:
        return [(names[used[0]], rest)]
    return [(names[number], rest.filter(pc.equal(column.indices, number))) for number in used]


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    index = batch.schema.get_field_index(name)
    if index < 0:
        if batch.schema.names.count(name) > 1:
            raise ValueError(f"column {name!r} is there twice")
        return None
    column = batch.column(index)
    return None if pa.types.is_null(column.type) else column


def _refuse(name: str, column: pa.Array, wanted: str) -> ValueError:
    return ValueError(f"column {name!r} is of type {column.type}, and should be {wanted}")


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_binary(kind)
        or types.is_string(kind)
        or types.is_large_binary(kind)
        or types.is_large_string(kind)
        or types.is_binary_view(kind)
        or types.is_string_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def _as_binary(name: str, column: pa.Array) -> pa.Array:
    """The column as variable-size binary: text is that already, but for its name."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not _is_bytes(column.type):
        raise _refuse(name, column, "bytes or text")
    return column if pa.types.is_binary(column.type) else column.cast(pa.binary())


def _bytes(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    column = _column(batch, name)
    return None if column is None else _as_binary(name, column)


def _integers(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array | None:
    column = _column(batch, name)
    if column is None or pa.types.is_integer(column.type):
        return None if column is None else column.cast(kind)
    raise _refuse(name, column, "an integer")


def _timestamps(batch: pa.RecordBatch, now_ms: int) -> Buffer | int:
    column = _column(batch, "timestamp")
    if column is None or column.null_count == len(column):
        return now_ms
    if pa.types.is_timestamp(column.type):
        # Kafka has milliseconds: what is finer is cut off, as its clients do.
        column = column.cast(pa.timestamp("ms", tz=column.type.tz), safe=False).view(pa.int64())
    elif pa.types.is_integer(column.type):
        column = column.cast(pa.int64())
    else:
        raise _refuse("timestamp", column, "a timestamp or an integer of milliseconds")
    if column.null_count:
        column = pc.fill_null(column, number(pa.int64(), now_ms))
    if pc.min(column).as_py() < 0:
        row = pc.index(pc.less(column, 0), True).as_py()
        raise ValueError(f"row {row} has a timestamp before 1970, {column[row].as_py()}")
    return memoryview(column.buffers()[1])[8 * column.offset : 8 * (column.offset + len(column))]


def _validity(column: pa.Array) -> Buffer | None:
    return None if column.null_count == 0 else memoryview(column.buffers()[0])


def _offsets(column: pa.Array) -> Buffer:
    return memoryview(column.buffers()[1])[4 * column.offset : 4 * (column.offset + len(column) + 1)]


def _binary_view(column: pa.Array) -> BinaryView:
    data = column.buffers()[2]
    return _validity(column), column.offset, _offsets(column), b"" if data is None else memoryview(data)


def _header_view(batch: pa.RecordBatch) -> HeaderView | None:
    column = _column(batch, "headers")
    if column is None:
        return None
    if pa.types.is_large_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    if not (pa.types.is_list(column.type) or pa.types.is_map(column.type)):
        raise _refuse("headers", column, "lists of structs of a name and a value, or maps")
    pairs = column.values  # of all rows, whichever of them this batch is a slice of
    if not pa.types.is_struct(pairs.type) or pairs.type.num_fields != 2:
        raise _refuse("headers", column, "lists of structs of a name and a value, or maps")
    if pairs.null_count:
        raise ValueError("a header is null")
    names = _as_binary("headers", pairs.field(0))
    values = _as_binary("headers", pairs.field(1))
    return (
        _validity(column),
        column.offset,
        _offsets(column),
        _binary_view(names),
        _binary_view(values),
        len(pairs),
    )


def _check_range(partitions: pa.Array, partition_count: int) -> None:
    found = pc.min_max(partitions).as_py()
    if found["min"] is None or (found["min"] >= 0 and found["max"] < partition_count):
        return
    outside = pc.or_(pc.less(partitions, 0), pc.greater_equal(partitions, partition_count))
    row = pc.index(pc.fill_null(outside, False), True).as_py()
    raise ValueError(f"row {row} is for partition {partitions[row].as_py()}, and there are {partition_count}")

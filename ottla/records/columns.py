"""Records as columns, in the memory layout of Apache Arrow: read from sections of records, and written to them.

`ColumnBuilder` decodes many sections into one set of buffers, which `pyarrow` takes over without a copy; `RowEncoder`
is the way back. Neither needs pyarrow, and neither makes an object for a record. The classes here are the twins in
plain Python of those in csrc, which release the GIL and take some 20 ns a record.
Called by `ottla.client.columnar`. The layout: variable-size binary and lists have 32-bit offsets in the machine's byte
order, one more than there are rows; validity has a bit a row, the lowest first, and 0 is null.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple, TypeAlias

from ottla.records.decode import decode_rows
from ottla.records.encode import encode_record
from ottla.records.murmur import partition_of
from ottla.records.record import Header
from ottla.records.varint import to_int64
from ottla.types import Buffer

INT32_MAX = 2**31 - 1
HEAD_SIZE_MAX = 2**16
EXPECTED_MAX = 2**30
INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1


class BinaryBuffers(NamedTuple):
    """The buffers of a column of bytes or text. No `validity` means that no row is null."""

    validity: Buffer | None
    offsets: Buffer
    data: Buffer
    null_count: int


class HeaderBuffers(NamedTuple):
    """The buffers of a column of headers: lists of pairs. Row i has the pairs from `offsets[i]` to `offsets[i + 1]`."""

    offsets: Buffer
    key: BinaryBuffers
    value: BinaryBuffers
    header_count: int


class Columns(NamedTuple):
    """What a `ColumnBuilder` made: so many rows; a column that was not asked for is None."""

    row_count: int
    offset: Buffer | None
    timestamp: Buffer | None
    key: BinaryBuffers | None
    value: BinaryBuffers | None
    headers: HeaderBuffers | None


_Binary: TypeAlias = tuple[Buffer | None, Buffer, Buffer, int]


def make_columns(
    count: int,
    offset: Buffer | None,
    timestamp: Buffer | None,
    key: _Binary | None,
    value: _Binary | None,
    headers: tuple[Buffer, _Binary, _Binary, int] | None,
) -> Columns:
    """Give the parts their names: what both builds of `ColumnBuilder.finish` return."""
    return Columns(
        count,
        offset,
        timestamp,
        None if key is None else BinaryBuffers(*key),
        None if value is None else BinaryBuffers(*value),
        None
        if headers is None
        else HeaderBuffers(headers[0], BinaryBuffers(*headers[1]), BinaryBuffers(*headers[2]), headers[3]),
    )


class ColumnBuilder:
    """Arrow's buffers for the records of many sections, with the columns that are asked for and no others.

    A column holds 2 GiB at most: `OverflowError` from `append`, which leaves the columns as they were, says that it is
    time to `finish` and go on with an empty builder. `data_size` tells before that how much there is.
    """

    def __init__(
        self, *, offset: bool = True, timestamp: bool = True, key: bool = True, value: bool = True, headers: bool = True
    ) -> None:
        self._has_offset = offset
        self._has_timestamp = timestamp
        self._key = _BinaryColumn() if key else None
        self._value = _BinaryColumn() if value else None
        self._headers = _HeaderColumn() if headers else None
        self._offset = array("q")
        self._timestamp = array("q")
        self._count = 0

    def __len__(self) -> int:
        """The rows so far."""
        return self._count

    @property
    def data_size(self) -> int:
        """The bytes of all keys, values and headers so far."""
        return sum(column.data_size for column in (self._key, self._value, self._headers) if column is not None)

    def expect(self, rows: int, value_bytes: int, /) -> None:
        """Make room for so many more rows and bytes of values, so that the columns do not move while they grow.

        More or less may come. `ValueError` for what no columns could hold.
        """
        if not (0 <= rows <= EXPECTED_MAX and 0 <= value_bytes <= EXPECTED_MAX):
            raise ValueError(f"{rows} rows with {value_bytes} bytes cannot be expected")

    def append(
        self,
        section: Buffer,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_time: int | None,
        start_offset: int = INT64_MIN,
        end_offset: int = INT64_MAX,
        /,
    ) -> int:
        """Decode a section behind what is there, and return how many rows that brought.

        The section is decompressed and its checksum compared. Records before `start_offset`, and from `end_offset` on,
        are left out. `InvalidRecord`, and no new row, when the section is not what the batch's header says.
        """
        columns = (self._key, self._value, self._headers)
        if any(column is not None and column.data_size + len(section) > INT32_MAX for column in columns):
            raise OverflowError("a column holds at most 2 GiB: finish it and begin another")
        decoded = decode_rows(bytes(section), count, base_offset, base_timestamp, append_time)
        rows = [
            row if row[0] == offset else (offset, *row[1:])
            for row in decoded
            if start_offset <= (offset := to_int64(row[0])) < end_offset
        ]
        if self._has_offset:
            self._offset.extend([row[0] for row in rows])
        if self._has_timestamp:
            self._timestamp.extend([row[1] for row in rows])
        if self._key is not None:
            self._key.extend([row[2] for row in rows])
        if self._value is not None:
            self._value.extend([row[3] for row in rows])
        if self._headers is not None:
            self._headers.extend([row[4] for row in rows])
        self._count += len(rows)
        return len(rows)

    def finish(self) -> Columns:
        """The columns; the builder is empty afterwards and may be used again."""
        columns = make_columns(
            self._count,
            self._offset.tobytes() if self._has_offset else None,
            self._timestamp.tobytes() if self._has_timestamp else None,
            None if self._key is None else self._key.finish(),
            None if self._value is None else self._value.finish(),
            None if self._headers is None else self._headers.finish(),
        )
        self._offset = array("q")
        self._timestamp = array("q")
        self._count = 0
        return columns


class _BinaryColumn:
    """A column of nullable bytes in the making."""

    def __init__(self) -> None:
        self._offsets = array("i", (0,))
        self._data = bytearray()
        self._nulls: list[int] = []

    @property
    def data_size(self) -> int:
        return len(self._data)

    def extend(self, fields: list[bytes | None]) -> None:
        offsets = self._offsets
        data = self._data
        for field in fields:
            if field is None:
                self._nulls.append(len(offsets) - 1)
            else:
                data += field
            offsets.append(len(data))

    def finish(self) -> BinaryBuffers:
        offsets, data, nulls = self._offsets, self._data, self._nulls
        self.__init__()  # type: ignore[misc]
        return BinaryBuffers(_validity(len(offsets) - 1, nulls), offsets.tobytes(), bytes(data), len(nulls))


class _HeaderColumn:
    """A column of lists of headers in the making."""

    def __init__(self) -> None:
        self._offsets = array("i", (0,))
        self._key = _BinaryColumn()
        self._value = _BinaryColumn()

    @property
    def data_size(self) -> int:
        return self._key.data_size + self._value.data_size

    def extend(self, rows: list[tuple[Header, ...]]) -> None:
        count = self._offsets[-1]
        for headers in rows:
            if headers:
                self._key.extend([name.encode("utf-8") for name, _ in headers])
                self._value.extend([value for _, value in headers])
                count += len(headers)
            self._offsets.append(count)

    def finish(self) -> tuple[Buffer, BinaryBuffers, BinaryBuffers, int]:
        offsets = self._offsets
        self._offsets = array("i", (0,))
        return offsets.tobytes(), self._key.finish(), self._value.finish(), offsets[-1]


def _validity(count: int, nulls: list[int]) -> bytes | None:
    if not nulls:
        return None
    bits = bytearray(b"\xff" * ((count + 7) // 8))
    if count % 8:
        bits[-1] = (1 << count % 8) - 1
    for row in nulls:
        bits[row // 8] &= ~(1 << row % 8)
    return bytes(bits)


BinaryView: TypeAlias = tuple[Buffer | None, int, Buffer, Buffer]
"""A column of someone's Arrow array: validity or None, the bit of it that is the first row's, offsets, data."""

HeaderView: TypeAlias = tuple[Buffer | None, int, Buffer, BinaryView, BinaryView, int]
"""A column of headers: validity or None, its first bit, offsets, the names, the values, and how many those are."""

Encoded: TypeAlias = tuple[Buffer, int, int, int]
"""A section of records, the place behind the last row that it took, its base timestamp, its largest timestamp."""


class RowEncoder:
    """Arrow's buffers, to be written as sections of records.

    `timestamps` is a buffer of 64-bit milliseconds, or one timestamp for every row. A column that is None is null in
    every row; a list that is null has no headers. The buffers are held, and not copied: they must not change.
    `ValueError` when a buffer is too small for `count` rows, or, while rows are encoded, when offsets lead out of the
    data or the name of a header is null.
    """

    def __init__(
        self,
        count: int,
        timestamps: Buffer | int,
        key: BinaryView | None,
        value: BinaryView | None,
        headers: HeaderView | None,
        /,
    ) -> None:
        if not 0 <= count <= INT32_MAX:
            raise ValueError(f"{count} is no number of rows")
        self._count = count
        self._timestamps = timestamps if isinstance(timestamps, int) else _numbers(timestamps, "q", count)
        self._key = None if key is None else _BinaryReader(key, count)
        self._value = None if value is None else _BinaryReader(value, count)
        self._headers = None if headers is None else _HeaderReader(headers, count)

    def encode(self, rows: Buffer | None, start: int, stop: int, size_max: int, head_size: int = 0, /) -> Encoded:
        """A section of the rows from `start` on and before `stop`, as many as fit into `size_max` bytes.

        In front of it are `head_size` bytes of zero, which `size_max` does not count: room for a batch's header, to be
        written in place.

        `rows` are the numbers of rows, 32 bits each, in whose order they are written, `start` and `stop` places in it;
        None is all rows in their order. The first record is taken even if it alone is larger than `size_max`: who
        cannot send it sees that in the section's size. `IndexError` when there is no such row or range.
        """
        order = range(self._count) if rows is None else _numbers(rows, "i", 0)
        if not 0 <= start < stop <= len(order):
            raise IndexError(f"[{start}, {stop}) is no range of {len(order)} rows")
        if not 0 <= head_size <= HEAD_SIZE_MAX:
            raise ValueError(f"{head_size} is no size of a head")
        section = bytearray(head_size)
        base_timestamp = max_timestamp = 0
        for place in range(start, stop):
            row = order[place]
            if not 0 <= row < self._count:
                raise IndexError(f"there is no row {row}")
            timestamp = self._timestamps if isinstance(self._timestamps, int) else self._timestamps[row]
            if place == start:
                base_timestamp = max_timestamp = timestamp
            record = encode_record(
                place - start,
                to_int64(timestamp - base_timestamp),
                None if self._key is None else self._key[row],
                None if self._value is None else self._value[row],
                () if self._headers is None else self._headers[row],
            )
            if place > start and len(section) - head_size + len(record) > size_max:
                return section, place, base_timestamp, max_timestamp
            section += record
            max_timestamp = max(max_timestamp, timestamp)
        return section, stop, base_timestamp, max_timestamp

    def partitions(self, partition_count: int, /) -> Buffer:
        """Each row's partition by its key, as 32-bit numbers; -1 where the key is null."""
        if partition_count <= 0:
            raise ZeroDivisionError("a topic has at least one partition")
        partitions = array("i", (-1,)) * self._count
        if self._key is not None:
            for row in range(self._count):
                key = self._key[row]
                if key is not None:
                    partitions[row] = partition_of(key, partition_count)
        return partitions.tobytes()


class _Reader:
    """Where each row of a column lies in its data."""

    def __init__(self, validity: Buffer | None, bit_offset: int, offsets: Buffer, size: int, count: int) -> None:
        self._validity = None if validity is None else memoryview(validity).cast("B")
        self._bit_offset = bit_offset
        self._offsets = _numbers(offsets, "i", count + 1)
        self._size = size
        if bit_offset < 0 or (self._validity is not None and bit_offset + count > len(self._validity) * 8):
            raise _too_small(count)

    def extent(self, row: int) -> tuple[int, int] | None:
        """[start, end), or None for null."""
        if self._validity is not None:
            bit = self._bit_offset + row
            if not self._validity[bit // 8] >> bit % 8 & 1:
                return None
        start, end = self._offsets[row], self._offsets[row + 1]
        if not 0 <= start <= end <= self._size:
            raise ValueError(f"the offsets of a column lead out of its data at row {row}")
        return start, end


class _BinaryReader:
    """A column of nullable bytes."""

    def __init__(self, view: BinaryView, count: int) -> None:
        validity, bit_offset, offsets, data = view
        self._data = memoryview(data).cast("B")
        self._reader = _Reader(validity, bit_offset, offsets, len(self._data), count)

    def __getitem__(self, row: int) -> bytes | None:
        extent = self._reader.extent(row)
        return None if extent is None else bytes(self._data[extent[0] : extent[1]])


class _HeaderReader:
    """A column of lists of headers."""

    def __init__(self, view: HeaderView, count: int) -> None:
        validity, bit_offset, offsets, names, values, header_count = view
        if header_count < 0:
            raise ValueError("a column has no fewer than 0 rows")
        self._reader = _Reader(validity, bit_offset, offsets, header_count, count)
        self._names = _BinaryReader(names, header_count)
        self._values = _BinaryReader(values, header_count)

    def __getitem__(self, row: int) -> tuple[Header, ...]:
        extent = self._reader.extent(row)
        return () if extent is None else tuple(self._header(index, row) for index in range(*extent))

    def _header(self, index: int, row: int) -> Header:
        name = self._names[index]
        try:
            if name is not None:
                return name.decode("utf-8"), self._values[index]
        except UnicodeDecodeError:
            pass
        raise ValueError(f"row {row} has a header whose name is null or not UTF-8")


def group_rows(groups: Buffer, group_count: int, /) -> tuple[Buffer, list[int]]:
    """The numbers of the rows, group by group, and the place behind each group's last: a stable sort by counting.

    `groups` has each row's group as a 32-bit number from 0 on; `ValueError` where one is not below `group_count`.
    """
    if not 0 <= group_count <= INT32_MAX:
        raise ValueError(f"{group_count} is no number of groups")
    members: list[list[int]] = [[] for _ in range(group_count)]
    for row, group in enumerate(_numbers(groups, "i", 0)):
        if not 0 <= group < group_count:
            raise ValueError(f"row {row} is in none of {group_count} groups")
        members[group].append(row)
    rows = array("i")
    ends = []
    for member in members:
        rows.extend(member)
        ends.append(len(rows))
    return rows.tobytes(), ends


def _numbers(buffer: Buffer, form: str, count: int) -> memoryview[int]:
    """The buffer as numbers, at least `count` of them."""
    view = memoryview(buffer).cast("B")
    size = 8 if form == "q" else 4
    numbers = view[: len(view) // size * size].cast(form)  # type: ignore[call-overload]
    if len(numbers) < count:
        raise _too_small(count)
    return numbers  # type: ignore[no-any-return]


def _too_small(count: int) -> ValueError:
    return ValueError(f"a column's buffers are too small for {count} rows")

"""The records of a batch, decoded: the three loops that touch every record, written to be fast.

`decode_rows` reads everything; `scan_rows` reads offsets, timestamps and keys and steps over the rest; `check_rows`
keeps nothing and only says what a leader has to know before it takes the batch.
All take the records section of a batch, decompressed, and either answer for all its records or raise `InvalidRecord`:
a length that lies, a count that lies, a varint too long, bytes left over. They allocate nothing that the section did
not carry. Called by `Batch`.

The one- and two-byte forms of each varint are written out in the loops, because a call would cost as much as the
rest of the record. Positions past the end are not tested for: they raise `IndexError`, and a slice that was cut
short is found out by the read that follows it. The module is plain Python that mypyc compiles as it stands: `i64` is
an `int` to Python, and a machine word once compiled, which is why `check_rows` takes 10 ns a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.errors import InvalidRecord
from ottla.records.record import Header, Row
from ottla.records.varint import read_unsigned_varint, read_unsigned_varlong, to_int64, zigzag
from ottla.types import Buffer

if TYPE_CHECKING:
    from mypy_extensions import i64

# Spelled out for the compiler, which knows the value of a literal only.
_INT64_MAX: Final = 0x7FFFFFFFFFFFFFFF
_INT32_MASK: Final = 0xFFFFFFFF
_NO_TIMESTAMP: Final = -1
_WIDE: Final = 0x4000000000000000
"""Two numbers below this one have a sum that fits into a long."""
WINDOW_BYTES: Final = 64 * 1024
"""How much of a section `check_rows` copies at a time: `malloc` has it ready, and it stays in a core's own cache."""


class Scan:
    """The records of a batch as columns: one list for each thing, in the order of the records.

    `starts[i]` is where record `i` begins in `data` (at its length) and `bodies[i]` where its key length is, which
    begins what does not depend on the batch's base offset and base timestamp. The record ends where the next begins.
    """

    __slots__ = ("bodies", "data", "has_values", "keys", "offsets", "starts", "timestamps")

    data: bytes
    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    has_values: list[bool]
    starts: list[int]
    bodies: list[int]

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offsets = []
        self.timestamps = []
        self.keys = []
        self.has_values = []
        self.starts = []
        self.bodies = []

    def __len__(self) -> int:
        return len(self.offsets)

    def end(self, index: int) -> int:
        """Where record `index` ends in `data`."""
        following = index + 1
        return self.starts[following] if following < len(self.starts) else len(self.data)


def decode_rows(data: bytes, count: int, base_offset: int, base_timestamp: int, append_time: int | None) -> list[Row]:
    """All records of the section `data`. With an `append_time`, that is the timestamp of every one."""
    rows: list[Row] = []
    if not _has_records(count):
        return rows
    has_wide_timestamp = not -_WIDE < base_timestamp < _WIDE
    no_headers: tuple[Header, ...] = ()
    position = 0
    try:
        for _ in range(count):
            number = data[position]
            if number < 0x80:
                position += 1
            else:
                byte = data[position + 1]
                if byte < 0x80:
                    number += (byte << 7) - 0x80
                    position += 2
                else:
                    number, position = read_unsigned_varint(data, position)
            size = number
            body = position

            # First the record's attributes, a byte that has no meaning yet.
            number = data[position + 1]
            if number < 0x80:
                position += 2
            else:
                byte = data[position + 2]
                if byte < 0x80:
                    number += (byte << 7) - 0x80
                    position += 3
                else:
                    number, position = read_unsigned_varlong(data, position + 1)
                    has_wide_timestamp = True
            timestamp = base_timestamp + ((number >> 1) ^ -(number & 1))

            number = data[position]
            if number < 0x80:
                position += 1
            else:
                byte = data[position + 1]
                if byte < 0x80:
                    number += (byte << 7) - 0x80
                    position += 2
                else:
                    number, position = read_unsigned_varint(data, position)
            offset = base_offset + ((number >> 1) ^ -(number & 1))

            number = data[position]
            if number < 0x80:
                position += 1
            else:
                number, position = read_unsigned_varint(data, position)
            key: bytes | None = None
            if not number & 1:
                start = position
                position += number >> 1
                key = data[start:position]

            number = data[position]
            if number < 0x80:
                position += 1
            else:
                byte = data[position + 1]
                if byte < 0x80:
                    number += (byte << 7) - 0x80
                    position += 2
                else:
                    number, position = read_unsigned_varint(data, position)
            value: bytes | None = None
            if not number & 1:
                start = position
                position += number >> 1
                value = data[start:position]

            headers = no_headers
            if data[position]:
                headers, position = _read_headers(data, position)
            else:
                position += 1
            # In zigzag a size is written doubled, and a negative one odd.
            if (position - body) << 1 != size:
                raise _wrong_size(position - body, size)
            rows.append((offset, timestamp, key, value, headers))
    except IndexError:
        raise _cut_short() from None
    if position != len(data):
        raise _left_over(position, len(data))
    if append_time is not None:
        return [(offset, append_time, key, value, headers) for offset, _, key, value, headers in rows]
    if has_wide_timestamp:
        return [(offset, to_int64(timestamp), key, value, headers) for offset, timestamp, key, value, headers in rows]
    return rows


def scan_rows(data: bytes, count: int, base_offset: int, base_timestamp: int, append_time: int | None) -> Scan:
    """The columns of the section `data`: each record's structure is checked as in `decode_rows`, headers included."""
    scan = Scan(data)
    if not _has_records(count):
        return scan
    has_wide_timestamp = not -_WIDE < base_timestamp < _WIDE
    offsets = scan.offsets
    timestamps = scan.timestamps
    keys = scan.keys
    has_values = scan.has_values
    starts = scan.starts
    bodies = scan.bodies
    position = 0
    try:
        for _ in range(count):
            starts.append(position)
            number = data[position]
            if number < 0x80:
                position += 1
            else:
                byte = data[position + 1]
                if byte < 0x80:
                    number += (byte << 7) - 0x80
                    position += 2
                else:
                    number, position = read_unsigned_varint(data, position)
            size = number
            body = position

            number = data[position + 1]
            if number < 0x80:
                position += 2
            else:
                byte = data[position + 2]
                if byte < 0x80:
                    number += (byte << 7) - 0x80
                    position += 3
                else:
                    number, position = read_unsigned_varlong(data, position + 1)
                    has_wide_timestamp = True
            timestamps.append(base_timestamp + ((number >> 1) ^ -(number & 1)))

            number = data[position]
            if number < 0x80:
                position += 1
            else:
                byte = data[position + 1]
                if byte < 0x80:
                    number += (byte << 7) - 0x80
                    position += 2
                else:
                    number, position = read_unsigned_varint(data, position)
            offsets.append(base_offset + ((number >> 1) ^ -(number & 1)))

            bodies.append(position)
            number = data[position]
            if number < 0x80:
                position += 1
            else:
                number, position = read_unsigned_varint(data, position)
            key: bytes | None = None
            if not number & 1:
                start = position
                position += number >> 1
                key = data[start:position]
            keys.append(key)

            number = data[position]
            if number < 0x80:
                position += 1
            else:
                byte = data[position + 1]
                if byte < 0x80:
                    number += (byte << 7) - 0x80
                    position += 2
                else:
                    number, position = read_unsigned_varint(data, position)
            if number & 1:
                has_values.append(False)
            else:
                has_values.append(True)
                position += number >> 1

            if data[position]:
                position = _skip_headers(data, position)
            else:
                position += 1
            if (position - body) << 1 != size:
                raise _wrong_size(position - body, size)
    except IndexError:
        raise _cut_short() from None
    if position != len(data):
        raise _left_over(position, len(data))
    if append_time is not None:
        scan.timestamps = [append_time] * len(timestamps)
    elif has_wide_timestamp:
        scan.timestamps = [to_int64(timestamp) for timestamp in timestamps]
    return scan


def check_rows(data: Buffer, count: int, base_timestamp: int, *, ignores_sizes: bool) -> tuple[int, int, bool, bool]:
    """Read over all records of the section `data`, with the checks of `decode_rows`, and say what they are like.

    The smallest timestamp of those that have one (larger than any where none has), the largest (-1 where none has one),
    whether the offsets are 0, 1, 2, ... from the base offset on, and whether there is a record without a key.
    `ignores_sizes` believes the fields of a record rather than its size, as Kafka does where it skips over the records
    of a compressed batch.

    The section is read through windows, each a copy of `WINDOW_BYTES`: compiled code is fast with `bytes` only, and a
    copy of a whole section would be memory that is new each time.
    """
    _has_records(count)
    check = _Check(count, base_timestamp, ignores_sizes)
    if len(data) <= WINDOW_BYTES:
        check.read(bytes(data), True)
        return check.min_timestamp, check.max_timestamp, check.is_consecutive, check.has_null_key
    section = memoryview(data)
    start = 0
    size = WINDOW_BYTES
    while True:
        is_last = start + size >= len(section)
        read = check.read(bytes(section[start : start + size]), is_last)
        if is_last:
            return check.min_timestamp, check.max_timestamp, check.is_consecutive, check.has_null_key
        start += read
        # A record that is larger than a window gets a larger one.
        size = WINDOW_BYTES if read else 2 * size


class _Check:
    """What `check_rows` has found so far."""

    __slots__ = (
        "base_timestamp",
        "count",
        "has_null_key",
        "ignores_sizes",
        "index",
        "is_consecutive",
        "is_wide",
        "max_timestamp",
        "min_timestamp",
    )

    def __init__(self, count: int, base_timestamp: int, ignores_sizes: bool) -> None:
        self.count: i64 = count
        self.base_timestamp: i64 = base_timestamp
        self.ignores_sizes = ignores_sizes
        self.index: i64 = 0
        self.min_timestamp: i64 = _INT64_MAX
        self.max_timestamp: i64 = _NO_TIMESTAMP
        self.is_wide = not -_WIDE < base_timestamp < _WIDE
        self.is_consecutive = True
        self.has_null_key = False

    def read(self, data: bytes, is_last: bool) -> int:
        """Read over the records that the window `data` begins with; returns where the first begins that it cuts off.

        The last window of a section cuts nothing off: `InvalidRecord` when it seems to, or when bytes are left over.
        Nothing else tells a record that is cut off from a bad one, so a bad one is refused in the last window, too.
        """
        position: i64 = 0
        number: i64
        byte: i64
        timestamp: i64
        start: i64 = 0
        base: i64 = self.base_timestamp
        delta: i64
        is_wide = self.is_wide
        ignores_sizes = self.ignores_sizes
        # A record that is read again, in the next window, changes these the same way again.
        min_timestamp: i64 = self.min_timestamp
        max_timestamp: i64 = self.max_timestamp
        is_consecutive = self.is_consecutive
        has_null_key = self.has_null_key
        index: i64 = self.index
        end: i64 = self.count
        try:
            while index < end:
                start = position
                number = data[position]
                if number < 0x80:
                    position += 1
                else:
                    byte = data[position + 1]
                    if byte < 0x80:
                        number += (byte << 7) - 0x80
                        position += 2
                    else:
                        number, position = _read_long(data, position)
                size: i64 = number
                body: i64 = position

                number = data[position + 1]
                if number < 0x80:
                    delta = (number >> 1) ^ -(number & 1)
                    position += 2
                else:
                    byte = data[position + 2]
                    if byte < 0x80:
                        number += (byte << 7) - 0x80
                        delta = (number >> 1) ^ -(number & 1)
                        position += 3
                    else:
                        delta, position = _read_delta(data, position + 1)
                        if not -_WIDE < delta < _WIDE:
                            is_wide = True
                timestamp = base + delta
                if is_wide:
                    timestamp = to_int64(timestamp)
                if timestamp > max_timestamp:
                    max_timestamp = timestamp
                if timestamp < min_timestamp and timestamp != _NO_TIMESTAMP:
                    min_timestamp = timestamp

                number = data[position]
                if number < 0x80:
                    position += 1
                else:
                    byte = data[position + 1]
                    if byte < 0x80:
                        number += (byte << 7) - 0x80
                        position += 2
                    else:
                        number, position = _read_long(data, position)
                if number != index << 1:
                    is_consecutive = False

                number = data[position]
                if number < 0x80:
                    position += 1
                else:
                    number, position = _read_long(data, position)
                if number & 1:
                    has_null_key = True
                else:
                    position += number >> 1

                number = data[position]
                if number < 0x80:
                    position += 1
                else:
                    byte = data[position + 1]
                    if byte < 0x80:
                        number += (byte << 7) - 0x80
                        position += 2
                    else:
                        number, position = _read_long(data, position)
                if not number & 1:
                    position += number >> 1

                if data[position]:
                    position = _skip_headers(data, position)
                else:
                    position += 1
                if (position - body) << 1 != size and not ignores_sizes:
                    raise _wrong_size(position - body, size)
                index += 1
            start = position
        except IndexError:
            if is_last:
                raise _cut_short() from None
        except InvalidRecord:
            if is_last:
                raise
        if is_last and position != len(data):
            raise _left_over(position, len(data))
        self.is_wide = is_wide
        self.min_timestamp = min_timestamp
        self.max_timestamp = max_timestamp
        self.is_consecutive = is_consecutive
        self.has_null_key = has_null_key
        self.index = index
        return start


def _read_long(data: bytes, position: i64) -> tuple[i64, i64]:
    """`read_unsigned_varint` once more, in machine words."""
    value: i64 = 0
    shift: i64 = 0
    while shift < 35:
        byte: i64 = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _INT32_MASK, position
        shift += 7
    raise InvalidRecord("Varint is too long, the most significant bit in the 5th byte is set")


def _read_delta(data: bytes, position: i64) -> tuple[i64, i64]:
    """A signed varlong, and the position after it."""
    start = position
    value: i64 = 0
    shift: i64 = 0
    while shift < 63:
        byte: i64 = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    # The tenth byte holds the 64th bit, which a machine word has no room for.
    number, end = read_unsigned_varlong(data, start)
    return zigzag(number), end


def _read_headers(data: bytes, position: int) -> tuple[tuple[Header, ...], int]:
    """The headers that begin with their count at `position`, and the position after them."""
    count, position = _header_count(data, position)
    headers: list[Header] = []
    for _ in range(count):
        number, position = read_unsigned_varint(data, position)
        if number & 1:
            raise InvalidRecord(f"Invalid negative header key size {zigzag(number)}")
        end = position + (number >> 1)
        name = data[position:end]
        number, position = read_unsigned_varint(data, end)
        value: bytes | None = None
        if not number & 1:
            end = position + (number >> 1)
            value = data[position:end]
            position = end
        # Kafka's clients show a replacement character for what is not UTF-8, too.
        headers.append((name.decode("utf-8", "replace"), value))
    return tuple(headers), position


def _skip_headers(data: bytes, position: int) -> int:
    """The position after the headers that begin with their count at `position`."""
    count, position = _header_count(data, position)
    for _ in range(count):
        number, position = read_unsigned_varint(data, position)
        if number & 1:
            raise InvalidRecord(f"Invalid negative header key size {zigzag(number)}")
        number, position = read_unsigned_varint(data, position + (number >> 1))
        if not number & 1:
            position += number >> 1
    return position


def _header_count(data: bytes, position: int) -> tuple[int, int]:
    number, position = read_unsigned_varint(data, position)
    count = zigzag(number)
    if count < 0:
        raise InvalidRecord(f"Found invalid number of record headers {count}")
    if count > len(data) - position:
        raise InvalidRecord(f"Found invalid number of record headers. {count} is larger than the remaining size")
    return count, position


def _has_records(count: int) -> bool:
    if count < 0:
        raise InvalidRecord(f"Found invalid record count {count} in magic v2 batch")
    return count > 0


def _wrong_size(read: int, size: int) -> InvalidRecord:
    expected = zigzag(size)
    return InvalidRecord(f"Invalid record size: expected to read {expected} bytes in record payload, but read {read}")


def _cut_short() -> InvalidRecord:
    return InvalidRecord("Incorrect declared batch size, premature EOF reached")


def _left_over(position: int, size: int) -> InvalidRecord:
    if position > size:
        return _cut_short()
    return InvalidRecord(f"Incorrect declared batch size, {size - position} bytes remain after the last record")

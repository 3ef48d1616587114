"""A record batch (format v2) at header depth: what the broker reads of a batch, and the two stamps it puts on one.

`batches` walks a buffer that may end inside a batch, as a fetched one does, and yields a `Batch` for each whole one:
the thirteen header fields, and where the batch lies. Nothing is copied and no record is looked at.
`restamp` and `set_max_timestamp` change a batch in place, before the leader writes it to its log.
Called by the log, the fetchers and the clients; the layout is Kafka's (docs: KIP-98, KIP-534 for the delete horizon).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum

from ottla.errors import CorruptMessage, InvalidRecord
from ottla.records.codec import CODEC_MASK, Codec
from ottla.records.compression import DECOMPRESSED_BYTES_MAX, decompress, with_decompressed
from ottla.records.crc import crc32c
from ottla.records.decode import Scan, check_rows, decode_rows, scan_rows
from ottla.records.record import Record, Row, named
from ottla.types import Buffer

HEADER = struct.Struct(">qiibIhiqqqhii")
"""base_offset, batch_length, partition_leader_epoch, magic, crc, attributes, last_offset_delta, base_timestamp,
max_timestamp, producer_id, producer_epoch, base_sequence, record_count"""

HEADER_SIZE = 61
"""The header with the count of records: where the records, or their compressed stream, begin."""
LOG_OVERHEAD = 12
"""Base offset and length: what `batch_length` does not count."""
MAGIC = 2

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_PARTITION_LEADER_EPOCH = -1

TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
# What Kafka keeps of the attributes when it writes them anew: the other bits have no meaning yet.
KNOWN_ATTRIBUTES = CODEC_MASK | TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT

LENGTH_POSITION = 8
LEADER_EPOCH_POSITION = 12
MAGIC_POSITION = 16
CRC_POSITION = 17
CRC_START = 21
"""The first byte under the checksum: the attributes. Offset, length, epoch and magic lie outside it."""
MAX_TIMESTAMP_POSITION = 35
BATCH_SIZE_MIN_LEGACY = 14
"""The smallest `batch_length` any format had. Kafka refuses less than this before it looks at the magic."""

INT32_MAX = 0x7FFFFFFF

_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_INT16 = struct.Struct(">h")

_unpack_header = HEADER.unpack_from


class TimestampType(IntEnum):
    """Who set a batch's timestamps: its producer, or the broker that appended it."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def label(self) -> str:
        """The type as `message.timestamp.type` and the tools spell it."""
        return "CreateTime" if self is TimestampType.CREATE_TIME else "LogAppendTime"


class Batch:
    """One whole batch inside a buffer: its header, decoded, and its place.

    The fields are what the header says, unchecked: `ensure_valid` compares the checksum, `records` and `scan` read on.
    A batch is a view: it shows the header as it was when the batch was made, and the records as the buffer has them.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "buffer",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size",
    )

    buffer: memoryview
    position: int
    size: int
    base_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def __init__(self, buffer: memoryview, position: int) -> None:
        """Decode the header at `position`; the caller has made sure that the whole batch is there."""
        self.buffer = buffer
        self.position = position
        (
            self.base_offset,
            length,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = _unpack_header(buffer, position)
        self.size = length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record the producer sent, whether or not compaction has left it."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> Codec:
        return Codec.of_id(self.attributes & CODEC_MASK)

    @property
    def is_compressed(self) -> bool:
        return self.attributes & CODEC_MASK != 0

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the tombstones and markers in here; kept where the base timestamp was (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def data(self) -> memoryview:
        """The bytes of the whole batch."""
        return self.buffer[self.position : self.position + self.size]

    def check_crc(self) -> bool:
        """Whether the bytes under the checksum still match it."""
        position = self.position
        return crc32c(self.buffer[position + CRC_START : position + self.size]) == self.crc

    def ensure_valid(self) -> None:
        """Raise `CorruptMessage` unless the checksum matches."""
        computed = crc32c(self.buffer[self.position + CRC_START : self.position + self.size])
        if computed != self.crc:
            raise CorruptMessage(f"Record is corrupt (stored crc = {self.crc}, computed crc = {computed})")

    def payload(self, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
        """The records section, decompressed. Raises as `decompress` does."""
        if self.attributes & CODEC_MASK == 0:
            return bytes(self._section)
        return decompress(self.codec, self._section, bytes_max=bytes_max)

    @property
    def _section(self) -> memoryview:
        """The records section as it is."""
        return self.buffer[self.position + HEADER_SIZE : self.position + self.size]

    def rows(self, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> list[Row]:
        """All records, as tuples of offset, timestamp, key, value and headers: the fastest way to have them.

        `InvalidRecord` when the records are not what the header says, and whatever `decompress` raises. The checksum
        is for `ensure_valid`.
        """
        if self.record_count == 0:
            return []
        return decode_rows(
            self.payload(bytes_max=bytes_max),
            self.record_count,
            self.base_offset,
            self.base_timestamp,
            self.max_timestamp if self.attributes & TIMESTAMP_TYPE_BIT else None,
        )

    def records(self, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
        """All records, with names for their fields. Raises as `rows` does."""
        return named(self.rows(bytes_max=bytes_max))

    def scan(self, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Scan:
        """The records' offsets, timestamps, keys and extents, as columns. Raises as `rows` does."""
        if self.record_count == 0:
            return Scan(b"")
        return scan_rows(
            self.payload(bytes_max=bytes_max),
            self.record_count,
            self.base_offset,
            self.base_timestamp,
            self.max_timestamp if self.attributes & TIMESTAMP_TYPE_BIT else None,
        )

    def check_records(
        self, *, bytes_max: int = DECOMPRESSED_BYTES_MAX, ignores_sizes: bool = False
    ) -> tuple[int, int, bool, bool]:
        """Read over the records and keep nothing. Raises as `rows` does.

        Returns the smallest and the largest timestamp that the producer gave (records without one do not count; where
        none has one, the smallest is larger than any and the largest -1), whether the offsets are consecutive from the
        base offset on, and whether there is a record without a key. `ignores_sizes` as in `decode.check_rows`.
        """
        if self.attributes & CODEC_MASK == 0:
            position = self.position
            section = self.buffer[position + HEADER_SIZE : position + self.size]
            return check_rows(section, self.record_count, self.base_timestamp, ignores_sizes=ignores_sizes)

        def check(section: memoryview) -> tuple[int, int, bool, bool]:
            return check_rows(section, self.record_count, self.base_timestamp, ignores_sizes=ignores_sizes)

        return with_decompressed(self.codec, self._section, check, bytes_max=bytes_max)

    def sequence_of(self, offset: int) -> int:
        """The sequence the producer gave the record at `offset`, if it gave any."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, offset - self.base_offset)

    def __repr__(self) -> str:
        return (
            f"Batch(offsets=[{self.base_offset}, {self.last_offset}], count={self.record_count}, "
            f"sequence=[{self.base_sequence}, {self.last_sequence}], leader_epoch={self.leader_epoch}, "
            f"producer={self.producer_id}/{self.producer_epoch}, attributes={self.attributes:#06x}, "
            f"position={self.position}, size={self.size})"
        )


def batches(buffer: Buffer, start: int = 0, end: int | None = None) -> Iterator[Batch]:
    """The whole batches of `buffer[start:end]`, in order; what is left of a batch that was cut off is passed over.

    `CorruptMessage` when a length is below any batch's or the magic is none there ever was; `InvalidRecord` at a whole
    batch of magic 0 or 1, which Kafka 4 answers so when a producer sends it.
    """
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    if end is None:
        end = len(view)
    position = start
    # Most batches are whole, of this format and larger than a header: one comparison each, then on to the next.
    while end - position >= HEADER_SIZE:
        batch = Batch(view, position)
        size = batch.size
        if size < HEADER_SIZE or batch.magic != MAGIC:
            _refuse(view, position, end)
            return
        position += size
        if position > end:
            return
        yield batch
    _refuse(view, position, end)


def batch_size(buffer: Buffer, position: int = 0) -> int | None:
    """The size of the batch that begins at `position`, when enough of it is there to tell.

    Raises as `batches` does for a length or a magic that cannot be.
    """
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    available = len(view) - position
    if available < LOG_OVERHEAD:
        return None
    length: int = _INT32.unpack_from(view, position + LENGTH_POSITION)[0]
    if length < BATCH_SIZE_MIN_LEGACY:
        raise CorruptMessage(f"Record size {length} is less than the minimum record overhead ({BATCH_SIZE_MIN_LEGACY})")
    if available <= MAGIC_POSITION:
        return None
    magic = view[position + MAGIC_POSITION]
    if magic > MAGIC:
        raise CorruptMessage(f"Invalid magic found in record: {magic - 256 if magic > 127 else magic}")
    return LOG_OVERHEAD + length


def _refuse(view: memoryview, position: int, end: int) -> None:
    """Say what is wrong with the batch at `position`, unless it is only cut off."""
    size = batch_size(view[:end], position)
    if size is None or size > end - position:
        return
    magic = view[position + MAGIC_POSITION]
    if magic != MAGIC:
        raise InvalidRecord(f"Record batch has magic {magic}: only batches of magic {MAGIC} are supported")
    raise CorruptMessage(
        f"Record batch is corrupt (the size {size} is smaller than the minimum allowed overhead {HEADER_SIZE})"
    )


def restamp(buffer: bytearray | memoryview, position: int, *, base_offset: int, leader_epoch: int) -> None:
    """Give the batch at `position` its place in the log. Both fields lie outside the checksum, which stays as it is."""
    _INT64.pack_into(buffer, position, base_offset)
    _INT32.pack_into(buffer, position + LEADER_EPOCH_POSITION, leader_epoch)


def set_max_timestamp(
    buffer: bytearray | memoryview, position: int, size: int, *, timestamp_type: TimestampType, max_timestamp: int
) -> None:
    """Set a batch's timestamp type and largest timestamp and renew its checksum, if either differs.

    The leader does it for every batch: with its own clock for LogAppendTime, and otherwise with the largest timestamp
    it found, so that a producer's wrong header cannot mislead look-ups by time.
    """
    attributes: int = _INT16.unpack_from(buffer, position + CRC_START)[0]
    wanted = attributes & KNOWN_ATTRIBUTES & ~TIMESTAMP_TYPE_BIT
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        wanted |= TIMESTAMP_TYPE_BIT
    same_type = (attributes ^ wanted) & TIMESTAMP_TYPE_BIT == 0
    if same_type and _INT64.unpack_from(buffer, position + MAX_TIMESTAMP_POSITION)[0] == max_timestamp:
        return
    _INT16.pack_into(buffer, position + CRC_START, wanted)
    _INT64.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, max_timestamp)
    checksum = crc32c(memoryview(buffer)[position + CRC_START : position + size])
    _UINT32.pack_into(buffer, position + CRC_POSITION, checksum)


def stamp_append_time(buffer: bytearray | memoryview, position: int, size: int, now_ms: int) -> None:
    """Mark the batch as stamped by this broker at `now_ms`: every record's timestamp is then that (LogAppendTime)."""
    set_max_timestamp(buffer, position, size, timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=now_ms)


def increment_sequence(sequence: int, increment: int) -> int:
    """A producer's sequence `increment` records on; after 2^31 - 1 comes 0."""
    if sequence > INT32_MAX - increment:
        return increment - (INT32_MAX - sequence) - 1
    return sequence + increment


def is_sequence_before(sequence: int, other: int) -> bool:
    """Whether a producer counts `sequence` before `other`: 2^31 - 1 comes before 0.

    The two are of records that are near each other, so whatever is less than half of all numbers back is before.
    """
    return 0 < (other - sequence) & INT32_MAX < 1 << 30


def decrement_sequence(sequence: int, decrement: int) -> int:
    """A producer's sequence `decrement` records back; before 0 comes 2^31 - 1."""
    if sequence < decrement:
        return INT32_MAX - (decrement - sequence) + 1
    return sequence - decrement

"""A batch of the formats 0 and 1, which Kafka wrote before 0.11: one message, or a compressed set of them inside one.

Nothing in Ottla reads these but the dump, for whoever finds such a segment in an old directory; Kafka 4's tool shows
them too. On disk: offset, size, CRC-32, magic, attributes, in format 1 a timestamp, then key and value with lengths.
"""

from __future__ import annotations

import zlib
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from ottla.errors import CorruptMessage, InvalidRecord
from ottla.records import LOG_OVERHEAD, NO_TIMESTAMP, Codec, TimestampType, decompress

_OVERHEAD = Struct(">qi")
_HEADER = Struct(">Ibb")
_TIMESTAMP = Struct(">q")
_SIZE = Struct(">i")
_CRC_START = LOG_OVERHEAD + 4
_CODEC_MASK = 0x07
_APPEND_TIME_BIT = 0x08


class LegacyRecord(NamedTuple):
    """A message with its absolute offset; each has a checksum of its own."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    is_valid: bool
    crc: int


class LegacyBatch:
    """The message at the start of `data`, which ends where it ends. A compressed one is known by its last offset."""

    __slots__ = ("_body", "attributes", "crc", "data", "last_offset", "magic", "max_timestamp", "size")

    last_offset: int
    size: int
    crc: int
    magic: int
    attributes: int
    max_timestamp: int

    def __init__(self, data: memoryview) -> None:
        """`CorruptMessage` when `data` is too short for the fields before the key."""
        try:
            self.last_offset, length = _OVERHEAD.unpack_from(data)
            self.crc, self.magic, self.attributes = _HEADER.unpack_from(data, LOG_OVERHEAD)
            self._body = LOG_OVERHEAD + _HEADER.size
            self.max_timestamp = NO_TIMESTAMP
            if self.magic:
                self.max_timestamp = _TIMESTAMP.unpack_from(data, self._body)[0]
                self._body += _TIMESTAMP.size
        except StructError:
            raise CorruptMessage(f"a batch of {len(data)} bytes is too short for its format") from None
        self.data = data
        self.size = length + LOG_OVERHEAD

    @property
    def timestamp_label(self) -> str:
        """Who set the timestamp, as tools spell it. Format 0 has none."""
        if not self.magic:
            return "NoTimestampType"
        return TimestampType.LOG_APPEND_TIME.label if self._has_append_time else TimestampType.CREATE_TIME.label

    @property
    def _has_append_time(self) -> bool:
        return bool(self.magic and self.attributes & _APPEND_TIME_BIT)

    @property
    def codec(self) -> Codec:
        """`UnsupportedCompressionType` for a number that stands for none."""
        return Codec.of_id(self.attributes & _CODEC_MASK)

    def check_crc(self) -> bool:
        return zlib.crc32(self.data[_CRC_START:]) == self.crc

    def records(self) -> list[LegacyRecord]:
        """The message itself, or those inside it. `CorruptMessage` or `InvalidRecord` when that cannot be read."""
        if self.codec is Codec.NONE:
            return [self._record(self.last_offset, self.max_timestamp)]
        if self.codec is Codec.ZSTD:
            raise InvalidRecord(f"zstd is newer than format {self.magic}")
        value = self._key_and_value()[1]
        if value is None:
            raise InvalidRecord("a compressed set of messages has no value")
        inner = _messages(memoryview(decompress(self.codec, value)))
        if not inner:
            raise InvalidRecord("a compressed set of messages is empty")
        # Format 1 counts the offsets inside from 0; the offset outside is that of the last one. Some versions of
        # librdkafka left it at 0, and then so are the others.
        base = self.last_offset - inner[-1].last_offset if self.magic and self.last_offset else 0
        if base < 0:
            raise InvalidRecord(f"offset {self.last_offset} is below that of the last message inside")
        return [
            message._record(
                base + message.last_offset, self.max_timestamp if self._has_append_time else message.max_timestamp
            )
            for message in inner
        ]

    def _record(self, offset: int, timestamp: int) -> LegacyRecord:
        return LegacyRecord(offset, timestamp, *self._key_and_value(), self.check_crc(), self.crc)

    def _key_and_value(self) -> tuple[bytes | None, bytes | None]:
        key, position = self._sized(self._body)
        return key, self._sized(position)[0]

    def _sized(self, position: int) -> tuple[bytes | None, int]:
        """The bytes whose length is at `position`, or null, and the position after them."""
        start = position + _SIZE.size
        if start <= len(self.data):
            (size,) = _SIZE.unpack_from(self.data, position)
            if size < 0:
                return None, start
            if start + size <= len(self.data):
                return bytes(self.data[start : start + size]), start + size
        raise InvalidRecord("a message is too short for its key and value")


def _messages(data: memoryview) -> list[LegacyBatch]:
    """The messages of a decompressed set; one that is cut off at the end is passed over."""
    messages = []
    while len(data) >= LOG_OVERHEAD:
        size = LOG_OVERHEAD + _OVERHEAD.unpack_from(data)[1]
        if size <= LOG_OVERHEAD:
            raise CorruptMessage(f"a message inside a compressed set has {size} bytes")
        if size > len(data):
            break
        messages.append(LegacyBatch(data[:size]))
        data = data[size:]
    return messages

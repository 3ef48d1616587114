"""`BatchWriter`: the records of one decision as a batch, in the frames of a coordinator's topic.

Promises: the bytes are those that `RecordBatchBuilder` makes of the same records, offsets counted from 0. Without a
codec, as the topics have it unless told otherwise, they are written in one pass: an offset commit is one small record,
and a builder made for it would cost more than the record. Called by `runtime`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter

from ottla.coordinator.record import CoordinatorRecord, Producer
from ottla.records import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    TRANSACTIONAL_BIT,
    Codec,
    RecordBatchBuilder,
    append_record,
    crc32c,
)
from ottla.wire import Message, encode_into
from ottla.wire.coordinator import CoordinatorRecords

NO_PRODUCER = Producer()
_CRC = struct.Struct(">I")
_CRC_POSITION = CRC_START - _CRC.size
KEYS_MAX = 4096
KEY_SIZE_MAX = 256
_VERSIONS = [struct.pack(">h", version) for version in range(32)]
"""What stands before a value."""


class BatchWriter:
    """See the module. Kafka's group and share coordinators write sequence 0, with a producer or without; the
    transactions' none: `base_sequence`."""

    __slots__ = ("_base_sequence", "_framing", "_is_compressed", "_keys", "codec")

    def __init__(self, framing: CoordinatorRecords, codec: Codec, base_sequence: int) -> None:
        self.codec = codec
        self._is_compressed = codec is not Codec.NONE
        self._framing = framing
        self._base_sequence = base_sequence
        self._keys: dict[type[Message], _Keys] = {}

    def write(self, records: Sequence[CoordinatorRecord], now_ms: int, producer: Producer | None) -> bytearray:
        """One batch, to be stamped by the log."""
        producer_id, producer_epoch = NO_PRODUCER if producer is None else producer
        if self._is_compressed:
            return self._compressed(records, now_ms, producer_id, producer_epoch)
        assert producer is None or (producer_id >= 0 and producer_epoch >= 0), f"{producer} is no producer"
        out = bytearray(HEADER_SIZE)
        keys = self._keys
        index = -1
        for key, value, version in records:
            index += 1
            of_class = keys.get(type(key)) or self._learn(key)
            framed_key = of_class.known.get(of_class.content(key)) or of_class.frame(key)
            framed_value = None
            if value is not None:
                framed_value = bytearray(_VERSIONS[version])
                encode_into(value, version, framed_value)
            append_record(out, index, 0, framed_key, framed_value, ())
        HEADER.pack_into(
            out, 0, 0, len(out) - LOG_OVERHEAD, NO_PARTITION_LEADER_EPOCH, MAGIC, 0,
            0 if producer is None else TRANSACTIONAL_BIT, index, now_ms, now_ms, producer_id, producer_epoch,
            self._base_sequence, index + 1,
        )  # fmt: skip
        _CRC.pack_into(out, _CRC_POSITION, crc32c(memoryview(out)[CRC_START:]))
        return out

    def _learn(self, key: Message) -> _Keys:
        made = self._keys[type(key)] = _Keys(self._framing, type(key))
        return made

    def _compressed(
        self, records: Sequence[CoordinatorRecord], now_ms: int, producer_id: int, producer_epoch: int
    ) -> bytearray:
        framing = self._framing
        builder = RecordBatchBuilder(
            codec=self.codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=self._base_sequence,
            is_transactional=producer_id >= 0,
        )
        for key, value, version in records:
            builder.append(
                now_ms, framing.write_key(key), None if value is None else framing.write_value(value, version)
            )
        return bytearray(builder.build())


class _Keys:
    """The keys of one class that were written before, framed: a consumer commits the same partitions over and over."""

    __slots__ = ("_framing", "content", "known")

    def __init__(self, framing: CoordinatorRecords, cls: type[Message]) -> None:
        self._framing = framing
        self.content: Callable[[Message], Hashable] = attrgetter(*(field.name for field in cls.schema.fields))
        """All that a key says: keys have one version, which has neither structs nor tags."""
        self.known: dict[Hashable, bytes] = {}

    def frame(self, key: Message) -> bytes:
        framed = self._framing.write_key(key)
        if len(framed) <= KEY_SIZE_MAX:
            if len(self.known) == KEYS_MAX:
                self.known.clear()
            self.known[self.content(key)] = framed
        return framed

"""`BatchWriter`: the records of one decision as a batch, in the frames of a coordinator's topic.

Promises: the bytes are those that `RecordBatchBuilder` makes of the same records, offsets counted from 0. Without a
codec, as the topics have it unless told otherwise, they are written in one pass: an offset commit is one small record,
and a builder made for it would cost more than the record. Called by `runtime`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

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
_VERSIONS = [struct.pack(">h", version) for version in range(32)]
"""What stands before a value."""


class BatchWriter:
    """See the module. Kafka's group and share coordinators write sequence 0, with a producer or without; the
    transactions' none: `base_sequence`."""

    __slots__ = ("_base_sequence", "_framing", "_key_heads", "codec")

    def __init__(self, framing: CoordinatorRecords, codec: Codec, base_sequence: int) -> None:
        self.codec = codec
        self._framing = framing
        self._base_sequence = base_sequence
        self._key_heads: dict[type[Message], bytes] = {}
        """What stands before a key, of those that were written before."""

    def write(self, records: Sequence[CoordinatorRecord], now_ms: int, producer: Producer | None) -> bytearray:
        """One batch, to be stamped by the log."""
        producer_id, producer_epoch = NO_PRODUCER if producer is None else producer
        if self.codec is not Codec.NONE:
            return self._compressed(records, now_ms, producer_id, producer_epoch)
        assert producer is None or (producer_id >= 0 and producer_epoch >= 0), f"{producer} is no producer"
        out = bytearray(HEADER_SIZE)
        heads = self._key_heads
        index = -1
        for index, (key, value, version) in enumerate(records):
            framed_key = bytearray(heads.get(type(key)) or self._head(key))
            encode_into(key, 0, framed_key)
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

    def _head(self, key: Message) -> bytes:
        head = self._key_heads[type(key)] = self._framing.write_key(key)[:2]
        return head

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

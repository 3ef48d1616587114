"""The bytes of a record and of a batch around its records: what every writer of batches ends in.

`encode_record` and `assemble_batch` write what Kafka's own builder writes for the same fields, byte for byte; only a
compressed payload may differ, because another library made it. Called by `builder` and `rewrite`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ottla.records.batch import (
    CONTROL_BIT,
    CRC_START,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    TimestampType,
)
from ottla.records.codec import Codec
from ottla.records.crc import crc32c
from ottla.records.record import Header
from ottla.records.varint import encode_varint
from ottla.types import Buffer

# The header in two parts: what the checksum does not cover, with the checksum, and what it does.
_FRONT = struct.Struct(">qiibI")
_COVERED = struct.Struct(">hiqqqhii")

_NULL = encode_varint(-1)
_NO_HEADERS = encode_varint(0)
_ATTRIBUTES = b"\0"  # of a record: no bit of it has a meaning yet


def encode_record(
    offset_delta: int, timestamp_delta: int, key: Buffer | None, value: Buffer | None, headers: Sequence[Header]
) -> bytes:
    """One record, with its length in front."""
    body = b"".join(
        (
            _ATTRIBUTES,
            encode_varint(timestamp_delta),
            encode_varint(offset_delta),
            _NULL if key is None else encode_varint(len(key)),
            key or b"",
            _NULL if value is None else encode_varint(len(value)),
            value or b"",
            encode_headers(headers) if headers else _NO_HEADERS,
        )
    )
    return encode_varint(len(body)) + body


def encode_headers(headers: Sequence[Header]) -> bytes:
    """A record's headers, with their count in front."""
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        encoded = name.encode("utf-8")
        parts += (encode_varint(len(encoded)), encoded)
        if value is None:
            parts.append(_NULL)
        else:
            parts += (encode_varint(len(value)), value)
    return b"".join(parts)


def encode_attributes(
    codec: Codec,
    timestamp_type: TimestampType,
    *,
    is_transactional: bool,
    is_control: bool,
    has_delete_horizon: bool,
) -> int:
    """A batch's attributes from what they say."""
    return (
        codec
        | (TIMESTAMP_TYPE_BIT if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_BIT if is_transactional else 0)
        | (CONTROL_BIT if is_control else 0)
        | (DELETE_HORIZON_BIT if has_delete_horizon else 0)
    )


def assemble_batch(
    payload: Buffer,
    *,
    base_offset: int,
    last_offset_delta: int,
    leader_epoch: int,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
) -> bytes:
    """A whole batch: its header, with the checksum computed, and the payload, which is compressed already if at all."""
    covered = _COVERED.pack(
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    checksum = crc32c(payload, crc32c(covered))
    length = HEADER_SIZE - LOG_OVERHEAD + len(payload)
    return b"".join((_FRONT.pack(base_offset, length, leader_epoch, MAGIC, checksum), covered, payload))


def complete_batch(
    batch: bytearray | memoryview,
    *,
    base_offset: int,
    last_offset_delta: int,
    leader_epoch: int,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
) -> None:
    """Write the header, with the checksum, into the room in front of the payload: `assemble_batch` without a copy."""
    _COVERED.pack_into(
        batch,
        CRC_START,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    checksum = crc32c(memoryview(batch)[CRC_START:])
    _FRONT.pack_into(batch, 0, base_offset, len(batch) - LOG_OVERHEAD, leader_epoch, MAGIC, checksum)

"""Batches made from batches: with fewer records, with none, or in another codec.

The cleaner filters, the leader recompresses. Records are moved as the bytes they are: only what depends on the batch
around them, the two deltas and the length, is written anew. The headers come out as Kafka's `MemoryRecords.filterTo`
and `LogValidator` write them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.records.batch import (
    DELETE_HORIZON_BIT,
    KNOWN_ATTRIBUTES,
    NO_TIMESTAMP,
    Batch,
    TimestampType,
)
from ottla.records.codec import CODEC_MASK, Codec
from ottla.records.compression import compress
from ottla.records.decode import Scan
from ottla.records.encode import assemble_batch, encode_attributes
from ottla.records.varint import encode_varint, to_int64


def filter_batch(batch: Batch, scan: Scan, retained: Sequence[int], *, delete_horizon_ms: int | None = None) -> bytes:
    """The batch with only the records at the indexes `retained` of its `scan`: at least one, in order.

    `delete_horizon_ms` is for a batch that gets its horizon now; one that has a horizon keeps it. A batch that keeps
    all of its records and gets no horizon stays as it is, byte for byte. Otherwise offsets, sequence, producer and
    epoch stay, so that the producer's state can still be read from what is left; the base timestamp becomes the
    horizon or the first record's timestamp, and the largest timestamp that of the records that stay.
    """
    assert retained, "a batch that keeps no record is written by `empty_batch`, or not at all"
    sets_horizon = delete_horizon_ms is not None and batch.delete_horizon_ms is None
    if len(retained) == len(scan) and not sets_horizon:
        return bytes(batch.data)
    horizon = delete_horizon_ms if sets_horizon else batch.delete_horizon_ms
    if horizon is not None and horizon < 0:
        horizon = None  # a time that cannot be is no horizon: Kafka drops the mark
    timestamps = [scan.timestamps[index] for index in retained]
    base_timestamp = timestamps[0] if horizon is None else horizon
    offsets = [scan.offsets[index] for index in retained]
    payload = _move_records(
        scan, retained, offsets, timestamps, base_offset=batch.base_offset, base_timestamp=base_timestamp
    )
    codec = batch.codec
    if codec is not Codec.NONE:
        payload = compress(codec, payload)
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return assemble_batch(
        payload,
        base_offset=batch.base_offset,
        last_offset_delta=batch.last_offset_delta,
        leader_epoch=batch.leader_epoch,
        attributes=batch.attributes & KNOWN_ATTRIBUTES & ~DELETE_HORIZON_BIT
        | (0 if horizon is None else DELETE_HORIZON_BIT),
        base_timestamp=base_timestamp,
        max_timestamp=batch.max_timestamp if is_append_time else max(NO_TIMESTAMP, *timestamps),
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=len(retained),
    )


def empty_batch(batch: Batch) -> bytes:
    """The batch's header alone: what compaction leaves of a producer's last batch, for the sake of its sequence."""
    return assemble_batch(
        b"",
        base_offset=batch.base_offset,
        last_offset_delta=batch.last_offset_delta,
        leader_epoch=batch.leader_epoch,
        attributes=batch.attributes & KNOWN_ATTRIBUTES & ~(CODEC_MASK | DELETE_HORIZON_BIT),
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=0,
    )


def recompress(
    batch: Batch,
    scan: Scan,
    codec: Codec,
    level: int | None = None,
    *,
    base_offset: int,
    leader_epoch: int,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    append_time_ms: int = NO_TIMESTAMP,
) -> bytes:
    """All records of the batch in `codec`, at the offsets from `base_offset` on: what the leader appends in its place.

    With LogAppendTime the batch carries `append_time_ms`; the records keep the deltas between their own timestamps.
    """
    assert len(scan), "a batch without records has nothing to compress"
    timestamps = scan.timestamps
    count = len(scan)
    new_offsets = range(base_offset, base_offset + count)
    is_append_time = timestamp_type is TimestampType.LOG_APPEND_TIME
    is_consecutive = scan.offsets == list(range(batch.base_offset, batch.base_offset + count))
    if is_consecutive and timestamps[0] == batch.base_timestamp and batch.timestamp_type is TimestampType.CREATE_TIME:
        payload = scan.data  # no delta changes, so no record does
    else:
        payload = _move_records(
            scan, range(count), new_offsets, timestamps, base_offset=base_offset, base_timestamp=timestamps[0]
        )
    return assemble_batch(
        compress(codec, payload, level),
        base_offset=base_offset,
        last_offset_delta=count - 1,
        leader_epoch=leader_epoch,
        attributes=encode_attributes(
            codec,
            timestamp_type,
            is_transactional=batch.is_transactional,
            is_control=batch.is_control,
            has_delete_horizon=False,
        ),
        base_timestamp=timestamps[0],
        max_timestamp=append_time_ms if is_append_time else max(NO_TIMESTAMP, *timestamps),
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=count,
    )


def _move_records(
    scan: Scan,
    indexes: Sequence[int],
    offsets: Sequence[int],
    timestamps: Sequence[int],
    *,
    base_offset: int,
    base_timestamp: int,
) -> bytes:
    """The records at `indexes`, with their deltas for another base."""
    data = scan.data
    bodies = scan.bodies
    ends = [*scan.starts[1:], len(data)]
    parts: list[bytes] = []
    for index, offset, timestamp in zip(indexes, offsets, timestamps, strict=True):
        body = data[bodies[index] : ends[index]]
        deltas = encode_varint(to_int64(timestamp - base_timestamp)) + encode_varint(offset - base_offset)
        parts += (encode_varint(1 + len(deltas) + len(body)), b"\0", deltas, body)
    return b"".join(parts)

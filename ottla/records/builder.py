"""Batches written record by record: what a producer, a coordinator or the raft log appends.

For an uncompressed batch the bytes are those that Kafka's `MemoryRecordsBuilder` makes of the same input. What Kafka's
builder refuses is refused here, with `ValueError`: it is the caller's mistake, not bad data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.records.batch import (
    HEADER_SIZE,
    INT32_MAX,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TimestampType,
)
from ottla.records.codec import Codec
from ottla.records.compression import compress
from ottla.records.encode import assemble_batch, encode_attributes, encode_record
from ottla.records.record import Header, Record, Row
from ottla.records.varint import to_int64
from ottla.types import Buffer

# Kafka's allowance for a batch that compresses worse than the ones before it.
_COMPRESSION_ESTIMATE_FACTOR = 1.05


class RecordBatchBuilder:
    """One batch in the making. `append` until there is no room, then `build`.

    `bytes_max` bounds the batch as a producer's `batch.size` does: the first record always fits. For a codec the size
    is an estimate, from `compression_ratio`, which the caller may know better than the 1.0 it starts with.
    """

    __slots__ = (
        "_append_time_ms",
        "_base_offset",
        "_base_timestamp",
        "_bytes_max",
        "_codec",
        "_delete_horizon_ms",
        "_is_control",
        "_last_offset",
        "_leader_epoch",
        "_level",
        "_max_timestamp",
        "_parts",
        "_records_size",
        "_timestamp_type",
        "base_sequence",
        "compression_ratio",
        "is_transactional",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        *,
        base_offset: int = 0,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        append_time_ms: int = NO_TIMESTAMP,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        is_control: bool = False,
        leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
        delete_horizon_ms: int | None = None,
        bytes_max: int | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.is_transactional = is_transactional
        self.compression_ratio = 1.0
        self._base_offset = base_offset
        self._codec = codec
        self._level = level
        self._timestamp_type = timestamp_type
        self._append_time_ms = append_time_ms
        self._is_control = is_control
        self._leader_epoch = leader_epoch
        self._delete_horizon_ms = delete_horizon_ms
        self._bytes_max = bytes_max
        # With a delete horizon the base timestamp is the horizon (KIP-534); otherwise the first record's timestamp.
        self._base_timestamp = delete_horizon_ms
        self._max_timestamp = NO_TIMESTAMP
        self._last_offset: int | None = None
        self._parts: list[bytes] = []
        self._records_size = 0

    @property
    def record_count(self) -> int:
        return len(self._parts)

    @property
    def next_offset(self) -> int:
        return self._base_offset if self._last_offset is None else self._last_offset + 1

    @property
    def estimated_size(self) -> int:
        """What `build` would return now, in bytes: exact without a codec, otherwise by the compression ratio."""
        if self._codec is Codec.NONE:
            return HEADER_SIZE + self._records_size
        return HEADER_SIZE + int(self._records_size * self.compression_ratio * _COMPRESSION_ESTIMATE_FACTOR)

    def append(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[Header] = (),
        *,
        offset: int | None = None,
    ) -> bool:
        """Add a record at the next offset, or at a later one. `False`, and nothing added, when there is no room."""
        last_offset = self._last_offset
        if offset is None:
            offset = self._base_offset if last_offset is None else last_offset + 1
        elif last_offset is not None and offset <= last_offset:
            raise ValueError(f"offset {offset} does not follow {last_offset}: offsets only increase")
        if timestamp < 0 and timestamp != NO_TIMESTAMP:
            raise ValueError(f"timestamp {timestamp} is negative")
        offset_delta = offset - self._base_offset
        if not 0 <= offset_delta <= INT32_MAX:
            raise ValueError(f"offset {offset} does not fit into a batch that begins at {self._base_offset}")
        base_timestamp = timestamp if self._base_timestamp is None else self._base_timestamp
        record = encode_record(offset_delta, to_int64(timestamp - base_timestamp), key, value, headers)
        if self._bytes_max is not None and self._parts and self.estimated_size + len(record) > self._bytes_max:
            return False
        self._base_timestamp = base_timestamp
        self._parts.append(record)
        self._records_size += len(record)
        self._last_offset = offset
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        return True

    def build(self, *, last_offset: int | None = None) -> bytes:
        """The batch, or nothing at all when no record was added. `last_offset` may claim offsets after the last one."""
        self._check_producer()
        if self._last_offset is None:
            return b""
        if last_offset is None:
            last_offset = self._last_offset
        elif not self._last_offset <= last_offset <= self._base_offset + INT32_MAX:
            raise ValueError(f"{last_offset} cannot be the last offset of a batch that ends at {self._last_offset}")
        assert self._base_timestamp is not None, "the first record set the base timestamp"
        payload = b"".join(self._parts)
        if self._codec is not Codec.NONE:
            payload = compress(self._codec, payload, self._level)
        is_append_time = self._timestamp_type is TimestampType.LOG_APPEND_TIME
        return assemble_batch(
            payload,
            base_offset=self._base_offset,
            last_offset_delta=last_offset - self._base_offset,
            leader_epoch=self._leader_epoch,
            attributes=encode_attributes(
                self._codec,
                self._timestamp_type,
                is_transactional=self.is_transactional,
                is_control=self._is_control,
                has_delete_horizon=self._delete_horizon_ms is not None,
            ),
            base_timestamp=self._base_timestamp,
            max_timestamp=self._append_time_ms if is_append_time else self._max_timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            record_count=len(self._parts),
        )

    def _check_producer(self) -> None:
        if self.producer_id == NO_PRODUCER_ID:
            if self.is_transactional:
                raise ValueError("a transactional batch needs a producer id")
            return
        if self.producer_epoch == NO_PRODUCER_EPOCH:
            raise ValueError("a batch with a producer id needs a producer epoch")
        if self.base_sequence < 0 and not self._is_control:
            raise ValueError(f"a batch with a producer id needs a sequence, and {self.base_sequence} is negative")


def build_batch(
    records: Iterable[Record | Row],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    append_time_ms: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """A batch of records that have their offsets, which increase and may have gaps; `b""` for no records.

    The batch spans the offsets from `base_offset` to `last_offset`, by default those of the first and the last record.
    `append_time_ms` is the time that a LogAppendTime batch carries for all of its records.
    """
    rows = list(records)
    if not rows:
        return b""
    builder = RecordBatchBuilder(
        base_offset=rows[0][0] if base_offset is None else base_offset,
        codec=codec,
        level=level,
        timestamp_type=timestamp_type,
        append_time_ms=append_time_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        is_control=is_control,
        leader_epoch=leader_epoch,
        delete_horizon_ms=delete_horizon_ms,
    )
    for offset, timestamp, key, value, headers in rows:
        builder.append(timestamp, key, value, headers, offset=offset)
    return builder.build(last_offset=last_offset)

"""A record as a consumer hands it out, and the loop that makes a list of them.

The twins in plain Python of `decode_records` and `with_content` in csrc. Called by the consumers.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.records.batch import TimestampType
from ottla.records.decode import decode_rows
from ottla.records.record import Header
from ottla.records.varint import to_int64
from ottla.types import Buffer, TopicPartition

K = TypeVar("K")
V = TypeVar("V")

# Below it, no delta leads out of a long.
_SAFE_BASE_OFFSET = 2**63 - 2**32

TIMESTAMP_TYPES = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """A record that was consumed: where it lay, when it was written, and what it says.

    `key` and `value` are bytes or None, or what the deserializers made of them; the sizes are those of the bytes, and
    -1 for null. Headers keep their order and may repeat. `leader_epoch` is the epoch of the leader that appended the
    record, where the broker told it; `delivery_count` is for share groups only. A record cannot be changed; it can be
    compared, hashed where its content can, pickled, and matched: `case ConsumerRecord(topic="orders", value=value)`.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: K
    value: V
    headers: tuple[Header, ...] = ()
    leader_epoch: int | None = None
    serialized_key_size: int = -1
    serialized_value_size: int = -1
    delivery_count: int | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def header(self, name: str) -> bytes | None:
        """The value of the last header of that name; None where there is none, or where it is null."""
        for key, value in reversed(self.headers):
            if key == name:
                return value
        return None


RawRecord = ConsumerRecord[bytes | None, bytes | None]


def decode_records(
    section: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    topic: str,
    partition: int,
    leader_epoch: int | None,
    start_offset: int,
    delivery_count: int | None = None,
    /,
) -> list[ConsumerRecord[bytes | None, bytes | None]]:
    """The records of a section, decompressed and with its checksum compared, whose offset is `start_offset` or later.

    With an `append_time`, that is the timestamp of every one, and its type LogAppendTime. `InvalidRecord`, and no
    record at all, when the section is not what the batch's header says. All arguments go by position:

        decode_records(batch.payload(), batch.record_count, batch.base_offset, batch.base_timestamp,
                       batch.max_timestamp if is_append_time else None, topic, partition, epoch, position)
    """
    timestamp_type = TIMESTAMP_TYPES[append_time is not None]
    rows = decode_rows(bytes(section), count, base_offset, base_timestamp, append_time)
    if not -_SAFE_BASE_OFFSET < base_offset < _SAFE_BASE_OFFSET:
        rows = [(to_int64(row[0]), *row[1:]) for row in rows]
    return [
        _record(
            (
                topic,
                partition,
                offset,
                timestamp,
                timestamp_type,
                key,
                value,
                headers,
                leader_epoch,
                -1 if key is None else len(key),
                -1 if value is None else len(value),
                delivery_count,
            )
        )
        for offset, timestamp, key, value, headers in rows
        if offset >= start_offset
    ]


def with_content(record: ConsumerRecord[Any, Any], key: K, value: V, /) -> ConsumerRecord[K, V]:
    """The record with another key and value: what deserializers made of its bytes. The sizes stay."""
    content: ConsumerRecord[K, V] = _record((*record[:5], key, value, *record[7:]))
    return content


# What `ConsumerRecord._make` does, without a call into Python for each record.
_record: Any = partial(tuple.__new__, ConsumerRecord)

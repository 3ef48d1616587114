"""Batches of the metadata log, to bytes and back: metadata records, and the control records of raft itself.

Promises: the bytes are those of Kafka's raft: one timestamp for all records of a batch, null keys, no producer, no
compression. What was read equals what was written, versions of records included.
Called by `driver`, `metadata_log` and `snapshot`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ottla.errors import CorruptMessage, RecordListTooLarge
from ottla.records import Batch, ControlType, RecordBatchBuilder
from ottla.wire import Message, decode, encode
from ottla.wire.data.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from ottla.wire.metadata import VersionedRecord, read_record, write_record

BATCH_BYTES_MAX = 8 * 1024 * 1024
"""The largest batch of the metadata log, as in Kafka."""

MetadataRecord: TypeAlias = Message | VersionedRecord
"""A record to write. A plain message is written in its newest version, which the newest metadata.version reads."""

_CONTROL_MESSAGES: dict[ControlType, type[Message]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}
_CONTROL_TYPES = {message: kind for kind, message in _CONTROL_MESSAGES.items()}
_CONTROL_VERSION = 0


def versioned(record: MetadataRecord) -> VersionedRecord:
    """The record with the version it is written in."""
    if isinstance(record, VersionedRecord):
        return record
    return VersionedRecord(record, record.schema.versions.last)


def encode_batch(records: Sequence[VersionedRecord], *, base_offset: int, epoch: int, timestamp: int) -> bytes:
    """One batch of metadata records; `RecordListTooLarge` when they do not fit in one."""
    assert records, "a batch has records"
    builder = RecordBatchBuilder(base_offset=base_offset, leader_epoch=epoch)
    for record in records:
        builder.append(timestamp, None, write_record(*record))
    data = builder.build()
    if len(data) > BATCH_BYTES_MAX:
        raise RecordListTooLarge(
            f"The total record(s) size of {len(data)} exceeds the maximum allowed batch size of {BATCH_BYTES_MAX}"
        )
    return data


def encode_control_batch(messages: Sequence[Message], *, base_offset: int, epoch: int, timestamp: int) -> bytes:
    """One batch of control records."""
    assert messages, "a batch has records"
    builder = RecordBatchBuilder(base_offset=base_offset, leader_epoch=epoch, is_control=True)
    for message in messages:
        builder.append(timestamp, _CONTROL_TYPES[type(message)].key, encode(message, _CONTROL_VERSION))
    return builder.build()


def decode_records(batch: Batch) -> list[VersionedRecord]:
    """The metadata records of a batch; none for a control batch."""
    if batch.is_control:
        return []
    found = []
    for offset, _, _, value, _ in batch.rows():
        if value is None:
            raise CorruptMessage(f"The metadata record at offset {offset} has no value")
        found.append(read_record(value))
    return found


def decode_control(batch: Batch) -> list[tuple[int, Message]]:
    """The control records of a batch that mean something to raft, with their offsets; none for metadata records."""
    if not batch.is_control:
        return []
    found: list[tuple[int, Message]] = []
    for offset, _, key, value, _ in batch.rows():
        cls = _CONTROL_MESSAGES.get(ControlType.of_key(key))
        if cls is None:
            continue  # a type of a newer Kafka, to be stepped over
        if value is None:
            raise CorruptMessage(f"The control record at offset {offset} has no value")
        found.append((offset, decode(cls, _CONTROL_VERSION, value)))
    return found

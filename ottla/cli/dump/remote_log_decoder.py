"""The records of `__remote_log_metadata`, in the form in which Java prints the objects made of them."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cli.dump.java_text import Json
from ottla.cli.dump.remote_log_records import (
    RemoteLogSegmentIdEntry,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataSnapshotRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    SegmentLeaderEpochEntry,
    TopicIdPartitionEntry,
)
from ottla.types import Buffer
from ottla.wire import DecodeError, Message, UnknownRecord, decode
from ottla.wire.varint import Refused, read_uvarint

_FRAME_VERSION = 1
_VERSION = 0
_RECORDS: dict[int, type[Message]] = {
    0: RemoteLogSegmentMetadataRecord,
    1: RemoteLogSegmentMetadataUpdateRecord,
    2: RemotePartitionDeleteMetadataRecord,
    3: RemoteLogSegmentMetadataSnapshotRecord,
}
_SEGMENT_STATES = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
_PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


def decode_remote_log(offset: int, key: bytes | None, value: bytes | None) -> dict[str, Json]:
    """Shows a record of `__remote_log_metadata`, which has no key."""
    if value is None:
        return {"payload": f"Error at offset {offset}, skipping. The record has no value"}
    try:
        return {"payload": _text(_read(value))}
    except DecodeError as error:
        return {"payload": f"Error at offset {offset}, skipping. {error}"}


def _read(data: bytes) -> Message:
    """The record behind the three varints of its frame, which is that of the cluster's metadata records."""
    position = 0
    numbers = []
    for what in ("frame_version", "type", "version"):
        try:
            number, position = read_uvarint(data, position)
        except (IndexError, Refused):
            raise DecodeError(f"RemoteLogMetadata.{what}", position, "the varint is cut off or too long") from None
        numbers.append(number)
    frame_version, record_type, version = numbers
    if frame_version != _FRAME_VERSION or record_type not in _RECORDS or version != _VERSION:
        raise UnknownRecord(
            "RemoteLogMetadata", 0, f"frame version {frame_version}, type {record_type}, version {version} is not known"
        )
    return decode(_RECORDS[record_type], version, memoryview(data)[position:])


def _text(record: Message) -> str:
    match record:
        case RemoteLogSegmentMetadataRecord():
            return (
                f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id(record.remote_log_segment_id)}, "
                f"startOffset={record.start_offset}, endOffset={record.end_offset}, brokerId={record.broker_id}, "
                f"maxTimestampMs={record.max_timestamp_ms}, eventTimestampMs={record.event_timestamp_ms}, "
                f"segmentLeaderEpochs={_epochs(record.segment_leader_epochs)}, "
                f"segmentSizeInBytes={record.segment_size_in_bytes}, "
                f"customMetadata={_custom(record.custom_metadata)}, "
                f"state={_state(_SEGMENT_STATES, record.remote_log_segment_state)}, "
                f"txnIdxEmpty={_bool(record.txn_index_empty)}}}"
            )
        case RemoteLogSegmentMetadataUpdateRecord():
            return (
                f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id(record.remote_log_segment_id)}, "
                f"customMetadata={_custom(record.custom_metadata)}, "
                f"state={_state(_SEGMENT_STATES, record.remote_log_segment_state)}, "
                f"eventTimestampMs={record.event_timestamp_ms}, brokerId={record.broker_id}}}"
            )
        case RemotePartitionDeleteMetadataRecord():
            return (
                f"RemotePartitionDeleteMetadata{{topicPartition={_partition(record.topic_id_partition)}, "
                f"state={_state(_PARTITION_STATES, record.remote_partition_delete_state)}, "
                f"eventTimestampMs={record.event_timestamp_ms}, brokerId={record.broker_id}}}"
            )
        case RemoteLogSegmentMetadataSnapshotRecord():
            return (
                f"RemoteLogSegmentMetadataSnapshot{{segmentId={record.segment_id}, "
                f"startOffset={record.start_offset}, endOffset={record.end_offset}, "
                f"maxTimestampMs={record.max_timestamp_ms}, "
                f"segmentLeaderEpochs={_epochs(record.segment_leader_epochs)}, "
                f"segmentSizeInBytes={record.segment_size_in_bytes}, "
                f"customMetadata={_custom(record.custom_metadata)}, "
                f"state={_state(_SEGMENT_STATES, record.remote_log_segment_state)}, "
                f"txnIdxEmpty={_bool(record.txn_index_empty)}}}"
            )
    raise AssertionError(f"{record.schema.name} is no record of remote log metadata")


def _segment_id(entry: RemoteLogSegmentIdEntry) -> str:
    return f"RemoteLogSegmentId{{topicIdPartition={_partition(entry.topic_id_partition)}, id={entry.id}}}"


def _partition(entry: TopicIdPartitionEntry) -> str:
    return f"{entry.id}:{entry.name}-{entry.partition}"


def _epochs(entries: Sequence[SegmentLeaderEpochEntry]) -> str:
    epochs = sorted({entry.leader_epoch: entry.offset for entry in entries}.items())
    return "{" + ", ".join(f"{epoch}={offset}" for epoch, offset in epochs) + "}"


def _custom(data: Buffer | None) -> str:
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _state(names: Sequence[str], state: int) -> str:
    if not 0 <= state < len(names):
        raise UnknownRecord("RemoteLogMetadata.state", 0, f"{state} is not known")
    return names[state]


def _bool(value: bool) -> str:
    return "true" if value else "false"

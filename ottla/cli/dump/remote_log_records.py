"""What the topic `__remote_log_metadata` holds: which segments were copied to remote storage, and what became of them.

Declared here because the dump is the only reader until Ottla has tiered storage of its own (KIP-405).
"""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Bool, Bytes, Int8, Int32, Int64, Message, Struct, field


class TopicIdPartitionEntry(Struct):
    name: str = field()
    id: Uuid = field()
    partition: Int32 = field()


class RemoteLogSegmentIdEntry(Struct):
    topic_id_partition: TopicIdPartitionEntry = field()
    id: Uuid = field()


class SegmentLeaderEpochEntry(Struct):
    leader_epoch: Int32 = field()
    offset: Int64 = field()


class RemoteLogSegmentMetadataRecord(Message, api_key=0, versions="0", flexible="0+"):
    """A segment is being copied to remote storage, or has been."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = field()
    start_offset: Int64 = field()
    end_offset: Int64 = field()
    broker_id: Int32 = field()
    max_timestamp_ms: Int64 = field()
    event_timestamp_ms: Int64 = field()
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = field()
    segment_size_in_bytes: Int32 = field()
    custom_metadata: Bytes | None = field(default=None)
    remote_log_segment_state: Int8 = field()
    txn_index_empty: Bool = field(tag=0, tagged="0+")


class RemoteLogSegmentMetadataUpdateRecord(Message, api_key=1, versions="0", flexible="0+"):
    """A segment in remote storage has another state now."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = field()
    broker_id: Int32 = field()
    event_timestamp_ms: Int64 = field()
    custom_metadata: Bytes | None = field(default=None)
    remote_log_segment_state: Int8 = field()


class RemotePartitionDeleteMetadataRecord(Message, api_key=2, versions="0", flexible="0+"):
    """A partition is being removed from remote storage."""

    topic_id_partition: TopicIdPartitionEntry = field()
    broker_id: Int32 = field()
    event_timestamp_ms: Int64 = field()
    remote_partition_delete_state: Int8 = field()


class RemoteLogSegmentMetadataSnapshotRecord(Message, api_key=3, versions="0", flexible="0+"):
    """A segment in remote storage, as a snapshot of one partition lists it."""

    segment_id: Uuid = field()
    start_offset: Int64 = field()
    end_offset: Int64 = field()
    broker_id: Int32 = field()
    max_timestamp_ms: Int64 = field()
    event_timestamp_ms: Int64 = field()
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = field()
    segment_size_in_bytes: Int32 = field()
    custom_metadata: Bytes | None = field(default=None)
    remote_log_segment_state: Int8 = field()
    txn_index_empty: Bool = field(tag=0, tagged="0+")

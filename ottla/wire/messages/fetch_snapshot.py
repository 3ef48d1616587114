"""FetchSnapshot (key 59): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int16, Int32, Int64, Message, SentRecords, Struct, Uint16, field


class FetchSnapshotRequest(Message, api_key=59, versions="0-1", flexible="0+"):
    """Read a part of a metadata snapshot."""

    cluster_id: str | None = field(default=None, tag=0)
    replica_id: Int32 = field(default=-1, entity="brokerId")
    max_bytes: Int32 = field(default=0x7FFF_FFFF)
    topics: list[FetchSnapshotRequestTopicSnapshot] = field()


class FetchSnapshotRequestTopicSnapshot(Struct):
    name: str = field(entity="topicName")
    partitions: list[FetchSnapshotRequestPartitionSnapshot] = field()


class FetchSnapshotRequestPartitionSnapshot(Struct):
    partition: Int32 = field()
    current_leader_epoch: Int32 = field()
    snapshot_id: SnapshotId = field()
    position: Int64 = field()
    replica_directory_id: Uuid = field("1+", tag=0, ignorable=True)


class SnapshotId(Struct):
    end_offset: Int64 = field()
    epoch: Int32 = field()


class FetchSnapshotResponse(Message, api_key=59, versions="0-1", flexible="0+"):
    """Bytes of the snapshot at the position asked for."""

    throttle_time_ms: Int32 = field(ignorable=True)
    error_code: Int16 = field()
    topics: list[FetchSnapshotResponseTopicSnapshot] = field()
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0)


class FetchSnapshotResponseTopicSnapshot(Struct):
    name: str = field(entity="topicName")
    partitions: list[FetchSnapshotResponsePartitionSnapshot] = field()


class FetchSnapshotResponsePartitionSnapshot(Struct):
    index: Int32 = field()
    error_code: Int16 = field()
    snapshot_id: SnapshotId = field()
    current_leader: LeaderIdAndEpoch | None = field(tag=0)
    size: Int64 = field()
    position: Int64 = field()
    unaligned_records: SentRecords = field()


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = field(entity="brokerId")
    leader_epoch: Int32 = field()


class NodeEndpoint(Struct):
    node_id: Int32 = field("1+", map_key=True, entity="brokerId")
    host: str = field("1+")
    port: Uint16 = field("1+")

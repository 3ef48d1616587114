"""DescribeQuorum (key 55): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int16, Int32, Int64, Message, Struct, Uint16, field


class DescribeQuorumRequest(Message, api_key=55, versions="0-2", flexible="0+"):
    """Ask for the state of the raft quorum."""

    topics: list[DescribeQuorumRequestTopicData] = field()


class DescribeQuorumRequestTopicData(Struct):
    topic_name: str = field(entity="topicName")
    partitions: list[DescribeQuorumRequestPartitionData] = field()


class DescribeQuorumRequestPartitionData(Struct):
    partition_index: Int32 = field()


class DescribeQuorumResponse(Message, api_key=55, versions="0-2", flexible="0+"):
    """The leader, voters and observers of the quorum, and how far each has come."""

    error_code: Int16 = field()
    error_message: str | None = field("2+", ignorable=True)
    topics: list[DescribeQuorumResponseTopicData] = field()
    nodes: list[Node] = field("2+")


class DescribeQuorumResponseTopicData(Struct):
    topic_name: str = field(entity="topicName")
    partitions: list[DescribeQuorumResponsePartitionData] = field()


class DescribeQuorumResponsePartitionData(Struct):
    partition_index: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field("2+", ignorable=True)
    leader_id: Int32 = field(entity="brokerId")
    leader_epoch: Int32 = field()
    high_watermark: Int64 = field()
    current_voters: list[ReplicaState] = field()
    observers: list[ReplicaState] = field()


class ReplicaState(Struct):
    replica_id: Int32 = field(entity="brokerId", doc="A follower's broker id; -1 for a consumer.")
    replica_directory_id: Uuid = field("2+")
    log_end_offset: Int64 = field()
    last_fetch_timestamp: Int64 = field("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: Int64 = field("1+", default=-1, ignorable=True)


class Node(Struct):
    node_id: Int32 = field("2+", map_key=True, entity="brokerId")
    listeners: list[Listener] = field("2+")


class Listener(Struct):
    name: str = field("2+", map_key=True)
    host: str = field("2+")
    port: Uint16 = field("2+")

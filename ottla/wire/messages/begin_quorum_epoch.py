"""BeginQuorumEpoch (key 53): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int16, Int32, Message, Struct, Uint16, field


class BeginQuorumEpochRequest(Message, api_key=53, versions="0-1", flexible="1+"):
    """Announce a new leader of the raft quorum to the voters."""

    cluster_id: str | None = field(default=None)
    voter_id: Int32 = field("1+", default=-1, ignorable=True, entity="brokerId")
    topics: list[BeginQuorumEpochRequestTopicData] = field()
    leader_endpoints: list[LeaderEndpoint] = field("1+", ignorable=True)


class BeginQuorumEpochRequestTopicData(Struct):
    topic_name: str = field(entity="topicName")
    partitions: list[BeginQuorumEpochRequestPartitionData] = field()


class BeginQuorumEpochRequestPartitionData(Struct):
    partition_index: Int32 = field()
    voter_directory_id: Uuid = field("1+", ignorable=True)
    leader_id: Int32 = field(entity="brokerId")
    leader_epoch: Int32 = field()


class LeaderEndpoint(Struct):
    name: str = field("1+", map_key=True)
    host: str = field("1+")
    port: Uint16 = field("1+")


class BeginQuorumEpochResponse(Message, api_key=53, versions="0-1", flexible="1+"):
    """Whether the voter accepts the leader."""

    error_code: Int16 = field()
    topics: list[BeginQuorumEpochResponseTopicData] = field()
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0)


class BeginQuorumEpochResponseTopicData(Struct):
    topic_name: str = field(entity="topicName")
    partitions: list[BeginQuorumEpochResponsePartitionData] = field()


class BeginQuorumEpochResponsePartitionData(Struct):
    partition_index: Int32 = field()
    error_code: Int16 = field()
    leader_id: Int32 = field(entity="brokerId")
    leader_epoch: Int32 = field()


class NodeEndpoint(Struct):
    node_id: Int32 = field("1+", map_key=True, entity="brokerId")
    host: str = field("1+")
    port: Uint16 = field("1+")

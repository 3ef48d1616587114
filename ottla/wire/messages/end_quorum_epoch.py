"""EndQuorumEpoch (key 54): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int16, Int32, Message, Struct, Uint16, field


class EndQuorumEpochRequest(Message, api_key=54, versions="0-1", flexible="1+"):
    """Resign as leader of the raft quorum and name preferred successors."""

    cluster_id: str | None = field(default=None)
    topics: list[EndQuorumEpochRequestTopicData] = field()
    leader_endpoints: list[LeaderEndpoint] = field("1+", ignorable=True)


class EndQuorumEpochRequestTopicData(Struct):
    topic_name: str = field(entity="topicName")
    partitions: list[EndQuorumEpochRequestPartitionData] = field()


class EndQuorumEpochRequestPartitionData(Struct):
    partition_index: Int32 = field()
    leader_id: Int32 = field(entity="brokerId")
    leader_epoch: Int32 = field()
    preferred_successors: list[Int32] = field("0", ignorable=True)
    preferred_candidates: list[ReplicaInfo] = field("1+", ignorable=True)


class ReplicaInfo(Struct):
    candidate_id: Int32 = field("1+", entity="brokerId")
    candidate_directory_id: Uuid = field("1+")


class LeaderEndpoint(Struct):
    name: str = field("1+", map_key=True)
    host: str = field("1+")
    port: Uint16 = field("1+")


class EndQuorumEpochResponse(Message, api_key=54, versions="0-1", flexible="1+"):
    """Whether the voter took note."""

    error_code: Int16 = field()
    topics: list[EndQuorumEpochResponseTopicData] = field()
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0)


class EndQuorumEpochResponseTopicData(Struct):
    topic_name: str = field(entity="topicName")
    partitions: list[EndQuorumEpochResponsePartitionData] = field()


class EndQuorumEpochResponsePartitionData(Struct):
    partition_index: Int32 = field()
    error_code: Int16 = field()
    leader_id: Int32 = field(entity="brokerId")
    leader_epoch: Int32 = field()


class NodeEndpoint(Struct):
    node_id: Int32 = field("1+", map_key=True, entity="brokerId")
    host: str = field("1+")
    port: Uint16 = field("1+")

"""Vote (key 52): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Bool, Int16, Int32, Int64, Message, Struct, Uint16, field


class VoteRequest(Message, api_key=52, versions="0-2", flexible="0+"):
    """Ask for a vote, or for a pre-vote, in an election of the raft quorum."""

    cluster_id: str | None = field(default=None)
    voter_id: Int32 = field("1+", default=-1, ignorable=True, entity="brokerId")
    topics: list[VoteRequestTopicData] = field()


class VoteRequestTopicData(Struct):
    topic_name: str = field(entity="topicName")
    partitions: list[VoteRequestPartitionData] = field()


class VoteRequestPartitionData(Struct):
    partition_index: Int32 = field()
    replica_epoch: Int32 = field()
    replica_id: Int32 = field(entity="brokerId")
    replica_directory_id: Uuid = field("1+", ignorable=True)
    voter_directory_id: Uuid = field("1+", ignorable=True)
    last_offset_epoch: Int32 = field()
    last_offset: Int64 = field()
    pre_vote: Bool = field("2+")


class VoteResponse(Message, api_key=52, versions="0-2", flexible="0+"):
    """Whether the vote was given, and which leader the voter knows."""

    error_code: Int16 = field()
    topics: list[VoteResponseTopicData] = field()
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0)


class VoteResponseTopicData(Struct):
    topic_name: str = field(entity="topicName")
    partitions: list[VoteResponsePartitionData] = field()


class VoteResponsePartitionData(Struct):
    partition_index: Int32 = field()
    error_code: Int16 = field()
    leader_id: Int32 = field(entity="brokerId")
    leader_epoch: Int32 = field()
    vote_granted: Bool = field()


class NodeEndpoint(Struct):
    node_id: Int32 = field("1+", map_key=True, entity="brokerId")
    host: str = field("1+")
    port: Uint16 = field("1+")

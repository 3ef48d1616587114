"""ElectLeaders (key 43): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int8, Int16, Int32, Message, Struct, field


class ElectLeadersRequest(Message, api_key=43, versions="0-2", flexible="2+"):
    """Start leader elections, preferred or unclean."""

    election_type: Int8 = field("1+", doc="0 preferred, 1 unclean.")
    topic_partitions: list[TopicPartitions] | None = field(doc="Null for all partitions.")
    timeout_ms: Int32 = field(default=60000)


class TopicPartitions(Struct):
    topic: str = field(map_key=True, entity="topicName")
    partitions: list[Int32] = field()


class ElectLeadersResponse(Message, api_key=43, versions="0-2", flexible="2+"):
    """How each election went."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field("1+")
    replica_election_results: list[ReplicaElectionResult] = field()


class ReplicaElectionResult(Struct):
    topic: str = field(entity="topicName")
    partition_result: list[PartitionResult] = field()


class PartitionResult(Struct):
    partition_id: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()

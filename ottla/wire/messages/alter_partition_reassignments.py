"""AlterPartitionReassignments (key 45): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bool, Int16, Int32, Message, Struct, field


class AlterPartitionReassignmentsRequest(Message, api_key=45, versions="0-1", flexible="0+"):
    """Start or cancel the move of partitions to other replicas."""

    timeout_ms: Int32 = field(default=60000)
    allow_replication_factor_change: Bool = field("1+", default=True)
    topics: list[ReassignableTopic] = field()


class ReassignableTopic(Struct):
    name: str = field(entity="topicName")
    partitions: list[ReassignablePartition] = field()


class ReassignablePartition(Struct):
    partition_index: Int32 = field()
    replicas: list[Int32] | None = field(default=None, entity="brokerId", doc="Null cancels a pending reassignment.")


class AlterPartitionReassignmentsResponse(Message, api_key=45, versions="0-1", flexible="0+"):
    """Whether each reassignment was accepted."""

    throttle_time_ms: Int32 = field()
    allow_replication_factor_change: Bool = field("1+", default=True, ignorable=True)
    error_code: Int16 = field()
    error_message: str | None = field()
    responses: list[ReassignableTopicResponse] = field()


class ReassignableTopicResponse(Struct):
    name: str = field(entity="topicName")
    partitions: list[ReassignablePartitionResponse] = field()


class ReassignablePartitionResponse(Struct):
    partition_index: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()

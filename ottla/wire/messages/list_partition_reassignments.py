"""ListPartitionReassignments (key 46): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int16, Int32, Message, Struct, field


class ListPartitionReassignmentsRequest(Message, api_key=46, versions="0", flexible="0+"):
    """Ask which partitions are being reassigned."""

    timeout_ms: Int32 = field(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(default=None, doc="Null for all topics.")


class ListPartitionReassignmentsTopics(Struct):
    name: str = field(entity="topicName")
    partition_indexes: list[Int32] = field()


class ListPartitionReassignmentsResponse(Message, api_key=46, versions="0", flexible="0+"):
    """The partitions that are being reassigned, with the replicas they gain and lose."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()
    topics: list[OngoingTopicReassignment] = field()


class OngoingTopicReassignment(Struct):
    name: str = field(entity="topicName")
    partitions: list[OngoingPartitionReassignment] = field()


class OngoingPartitionReassignment(Struct):
    partition_index: Int32 = field()
    replicas: list[Int32] = field(entity="brokerId")
    adding_replicas: list[Int32] = field(entity="brokerId")
    removing_replicas: list[Int32] = field(entity="brokerId")

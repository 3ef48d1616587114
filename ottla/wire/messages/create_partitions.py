"""CreatePartitions (key 37): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bool, Int16, Int32, Message, Struct, field


class CreatePartitionsRequest(Message, api_key=37, versions="0-3", flexible="2+"):
    """Add partitions to topics."""

    topics: list[CreatePartitionsTopic] = field()
    timeout_ms: Int32 = field()
    validate_only: Bool = field()


class CreatePartitionsTopic(Struct):
    name: str = field(map_key=True, entity="topicName")
    count: Int32 = field()
    assignments: list[CreatePartitionsAssignment] | None = field()


class CreatePartitionsAssignment(Struct):
    broker_ids: list[Int32] = field(entity="brokerId")


class CreatePartitionsResponse(Message, api_key=37, versions="0-3", flexible="2+"):
    """Whether each topic grew."""

    throttle_time_ms: Int32 = field()
    results: list[CreatePartitionsTopicResult] = field()


class CreatePartitionsTopicResult(Struct):
    name: str = field(entity="topicName")
    error_code: Int16 = field()
    error_message: str | None = field(default=None)

"""DescribeTopicPartitions (key 75): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Bool, Int16, Int32, Message, Struct, field


class DescribeTopicPartitionsRequest(Message, api_key=75, versions="0", flexible="0+"):
    """Ask for the partitions of topics, a page at a time."""

    topics: list[TopicRequest] = field()
    response_partition_limit: Int32 = field(default=2000)
    cursor: Cursor | None = field(default=None)


class TopicRequest(Struct):
    name: str = field(entity="topicName")


class Cursor(Struct):
    topic_name: str = field(entity="topicName")
    partition_index: Int32 = field()


class DescribeTopicPartitionsResponse(Message, api_key=75, versions="0", flexible="0+"):
    """The partitions with their replica sets, and where the next page begins."""

    throttle_time_ms: Int32 = field(ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = field()
    next_cursor: Cursor | None = field(default=None)


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: Int16 = field()
    name: str | None = field(map_key=True, entity="topicName")
    topic_id: Uuid = field(ignorable=True)
    is_internal: Bool = field(ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field()
    topic_authorized_operations: Int32 = field(default=-0x8000_0000)


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: Int16 = field()
    partition_index: Int32 = field()
    leader_id: Int32 = field(entity="brokerId")
    leader_epoch: Int32 = field(default=-1, ignorable=True)
    replica_nodes: list[Int32] = field(entity="brokerId")
    isr_nodes: list[Int32] = field(entity="brokerId")
    eligible_leader_replicas: list[Int32] | None = field(default=None, entity="brokerId")
    last_known_elr: list[Int32] | None = field(default=None, entity="brokerId")
    offline_replicas: list[Int32] = field(ignorable=True, entity="brokerId")

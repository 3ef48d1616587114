"""DescribeProducers (key 61): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int16, Int32, Int64, Message, Struct, field


class DescribeProducersRequest(Message, api_key=61, versions="0", flexible="0+"):
    """Ask for the active producers of partitions."""

    topics: list[TopicRequest] = field()


class TopicRequest(Struct):
    name: str = field(entity="topicName")
    partition_indexes: list[Int32] = field()


class DescribeProducersResponse(Message, api_key=61, versions="0", flexible="0+"):
    """The producers with their last sequence numbers and open transactions."""

    throttle_time_ms: Int32 = field()
    topics: list[TopicResponse] = field()


class TopicResponse(Struct):
    name: str = field(entity="topicName")
    partitions: list[PartitionResponse] = field()


class PartitionResponse(Struct):
    partition_index: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)
    active_producers: list[ProducerState] = field()


class ProducerState(Struct):
    producer_id: Int64 = field(entity="producerId")
    producer_epoch: Int32 = field()
    last_sequence: Int32 = field(default=-1)
    last_timestamp: Int64 = field(default=-1)
    coordinator_epoch: Int32 = field()
    current_txn_start_offset: Int64 = field(default=-1)

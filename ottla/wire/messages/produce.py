"""Produce (key 0): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int16, Int32, Int64, Message, Records, Struct, field


class ProduceRequest(Message, api_key=0, versions="3-13", flexible="9+"):
    """Append record batches to partitions."""

    transactional_id: str | None = field("3+", default=None, entity="transactionalId")
    acks: Int16 = field(
        doc="0: no answer is sent; 1: the leader's append is enough; -1: the whole in-sync set must have it."
    )
    timeout_ms: Int32 = field()
    topic_data: list[TopicProduceData] = field()


class TopicProduceData(Struct):
    name: str = field("0-12", ignorable=True, map_key=True, entity="topicName")
    topic_id: Uuid = field("13+", ignorable=True, map_key=True)
    partition_data: list[PartitionProduceData] = field()


class PartitionProduceData(Struct):
    index: Int32 = field()
    records: Records | None = field()


class ProduceResponse(Message, api_key=0, versions="3-13", flexible="9+"):
    """Where each partition's batches were appended, or why they were not."""

    responses: list[TopicProduceResponse] = field()
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0)


class TopicProduceResponse(Struct):
    name: str = field("0-12", ignorable=True, map_key=True, entity="topicName")
    topic_id: Uuid = field("13+", ignorable=True, map_key=True)
    partition_responses: list[PartitionProduceResponse] = field()


class PartitionProduceResponse(Struct):
    index: Int32 = field()
    error_code: Int16 = field()
    base_offset: Int64 = field()
    log_append_time_ms: Int64 = field(
        "2+", default=-1, ignorable=True, doc="-1 where the topic keeps the producer's timestamps."
    )
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field("8+", ignorable=True)
    error_message: str | None = field("8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = field(
        "10+", tag=0, doc="Told with NOT_LEADER_OR_FOLLOWER, so that the producer can go there at once."
    )


class BatchIndexAndErrorMessage(Struct):
    batch_index: Int32 = field("8+")
    batch_index_error_message: str | None = field("8+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = field("10+", default=-1, entity="brokerId")
    leader_epoch: Int32 = field("10+", default=-1)


class NodeEndpoint(Struct):
    node_id: Int32 = field("10+", map_key=True, entity="brokerId")
    host: str = field("10+")
    port: Int32 = field("10+")
    rack: str | None = field("10+", default=None)

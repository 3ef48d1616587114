"""AddPartitionsToTxn (key 24): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bool, Int16, Int32, Int64, Message, Struct, field


class AddPartitionsToTxnRequest(Message, api_key=24, versions="0-5", flexible="3+"):
    """Add partitions to ongoing transactions, or verify that they were added."""

    transactions: list[AddPartitionsToTxnTransaction] = field(
        "4+",
        doc="From version 4 on, which only brokers send; clients give one transaction in the `v3_and_below` fields.",
    )
    v3_and_below_transactional_id: str = field("0-3", entity="transactionalId")
    v3_and_below_producer_id: Int64 = field("0-3", entity="producerId")
    v3_and_below_producer_epoch: Int16 = field("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3")


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = field("4+", map_key=True, entity="transactionalId")
    producer_id: Int64 = field("4+", entity="producerId")
    producer_epoch: Int16 = field("4+")
    verify_only: Bool = field("4+", doc="Check that the partitions were added and add none.")
    topics: list[AddPartitionsToTxnTopic] = field("4+")


class AddPartitionsToTxnTopic(Struct):
    name: str = field(map_key=True, entity="topicName")
    partitions: list[Int32] = field()


class AddPartitionsToTxnResponse(Message, api_key=24, versions="0-5", flexible="3+"):
    """Whether each partition is part of its transaction."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3")


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = field("4+", map_key=True, entity="transactionalId")
    topic_results: list[AddPartitionsToTxnTopicResult] = field("4+")


class AddPartitionsToTxnTopicResult(Struct):
    name: str = field(map_key=True, entity="topicName")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field()


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: Int32 = field(map_key=True)
    partition_error_code: Int16 = field()

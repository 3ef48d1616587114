"""DescribeTransactions (key 65): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int16, Int32, Int64, Message, Struct, field


class DescribeTransactionsRequest(Message, api_key=65, versions="0", flexible="0+"):
    """Ask for the state of transactions."""

    transactional_ids: list[str] = field(entity="transactionalId")


class DescribeTransactionsResponse(Message, api_key=65, versions="0", flexible="0+"):
    """The state, producer and partitions of each transaction."""

    throttle_time_ms: Int32 = field()
    transaction_states: list[TransactionState] = field()


class TransactionState(Struct):
    error_code: Int16 = field()
    transactional_id: str = field(entity="transactionalId")
    transaction_state: str = field()
    transaction_timeout_ms: Int32 = field()
    transaction_start_time_ms: Int64 = field()
    producer_id: Int64 = field(entity="producerId")
    producer_epoch: Int16 = field()
    topics: list[TopicData] = field()


class TopicData(Struct):
    topic: str = field(map_key=True, entity="topicName")
    partitions: list[Int32] = field()

"""TxnOffsetCommit (key 28): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int16, Int32, Int64, Message, Struct, field


class TxnOffsetCommitRequest(Message, api_key=28, versions="0-5", flexible="3+"):
    """Store consumed offsets as part of a transaction."""

    transactional_id: str = field(entity="transactionalId")
    group_id: str = field(entity="groupId")
    producer_id: Int64 = field(entity="producerId")
    producer_epoch: Int16 = field()
    generation_id: Int32 = field("3+", default=-1)
    member_id: str = field("3+")
    group_instance_id: str | None = field("3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field()


class TxnOffsetCommitRequestTopic(Struct):
    name: str = field(entity="topicName")
    partitions: list[TxnOffsetCommitRequestPartition] = field()


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: Int32 = field()
    committed_offset: Int64 = field()
    committed_leader_epoch: Int32 = field("2+", default=-1, ignorable=True)
    committed_metadata: str | None = field()


class TxnOffsetCommitResponse(Message, api_key=28, versions="0-5", flexible="3+"):
    """Whether each partition's offset was stored."""

    throttle_time_ms: Int32 = field()
    topics: list[TxnOffsetCommitResponseTopic] = field()


class TxnOffsetCommitResponseTopic(Struct):
    name: str = field(entity="topicName")
    partitions: list[TxnOffsetCommitResponsePartition] = field()


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: Int32 = field()
    error_code: Int16 = field()

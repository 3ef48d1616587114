"""OffsetForLeaderEpoch (key 23): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int16, Int32, Int64, Message, Struct, field


class OffsetForLeaderEpochRequest(Message, api_key=23, versions="2-4", flexible="4+"):
    """Ask where leader epochs end, to find the point at which two logs diverge."""

    replica_id: Int32 = field(
        "3+", default=-2, ignorable=True, entity="brokerId", doc="-1 for a consumer, -2 for a debugging one."
    )
    topics: list[OffsetForLeaderTopic] = field()


class OffsetForLeaderTopic(Struct):
    topic: str = field(map_key=True, entity="topicName")
    partitions: list[OffsetForLeaderPartition] = field()


class OffsetForLeaderPartition(Struct):
    partition: Int32 = field()
    current_leader_epoch: Int32 = field("2+", default=-1, ignorable=True)
    leader_epoch: Int32 = field()


class OffsetForLeaderEpochResponse(Message, api_key=23, versions="2-4", flexible="4+"):
    """The end offset of each epoch asked for."""

    throttle_time_ms: Int32 = field("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = field()


class OffsetForLeaderTopicResult(Struct):
    topic: str = field(map_key=True, entity="topicName")
    partitions: list[EpochEndOffset] = field()


class EpochEndOffset(Struct):
    error_code: Int16 = field()
    partition: Int32 = field()
    leader_epoch: Int32 = field("1+", default=-1, ignorable=True)
    end_offset: Int64 = field(default=-1)

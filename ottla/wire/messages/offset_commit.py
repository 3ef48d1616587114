"""OffsetCommit (key 8): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int16, Int32, Int64, Message, Struct, field


class OffsetCommitRequest(Message, api_key=8, versions="2-10", flexible="8+"):
    """Store the offsets that a group has consumed up to."""

    group_id: str = field(entity="groupId")
    generation_id_or_member_epoch: Int32 = field(
        "1+",
        default=-1,
        ignorable=True,
        doc="Of a classic group or a consumer group; -1 commits from outside the group.",
    )
    member_id: str = field("1+", ignorable=True)
    group_instance_id: str | None = field("7+", default=None)
    retention_time_ms: Int64 = field("2-4", default=-1, ignorable=True, doc="-1 for the broker's own setting.")
    topics: list[OffsetCommitRequestTopic] = field()


class OffsetCommitRequestTopic(Struct):
    name: str = field("0-9", ignorable=True, entity="topicName")
    topic_id: Uuid = field("10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = field()


class OffsetCommitRequestPartition(Struct):
    partition_index: Int32 = field()
    committed_offset: Int64 = field()
    committed_leader_epoch: Int32 = field("6+", default=-1, ignorable=True)
    committed_metadata: str | None = field()


class OffsetCommitResponse(Message, api_key=8, versions="2-10", flexible="8+"):
    """Whether each partition's offset was stored."""

    throttle_time_ms: Int32 = field("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field()


class OffsetCommitResponseTopic(Struct):
    name: str = field("0-9", ignorable=True, entity="topicName")
    topic_id: Uuid = field("10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = field()


class OffsetCommitResponsePartition(Struct):
    partition_index: Int32 = field()
    error_code: Int16 = field()

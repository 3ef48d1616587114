"""OffsetFetch (key 9): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Bool, Int16, Int32, Int64, Message, Struct, field


class OffsetFetchRequest(Message, api_key=9, versions="1-10", flexible="6+"):
    """Ask for the committed offsets of groups."""

    group_id: str = field("0-7", entity="groupId")
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field("8+")
    require_stable: Bool = field("7+", doc="Refuse, for now, partitions whose offsets are part of an open transaction.")


class OffsetFetchRequestTopic(Struct):
    name: str = field("0-7", entity="topicName")
    partition_indexes: list[Int32] = field("0-7")


class OffsetFetchRequestGroup(Struct):
    group_id: str = field("8+", entity="groupId")
    member_id: str | None = field("9+", default=None, ignorable=True)
    member_epoch: Int32 = field("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field("8+")


class OffsetFetchRequestTopics(Struct):
    name: str = field("8-9", ignorable=True, entity="topicName")
    topic_id: Uuid = field("10+", ignorable=True)
    partition_indexes: list[Int32] = field("8+")


class OffsetFetchResponse(Message, api_key=9, versions="1-10", flexible="6+"):
    """The committed offsets of each group."""

    throttle_time_ms: Int32 = field("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field("0-7")
    error_code: Int16 = field("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field("8+")


class OffsetFetchResponseTopic(Struct):
    name: str = field("0-7", entity="topicName")
    partitions: list[OffsetFetchResponsePartition] = field("0-7")


class OffsetFetchResponsePartition(Struct):
    partition_index: Int32 = field("0-7")
    committed_offset: Int64 = field("0-7")
    committed_leader_epoch: Int32 = field("5-7", default=-1, ignorable=True)
    metadata: str | None = field("0-7")
    error_code: Int16 = field("0-7")


class OffsetFetchResponseGroup(Struct):
    group_id: str = field("8+", entity="groupId")
    topics: list[OffsetFetchResponseTopics] = field("8+")
    error_code: Int16 = field("8+")


class OffsetFetchResponseTopics(Struct):
    name: str = field("8-9", ignorable=True, entity="topicName")
    topic_id: Uuid = field("10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = field("8+")


class OffsetFetchResponsePartitions(Struct):
    partition_index: Int32 = field("8+")
    committed_offset: Int64 = field("8+")
    committed_leader_epoch: Int32 = field("8+", default=-1, ignorable=True)
    metadata: str | None = field("8+")
    error_code: Int16 = field("8+")

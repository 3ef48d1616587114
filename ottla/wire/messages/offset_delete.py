"""OffsetDelete (key 47): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int16, Int32, Message, Struct, field


class OffsetDeleteRequest(Message, api_key=47, versions="0"):
    """Delete committed offsets of a group."""

    group_id: str = field(entity="groupId")
    topics: list[OffsetDeleteRequestTopic] = field()


class OffsetDeleteRequestTopic(Struct):
    name: str = field(map_key=True, entity="topicName")
    partitions: list[OffsetDeleteRequestPartition] = field()


class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32 = field()


class OffsetDeleteResponse(Message, api_key=47, versions="0"):
    """Whether each partition's offset was deleted."""

    error_code: Int16 = field()
    throttle_time_ms: Int32 = field(ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = field()


class OffsetDeleteResponseTopic(Struct):
    name: str = field(map_key=True, entity="topicName")
    partitions: list[OffsetDeleteResponsePartition] = field()


class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32 = field(map_key=True)
    error_code: Int16 = field()

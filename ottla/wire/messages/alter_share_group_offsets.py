"""AlterShareGroupOffsets (key 91): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int16, Int32, Int64, Message, Struct, field


class AlterShareGroupOffsetsRequest(Message, api_key=91, versions="0", flexible="0+"):
    """Set the start offsets of an empty share group."""

    group_id: str = field(entity="groupId")
    topics: list[AlterShareGroupOffsetsRequestTopic] = field()


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field(map_key=True, entity="topicName")
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field()


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: Int32 = field()
    start_offset: Int64 = field()


class AlterShareGroupOffsetsResponse(Message, api_key=91, versions="0", flexible="0+"):
    """Whether each partition's start offset was set."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = field()


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field(map_key=True, entity="topicName")
    topic_id: Uuid = field()
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field()


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)

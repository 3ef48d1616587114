"""DeleteShareGroupOffsets (key 92): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int16, Int32, Message, Struct, field


class DeleteShareGroupOffsetsRequest(Message, api_key=92, versions="0", flexible="0+"):
    """Delete the offsets of topics from an empty share group."""

    group_id: str = field(entity="groupId")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field()


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field(entity="topicName")


class DeleteShareGroupOffsetsResponse(Message, api_key=92, versions="0", flexible="0+"):
    """Whether each topic's offsets were deleted."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field()


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field(entity="topicName")
    topic_id: Uuid = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)

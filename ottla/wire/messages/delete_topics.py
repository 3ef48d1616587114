"""DeleteTopics (key 20): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int16, Int32, Message, Struct, field


class DeleteTopicsRequest(Message, api_key=20, versions="1-6", flexible="4+"):
    """Delete topics by name or id."""

    topics: list[DeleteTopicState] = field("6+")
    topic_names: list[str] = field("0-5", ignorable=True, entity="topicName")
    timeout_ms: Int32 = field()


class DeleteTopicState(Struct):
    name: str | None = field("6+", default=None, entity="topicName")
    topic_id: Uuid = field("6+")


class DeleteTopicsResponse(Message, api_key=20, versions="1-6", flexible="4+"):
    """Whether each topic was deleted."""

    throttle_time_ms: Int32 = field("1+", ignorable=True)
    responses: list[DeletableTopicResult] = field()


class DeletableTopicResult(Struct):
    name: str | None = field(nullable="6+", map_key=True, entity="topicName")
    topic_id: Uuid = field("6+", ignorable=True)
    error_code: Int16 = field()
    error_message: str | None = field("5+", default=None, ignorable=True)

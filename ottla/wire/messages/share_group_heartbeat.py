"""ShareGroupHeartbeat (key 76): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int16, Int32, Message, Struct, field


class ShareGroupHeartbeatRequest(Message, api_key=76, versions="1", flexible="0+"):
    """Join, stay in or leave a share group (KIP-932)."""

    group_id: str = field(entity="groupId")
    member_id: str = field()
    member_epoch: Int32 = field(doc="0 joins, -1 leaves.")
    rack_id: str | None = field(default=None)
    subscribed_topic_names: list[str] | None = field(default=None, entity="topicName")


class ShareGroupHeartbeatResponse(Message, api_key=76, versions="1", flexible="0+"):
    """The member's epoch, and its assignment when that has changed."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)
    member_id: str | None = field(default=None)
    member_epoch: Int32 = field()
    heartbeat_interval_ms: Int32 = field()
    assignment: Assignment | None = field(default=None, doc="Null where it has not changed.")


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field()


class TopicPartitions(Struct):
    topic_id: Uuid = field()
    partitions: list[Int32] = field()

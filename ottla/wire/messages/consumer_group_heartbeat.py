"""ConsumerGroupHeartbeat (key 68): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int16, Int32, Message, Struct, field


class ConsumerGroupHeartbeatRequest(Message, api_key=68, versions="0-1", flexible="0+"):
    """Join, stay in or leave a consumer group of the new protocol (KIP-848)."""

    group_id: str = field(entity="groupId")
    member_id: str = field()
    member_epoch: Int32 = field(doc="0 joins, -1 leaves, -2 leaves for a while as a static member.")
    instance_id: str | None = field(default=None)
    rack_id: str | None = field(default=None)
    rebalance_timeout_ms: Int32 = field(default=-1, doc="-1 where it has not changed.")
    subscribed_topic_names: list[str] | None = field(
        default=None, entity="topicName", doc="Null where it has not changed since the last heartbeat."
    )
    subscribed_topic_regex: str | None = field("1+", default=None)
    server_assignor: str | None = field(default=None)
    topic_partitions: list[TopicPartitions] | None = field(
        default=None, doc="What the member owns; null where it has not changed."
    )


class TopicPartitions(Struct):
    topic_id: Uuid = field()
    partitions: list[Int32] = field()


class ConsumerGroupHeartbeatResponse(Message, api_key=68, versions="0-1", flexible="0+"):
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

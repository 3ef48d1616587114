"""What members of classic consumer groups tell each other through the coordinator, which does not read it."""

from __future__ import annotations

from ottla.wire.schema import Bytes, Int32, Message, Struct, field


class ConsumerProtocolSubscription(Message, versions="0-3"):
    """The topics that a member of a classic consumer group wants, and what it owns."""

    topics: list[str] = field()
    user_data: Bytes | None = field(default=None)
    owned_partitions: list[ConsumerProtocolSubscriptionTopicPartition] = field("1+", ignorable=True)
    generation_id: Int32 = field("2+", default=-1, ignorable=True)
    rack_id: str | None = field("3+", default=None, ignorable=True)


class ConsumerProtocolSubscriptionTopicPartition(Struct):
    topic: str = field("1+", map_key=True, entity="topicName")
    partitions: list[Int32] = field("1+")


class ConsumerProtocolAssignment(Message, versions="0-3"):
    """The partitions that a classic consumer group's leader assigned to a member."""

    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = field()
    user_data: Bytes | None = field(default=None)


class ConsumerProtocolAssignmentTopicPartition(Struct):
    topic: str = field(map_key=True, entity="topicName")
    partitions: list[Int32] = field()

"""ConsumerGroupDescribe (key 69): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Bool, Int8, Int16, Int32, Message, Struct, field


class ConsumerGroupDescribeRequest(Message, api_key=69, versions="0-1", flexible="0+"):
    """Ask for the state and the members of consumer groups of the new protocol."""

    group_ids: list[str] = field(entity="groupId")
    include_authorized_operations: Bool = field()


class ConsumerGroupDescribeResponse(Message, api_key=69, versions="0-1", flexible="0+"):
    """The state, epochs and members of each group, with current and target assignments."""

    throttle_time_ms: Int32 = field()
    groups: list[DescribedGroup] = field()


class DescribedGroup(Struct):
    error_code: Int16 = field()
    error_message: str | None = field(default=None)
    group_id: str = field(entity="groupId")
    group_state: str = field()
    group_epoch: Int32 = field()
    assignment_epoch: Int32 = field()
    assignor_name: str = field()
    members: list[Member] = field()
    authorized_operations: Int32 = field(default=-0x8000_0000)


class Member(Struct):
    member_id: str = field()
    instance_id: str | None = field(default=None)
    rack_id: str | None = field(default=None)
    member_epoch: Int32 = field()
    client_id: str = field()
    client_host: str = field()
    subscribed_topic_names: list[str] = field(entity="topicName")
    subscribed_topic_regex: str | None = field(default=None)
    assignment: Assignment = field()
    target_assignment: Assignment = field()
    member_type: Int8 = field("1+", default=-1, ignorable=True)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field()


class TopicPartitions(Struct):
    topic_id: Uuid = field()
    topic_name: str = field(entity="topicName")
    partitions: list[Int32] = field()

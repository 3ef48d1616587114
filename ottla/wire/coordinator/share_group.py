"""Records of `__consumer_offsets` about share groups (KIP-932)."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int8, Int32, Int64, Message, Struct, field


class ShareGroupMemberMetadataKey(Message, api_key=10, versions="0"):
    """Which member of which share group it is about."""

    group_id: str = field("0")
    member_id: str = field("0")


class ShareGroupMemberMetadataValue(Message, api_key=10, versions="0", flexible="0+"):
    """What a member of a share group asked for."""

    rack_id: str | None = field()
    client_id: str = field()
    client_host: str = field()
    subscribed_topic_names: list[str] = field()


class ShareGroupMetadataKey(Message, api_key=11, versions="0"):
    """Which share group it is about."""

    group_id: str = field("0")


class ShareGroupMetadataValue(Message, api_key=11, versions="0", flexible="0+"):
    """The epoch of a share group."""

    epoch: Int32 = field()
    metadata_hash: Int64 = field()


class ShareGroupTargetAssignmentMetadataKey(Message, api_key=12, versions="0"):
    """Which share group it is about."""

    group_id: str = field("0")


class ShareGroupTargetAssignmentMetadataValue(Message, api_key=12, versions="0", flexible="0+"):
    """The epoch of a share group's target assignment."""

    assignment_epoch: Int32 = field()
    assignment_timestamp: Int64 = field(tag=0, ignorable=True)


class ShareGroupTargetAssignmentMemberKey(Message, api_key=13, versions="0"):
    """Which member of which share group it is about."""

    group_id: str = field("0")
    member_id: str = field("0")


class ShareGroupTargetAssignmentMemberValue(Message, api_key=13, versions="0", flexible="0+"):
    """The partitions that a member should read."""

    topic_partitions: list[TopicPartition] = field()


class TopicPartition(Struct):
    topic_id: Uuid = field()
    partitions: list[Int32] = field()


class ShareGroupCurrentMemberAssignmentKey(Message, api_key=14, versions="0"):
    """Which member of which share group it is about."""

    group_id: str = field("0")
    member_id: str = field("0")


class ShareGroupCurrentMemberAssignmentValue(Message, api_key=14, versions="0", flexible="0+"):
    """The partitions that a member reads."""

    member_epoch: Int32 = field()
    previous_member_epoch: Int32 = field()
    state: Int8 = field()
    assigned_partitions: list[TopicPartitions] = field()


class TopicPartitions(Struct):
    topic_id: Uuid = field()
    partitions: list[Int32] = field()


class ShareGroupStatePartitionMetadataKey(Message, api_key=15, versions="0"):
    """Which share group it is about."""

    group_id: str = field("0")


class ShareGroupStatePartitionMetadataValue(Message, api_key=15, versions="0", flexible="0+"):
    """The partitions whose share state exists, is being created or is being deleted."""

    initializing_topics: list[TopicPartitionsInfo] = field()
    initialized_topics: list[TopicPartitionsInfo] = field()
    deleting_topics: list[TopicInfo] = field()


class TopicPartitionsInfo(Struct):
    topic_id: Uuid = field()
    topic_name: str = field()
    partitions: list[Int32] = field()


class TopicInfo(Struct):
    topic_id: Uuid = field()
    topic_name: str = field()

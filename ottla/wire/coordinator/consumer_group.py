"""Records of `__consumer_offsets` about consumer groups (KIP-848)."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Bytes, Int8, Int32, Int64, Message, Struct, field


class ConsumerGroupMetadataKey(Message, api_key=3, versions="0"):
    """Which consumer group it is about."""

    group_id: str = field("0")


class ConsumerGroupMetadataValue(Message, api_key=3, versions="0", flexible="0+"):
    """The epoch of a consumer group."""

    epoch: Int32 = field()
    metadata_hash: Int64 = field(tag=0)


class ConsumerGroupPartitionMetadataKey(Message, api_key=4, versions="0"):
    """Which consumer group it is about."""

    group_id: str = field("0")


class ConsumerGroupPartitionMetadataValue(Message, api_key=4, versions="0", flexible="0+"):
    """The topics that a consumer group was subscribed to; only tombstones are still written."""

    topics: list[TopicMetadata] = field()


class TopicMetadata(Struct):
    topic_id: Uuid = field()
    topic_name: str = field()
    num_partitions: Int32 = field()
    partition_metadata: list[PartitionMetadata] = field()


class PartitionMetadata(Struct):
    partition: Int32 = field()
    racks: list[str] = field()


class ConsumerGroupMemberMetadataKey(Message, api_key=5, versions="0"):
    """Which member of which consumer group it is about."""

    group_id: str = field("0")
    member_id: str = field("0")


class ConsumerGroupMemberMetadataValue(Message, api_key=5, versions="0", flexible="0+"):
    """What a member of a consumer group asked for."""

    instance_id: str | None = field()
    rack_id: str | None = field()
    client_id: str = field()
    client_host: str = field()
    subscribed_topic_names: list[str] = field()
    subscribed_topic_regex: str | None = field()
    rebalance_timeout_ms: Int32 = field(default=-1)
    server_assignor: str | None = field()
    classic_member_metadata: ClassicMemberMetadata | None = field(nullable="0+", tag=0)


class ClassicMemberMetadata(Struct):
    session_timeout_ms: Int32 = field()
    supported_protocols: list[ClassicProtocol] = field()


class ClassicProtocol(Struct):
    name: str = field()
    metadata: Bytes = field()


class ConsumerGroupTargetAssignmentMetadataKey(Message, api_key=6, versions="0"):
    """Which consumer group it is about."""

    group_id: str = field("0")


class ConsumerGroupTargetAssignmentMetadataValue(Message, api_key=6, versions="0", flexible="0+"):
    """The epoch of a consumer group's target assignment."""

    assignment_epoch: Int32 = field()
    assignment_timestamp: Int64 = field(tag=0, ignorable=True)


class ConsumerGroupTargetAssignmentMemberKey(Message, api_key=7, versions="0"):
    """Which member of which consumer group it is about."""

    group_id: str = field("0")
    member_id: str = field("0")


class ConsumerGroupTargetAssignmentMemberValue(Message, api_key=7, versions="0", flexible="0+"):
    """The partitions that a member should own."""

    topic_partitions: list[TopicPartition] = field()


class TopicPartition(Struct):
    topic_id: Uuid = field()
    partitions: list[Int32] = field()


class ConsumerGroupCurrentMemberAssignmentKey(Message, api_key=8, versions="0"):
    """Which member of which consumer group it is about."""

    group_id: str = field("0")
    member_id: str = field("0")


class ConsumerGroupCurrentMemberAssignmentValue(Message, api_key=8, versions="0", flexible="0+"):
    """The partitions that a member owns or is giving up."""

    member_epoch: Int32 = field()
    previous_member_epoch: Int32 = field()
    state: Int8 = field()
    assigned_partitions: list[TopicPartitions] = field()
    partitions_pending_revocation: list[TopicPartitions] = field()


class TopicPartitions(Struct):
    topic_id: Uuid = field()
    partitions: list[Int32] = field()
    assignment_epochs: list[Int32] | None = field(tag=0)


class ConsumerGroupRegularExpressionKey(Message, api_key=16, versions="0"):
    """Which regular expression of which consumer group it is about."""

    group_id: str = field("0")
    regular_expression: str = field("0")


class ConsumerGroupRegularExpressionValue(Message, api_key=16, versions="0", flexible="0+"):
    """The topics that a regular expression matched."""

    topics: list[str] = field()
    version: Int64 = field()
    timestamp: Int64 = field()

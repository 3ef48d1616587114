"""Records of `__consumer_offsets` about Streams groups (KIP-1071)."""

from __future__ import annotations

from ottla.wire.schema import Int8, Int16, Int32, Int64, Message, Struct, Uint16, field


class StreamsGroupMetadataKey(Message, api_key=17, versions="0"):
    """Which Streams group it is about."""

    group_id: str = field("0")


class StreamsGroupMetadataValue(Message, api_key=17, versions="0", flexible="0+"):
    """The epoch of a Streams group, and what it was computed from."""

    epoch: Int32 = field()
    metadata_hash: Int64 = field()
    validated_topology_epoch: Int32 = field(default=-1, tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = field(nullable="0+", tag=1, tagged="0+")


class LastAssignmentConfig(Struct):
    key: str = field()
    value: str = field()


class StreamsGroupMemberMetadataKey(Message, api_key=19, versions="0"):
    """Which member of which Streams group it is about."""

    group_id: str = field("0")
    member_id: str = field("0")


class StreamsGroupMemberMetadataValue(Message, api_key=19, versions="0", flexible="0+"):
    """What a member of a Streams group told about itself."""

    instance_id: str | None = field()
    rack_id: str | None = field()
    client_id: str = field()
    client_host: str = field()
    rebalance_timeout_ms: Int32 = field(default=-1)
    topology_epoch: Int32 = field()
    process_id: str = field()
    user_endpoint: Endpoint | None = field(default=None)
    client_tags: list[KeyValue] = field()


class Endpoint(Struct):
    host: str = field()
    port: Uint16 = field()


class KeyValue(Struct):
    key: str = field()
    value: str = field()


class StreamsGroupTargetAssignmentMetadataKey(Message, api_key=20, versions="0"):
    """Which Streams group it is about."""

    group_id: str = field("0")


class StreamsGroupTargetAssignmentMetadataValue(Message, api_key=20, versions="0", flexible="0+"):
    """The epoch of a Streams group's target assignment."""

    assignment_epoch: Int32 = field()
    assignment_timestamp: Int64 = field(tag=0, ignorable=True)


class StreamsGroupTargetAssignmentMemberKey(Message, api_key=21, versions="0"):
    """Which member of which Streams group it is about."""

    group_id: str = field("0")
    member_id: str = field("0")


class StreamsGroupTargetAssignmentMemberValue(Message, api_key=21, versions="0", flexible="0+"):
    """The tasks that a member should run."""

    active_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = field()
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = field()
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = field()


class StreamsGroupTargetAssignmentMemberValueTaskIds(Struct):
    subtopology_id: str = field()
    partitions: list[Int32] = field()


class StreamsGroupCurrentMemberAssignmentKey(Message, api_key=22, versions="0"):
    """Which member of which Streams group it is about."""

    group_id: str = field("0")
    member_id: str = field("0")


class StreamsGroupCurrentMemberAssignmentValue(Message, api_key=22, versions="0", flexible="0+"):
    """The tasks that a member runs or is giving up."""

    member_epoch: Int32 = field()
    previous_member_epoch: Int32 = field()
    state: Int8 = field()
    active_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field()
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field()
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field()
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field()
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field()
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field()


class StreamsGroupCurrentMemberAssignmentValueTaskIds(Struct):
    subtopology_id: str = field()
    partitions: list[Int32] = field()
    assignment_epochs: list[Int32] | None = field(tag=0)


class StreamsGroupTopologyKey(Message, api_key=23, versions="0"):
    """Which Streams group it is about."""

    group_id: str = field("0")


class StreamsGroupTopologyValue(Message, api_key=23, versions="0", flexible="0+"):
    """The topology of a Streams group: its subtopologies and their topics."""

    epoch: Int32 = field()
    subtopologies: list[Subtopology] = field()


class Subtopology(Struct):
    subtopology_id: str = field()
    source_topics: list[str] = field()
    source_topic_regex: list[str] = field()
    state_changelog_topics: list[TopicInfo] = field()
    repartition_sink_topics: list[str] = field()
    repartition_source_topics: list[TopicInfo] = field()
    copartition_groups: list[CopartitionGroup] = field()


class TopicInfo(Struct):
    name: str = field()
    partitions: Int32 = field()
    replication_factor: Int16 = field()
    topic_configs: list[TopicConfig] = field()


class TopicConfig(Struct):
    key: str = field()
    value: str = field()


class CopartitionGroup(Struct):
    source_topics: list[Int16] = field()
    source_topic_regex: list[Int16] = field()
    repartition_source_topics: list[Int16] = field()

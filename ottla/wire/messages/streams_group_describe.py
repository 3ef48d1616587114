"""StreamsGroupDescribe (key 89): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bool, Int16, Int32, Int64, Message, Struct, Uint16, field


class StreamsGroupDescribeRequest(Message, api_key=89, versions="0", flexible="0+"):
    """Ask for the state, topology and members of Streams groups."""

    group_ids: list[str] = field(entity="groupId")
    include_authorized_operations: Bool = field()


class StreamsGroupDescribeResponse(Message, api_key=89, versions="0", flexible="0+"):
    """The state, topology and members of each Streams group."""

    throttle_time_ms: Int32 = field()
    groups: list[DescribedGroup] = field()


class DescribedGroup(Struct):
    error_code: Int16 = field()
    error_message: str | None = field(default=None)
    group_id: str = field(entity="groupId")
    group_state: str = field()
    group_epoch: Int32 = field()
    assignment_epoch: Int32 = field()
    topology: Topology | None = field(default=None)
    members: list[Member] = field()
    authorized_operations: Int32 = field(default=-0x8000_0000)


class Topology(Struct):
    epoch: Int32 = field()
    subtopologies: list[Subtopology] | None = field(default=None)


class Subtopology(Struct):
    subtopology_id: str = field()
    source_topics: list[str] = field(entity="topicName")
    repartition_sink_topics: list[str] = field(entity="topicName")
    state_changelog_topics: list[TopicInfo] = field()
    repartition_source_topics: list[TopicInfo] = field()


class TopicInfo(Struct):
    name: str = field(entity="topicName")
    partitions: Int32 = field()
    replication_factor: Int16 = field()
    topic_configs: list[KeyValue] = field()


class KeyValue(Struct):
    key: str = field()
    value: str = field()


class Member(Struct):
    member_id: str = field()
    member_epoch: Int32 = field()
    instance_id: str | None = field(default=None)
    rack_id: str | None = field(default=None)
    client_id: str = field()
    client_host: str = field()
    topology_epoch: Int32 = field()
    process_id: str = field()
    user_endpoint: Endpoint | None = field(default=None)
    client_tags: list[KeyValue] = field()
    task_offsets: list[TaskOffset] = field()
    task_end_offsets: list[TaskOffset] = field()
    assignment: Assignment = field()
    target_assignment: Assignment = field()
    is_classic: Bool = field()


class Endpoint(Struct):
    host: str = field()
    port: Uint16 = field()


class TaskOffset(Struct):
    subtopology_id: str = field()
    partition: Int32 = field()
    offset: Int64 = field()


class Assignment(Struct):
    active_tasks: list[TaskIds] = field()
    standby_tasks: list[TaskIds] = field()
    warmup_tasks: list[TaskIds] = field()


class TaskIds(Struct):
    subtopology_id: str = field()
    partitions: list[Int32] = field()

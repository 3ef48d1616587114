"""StreamsGroupHeartbeat (key 88): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bool, Int8, Int16, Int32, Int64, Message, Struct, Uint16, field


class StreamsGroupHeartbeatRequest(Message, api_key=88, versions="0", flexible="0+"):
    """Join, stay in or leave a Streams group, and report its tasks (KIP-1071)."""

    group_id: str = field(entity="groupId")
    member_id: str = field()
    member_epoch: Int32 = field(doc="0 joins, -1 leaves, -2 leaves for a while as a static member.")
    endpoint_information_epoch: Int32 = field()
    instance_id: str | None = field(default=None)
    rack_id: str | None = field(default=None)
    rebalance_timeout_ms: Int32 = field(default=-1)
    topology: Topology | None = field(default=None)
    active_tasks: list[TaskIds] | None = field(default=None)
    standby_tasks: list[TaskIds] | None = field(default=None)
    warmup_tasks: list[TaskIds] | None = field(default=None)
    process_id: str | None = field(default=None)
    user_endpoint: Endpoint | None = field(default=None)
    client_tags: list[KeyValue] | None = field(default=None)
    task_offsets: list[TaskOffset] | None = field(default=None)
    task_end_offsets: list[TaskOffset] | None = field(default=None)
    shutdown_application: Bool = field()


class Topology(Struct):
    epoch: Int32 = field()
    subtopologies: list[Subtopology] = field()


class Subtopology(Struct):
    subtopology_id: str = field()
    source_topics: list[str] = field(entity="topicName")
    source_topic_regex: list[str] = field()
    state_changelog_topics: list[TopicInfo] = field()
    repartition_sink_topics: list[str] = field(entity="topicName")
    repartition_source_topics: list[TopicInfo] = field()
    copartition_groups: list[CopartitionGroup] = field()


class TopicInfo(Struct):
    name: str = field(entity="topicName")
    partitions: Int32 = field()
    replication_factor: Int16 = field()
    topic_configs: list[KeyValue] = field()


class KeyValue(Struct):
    key: str = field()
    value: str = field()


class CopartitionGroup(Struct):
    source_topics: list[Int16] = field()
    source_topic_regex: list[Int16] = field()
    repartition_source_topics: list[Int16] = field()


class TaskIds(Struct):
    subtopology_id: str = field()
    partitions: list[Int32] = field()


class Endpoint(Struct):
    host: str = field()
    port: Uint16 = field()


class TaskOffset(Struct):
    subtopology_id: str = field()
    partition: Int32 = field()
    offset: Int64 = field()


class StreamsGroupHeartbeatResponse(Message, api_key=88, versions="0", flexible="0+"):
    """The member's epoch, and its tasks when those have changed."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)
    member_id: str = field()
    member_epoch: Int32 = field()
    heartbeat_interval_ms: Int32 = field()
    acceptable_recovery_lag: Int32 = field()
    task_offset_interval_ms: Int32 = field()
    status: list[Status] | None = field()
    active_tasks: list[TaskIds] | None = field(default=None)
    standby_tasks: list[TaskIds] | None = field(default=None)
    warmup_tasks: list[TaskIds] | None = field(default=None)
    endpoint_information_epoch: Int32 = field()
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(default=None)


class Status(Struct):
    status_code: Int8 = field()
    status_detail: str = field()


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint = field()
    active_partitions: list[TopicPartition] = field()
    standby_partitions: list[TopicPartition] = field()


class TopicPartition(Struct):
    topic: str = field(entity="topicName")
    partitions: list[Int32] = field()

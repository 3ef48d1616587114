"""CreateTopics (key 19): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Bool, Int8, Int16, Int32, Message, Struct, field


class CreateTopicsRequest(Message, api_key=19, versions="2-7", flexible="5+"):
    """Create topics, with partition counts or with explicit assignments."""

    topics: list[CreatableTopic] = field()
    timeout_ms: Int32 = field(default=60000)
    validate_only: Bool = field("1+", doc="Check everything and create nothing.")


class CreatableTopic(Struct):
    name: str = field(map_key=True, entity="topicName")
    num_partitions: Int32 = field(doc="-1 for the broker's default, or where assignments are given.")
    replication_factor: Int16 = field(doc="-1 for the broker's default, or where assignments are given.")
    assignments: list[CreatableReplicaAssignment] = field()
    configs: list[CreatableTopicConfig] = field()


class CreatableReplicaAssignment(Struct):
    partition_index: Int32 = field(map_key=True)
    broker_ids: list[Int32] = field(entity="brokerId")


class CreatableTopicConfig(Struct):
    name: str = field(map_key=True)
    value: str | None = field()


class CreateTopicsResponse(Message, api_key=19, versions="2-7", flexible="5+"):
    """Whether each topic was created, and how it is configured."""

    throttle_time_ms: Int32 = field("2+", ignorable=True)
    topics: list[CreatableTopicResult] = field()


class CreatableTopicResult(Struct):
    name: str = field(map_key=True, entity="topicName")
    topic_id: Uuid = field("7+", ignorable=True)
    error_code: Int16 = field()
    error_message: str | None = field("1+", nullable="0+", ignorable=True)
    topic_config_error_code: Int16 = field(
        "5+", tag=0, ignorable=True, doc="Set where the settings are not told, because the client may not see them."
    )
    num_partitions: Int32 = field("5+", default=-1, ignorable=True)
    replication_factor: Int16 = field("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field("5+", ignorable=True)


class CreatableTopicConfigs(Struct):
    name: str = field("5+")
    value: str | None = field("5+")
    read_only: Bool = field("5+")
    config_source: Int8 = field("5+", default=-1, ignorable=True)
    is_sensitive: Bool = field("5+")

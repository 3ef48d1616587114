"""Metadata (key 3): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Bool, Int16, Int32, Message, Struct, field


class MetadataRequest(Message, api_key=3, versions="0-13", flexible="9+"):
    """Ask for the brokers of the cluster and for topics with their leaders."""

    topics: list[MetadataRequestTopic] | None = field(
        nullable="1+", doc="Null, or empty in version 0, asks for all topics."
    )
    allow_auto_topic_creation: Bool = field("4+", default=True)
    include_cluster_authorized_operations: Bool = field("8-10")
    include_topic_authorized_operations: Bool = field("8+")


class MetadataRequestTopic(Struct):
    topic_id: Uuid = field("10+", ignorable=True)
    name: str | None = field(nullable="10+", entity="topicName")


class MetadataResponse(Message, api_key=3, versions="0-13", flexible="9+"):
    """The brokers, the controller, and each topic's partitions with leader, replicas and in-sync set."""

    throttle_time_ms: Int32 = field("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = field()
    cluster_id: str | None = field("2+", default=None, ignorable=True)
    controller_id: Int32 = field("1+", default=-1, ignorable=True, entity="brokerId")
    topics: list[MetadataResponseTopic] = field()
    cluster_authorized_operations: Int32 = field(
        "8-10", default=-0x8000_0000, doc="A bit for each operation; the smallest int32 where it was not asked for."
    )
    error_code: Int16 = field("13+", ignorable=True)


class MetadataResponseBroker(Struct):
    node_id: Int32 = field(map_key=True, entity="brokerId")
    host: str = field()
    port: Int32 = field()
    rack: str | None = field("1+", default=None, ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: Int16 = field()
    name: str | None = field(nullable="12+", map_key=True, entity="topicName")
    topic_id: Uuid = field("10+", ignorable=True)
    is_internal: Bool = field("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = field()
    topic_authorized_operations: Int32 = field(
        "8+", default=-0x8000_0000, doc="A bit for each operation; the smallest int32 where it was not asked for."
    )


class MetadataResponsePartition(Struct):
    error_code: Int16 = field()
    partition_index: Int32 = field()
    leader_id: Int32 = field(entity="brokerId", doc="-1 where there is no leader.")
    leader_epoch: Int32 = field("7+", default=-1, ignorable=True)
    replica_nodes: list[Int32] = field(entity="brokerId")
    isr_nodes: list[Int32] = field(entity="brokerId")
    offline_replicas: list[Int32] = field("5+", ignorable=True, entity="brokerId")

"""DescribeCluster (key 60): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bool, Int8, Int16, Int32, Message, Struct, field


class DescribeClusterRequest(Message, api_key=60, versions="0-2", flexible="0+"):
    """Ask for the cluster id, the controller and the brokers or controllers."""

    include_cluster_authorized_operations: Bool = field()
    endpoint_type: Int8 = field("1+", default=1, doc="1 brokers, 2 controllers.")
    include_fenced_brokers: Bool = field("2+")


class DescribeClusterResponse(Message, api_key=60, versions="0-2", flexible="0+"):
    """The cluster id, the controller and the nodes."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)
    endpoint_type: Int8 = field("1+", default=1)
    cluster_id: str = field()
    controller_id: Int32 = field(default=-1, entity="brokerId")
    brokers: list[DescribeClusterBroker] = field()
    cluster_authorized_operations: Int32 = field(default=-0x8000_0000)


class DescribeClusterBroker(Struct):
    broker_id: Int32 = field(map_key=True, entity="brokerId")
    host: str = field()
    port: Int32 = field()
    rack: str | None = field(default=None)
    is_fenced: Bool = field("2+")

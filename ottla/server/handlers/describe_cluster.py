"""DescribeCluster (key 60): the cluster's id and its brokers."""

from __future__ import annotations

from ottla.errors import KafkaError
from ottla.metadata import Image
from ottla.server.context import BrokerContext
from ottla.server.endpoints import BROKERS, NO_NODE, check_endpoint_type, controller_id, nodes
from ottla.server.operations import CLUSTER_OPERATIONS, NOT_ASKED
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

API_KEY = 60


def handle(context: BrokerContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """The brokers that have this listener."""
    check_endpoint_type(request.endpoint_type, expected=BROKERS, version=context.version)
    image = context.node.image
    described = _brokers(image, context.listener_name, with_fenced=request.include_fenced_brokers)
    leader = controller_id(context, image)
    return DescribeClusterResponse(
        endpoint_type=BROKERS,
        cluster_id=context.node.cluster_id,
        controller_id=leader if any(node.broker_id == leader for node in described) else NO_NODE,
        brokers=described,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def failed(request: DescribeClusterRequest, error: KafkaError, version: int) -> DescribeClusterResponse:
    """The error and no nodes."""
    return DescribeClusterResponse(error_code=error.code, error_message=error.message)


def _brokers(image: Image, listener: str, *, with_fenced: bool) -> list[DescribeClusterBroker]:
    return [
        DescribeClusterBroker(broker.id, endpoint.host, endpoint.port, broker.rack, broker.is_fenced)
        for broker, endpoint in nodes(image, listener, with_fenced=with_fenced)
    ]

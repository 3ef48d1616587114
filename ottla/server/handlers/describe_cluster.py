"""DescribeCluster (key 60): the cluster's id and its nodes: brokers, or on a controller's listener controllers."""

from __future__ import annotations

from ottla.errors import InvalidRequest, KafkaError, MismatchedEndpointType, UnsupportedEndpointType
from ottla.metadata import Image
from ottla.server.context import RequestContext
from ottla.server.endpoints import NO_NODE, controller_id, nodes
from ottla.server.operations import CLUSTER_OPERATIONS, NOT_ASKED
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

API_KEY = 60

ENDPOINT_TYPES = {1: "BROKER", 2: "CONTROLLER"}
BROKERS, CONTROLLERS = 1, 2


def handle(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """The nodes of the kind that this listener belongs to."""
    expected = CONTROLLERS if context.connection.role == "controller" else BROKERS
    _check_endpoint_type(request.endpoint_type, expected, context.version)
    image: Image = context.broker.image
    if expected == BROKERS:
        described = _brokers(image, context.listener_name, with_fenced=request.include_fenced_brokers)
        leader = controller_id(context, image)
    else:
        described = _controllers(image, context.listener_name)
        leader = context.broker.controller.leader_id
    return DescribeClusterResponse(
        endpoint_type=expected,
        cluster_id=context.broker.cluster_id,
        controller_id=leader if any(node.broker_id == leader for node in described) else NO_NODE,
        brokers=described,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def failed(request: DescribeClusterRequest, error: KafkaError, version: int) -> DescribeClusterResponse:
    """The error and no nodes."""
    return DescribeClusterResponse(error_code=error.code, error_message=error.message)


def _check_endpoint_type(asked: int, expected: int, version: int) -> None:
    if asked not in ENDPOINT_TYPES:
        message = f"Unsupported endpoint type {asked}"
        raise UnsupportedEndpointType(message) if version else InvalidRequest(message)
    if asked != expected:
        message = (
            f"The request was sent to an endpoint of type {ENDPOINT_TYPES[expected]}, "
            f"but we wanted an endpoint of type {ENDPOINT_TYPES[asked]}"
        )
        raise MismatchedEndpointType(message) if version else InvalidRequest(message)


def _brokers(image: Image, listener: str, *, with_fenced: bool) -> list[DescribeClusterBroker]:
    return [
        DescribeClusterBroker(broker.id, endpoint.host, endpoint.port, broker.rack, broker.is_fenced)
        for broker, endpoint in nodes(image, listener, with_fenced=with_fenced)
    ]


def _controllers(image: Image, listener: str) -> list[DescribeClusterBroker]:
    found = []
    for controller in image.controllers.values():
        endpoint = controller.endpoints.get(listener)
        if endpoint is not None:
            found.append(DescribeClusterBroker(controller.id, endpoint.host, endpoint.port))
    return found

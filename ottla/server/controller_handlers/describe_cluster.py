"""DescribeCluster (key 60) at a controller: the cluster's id and its controllers (KIP-919)."""

from __future__ import annotations

from ottla.metadata import Image
from ottla.server.context import ControllerContext
from ottla.server.endpoints import CONTROLLERS, NO_NODE, check_endpoint_type
from ottla.server.handlers import describe_cluster
from ottla.server.operations import CLUSTER_OPERATIONS, NOT_ASKED
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

API_KEY = 60
failed = describe_cluster.failed


def handle(context: ControllerContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """The controllers that have this listener, and which of them is the active one."""
    check_endpoint_type(request.endpoint_type, expected=CONTROLLERS, version=context.version)
    described = _controllers(context.node.image, context.listener_name)
    leader = context.controller.raft.leader_id
    return DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=context.node.cluster_id,
        controller_id=leader if any(node.broker_id == leader for node in described) else NO_NODE,
        brokers=described,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def _controllers(image: Image, listener: str) -> list[DescribeClusterBroker]:
    found = []
    for controller in image.controllers.values():
        endpoint = controller.endpoints.get(listener)
        if endpoint is not None:
            found.append(DescribeClusterBroker(controller.id, endpoint.host, endpoint.port))
    return found

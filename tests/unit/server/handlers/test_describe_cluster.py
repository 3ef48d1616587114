"""`describe_cluster.py` of `ottla/server/handlers` and of `controller_handlers`."""

from __future__ import annotations

import pytest

from ottla.errors import InvalidRequest, MismatchedEndpointType, UnsupportedEndpointType
from ottla.metadata import ControllerImage, Endpoint
from ottla.server.controller_handlers import describe_cluster as at_controller
from ottla.server.handlers import describe_cluster
from ottla.types import Uuid
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from tests.unit.server.nodes import FakeQuorum, ask, broker_image, image_of


@pytest.mark.parametrize("version", range(3))
def test_every_version_tells_the_brokers_of_the_listener(version: int) -> None:
    image = image_of(brokers=[broker_image(1), broker_image(2, is_fenced=True), broker_image(3, OTHER=1)])
    response = ask(describe_cluster, DescribeClusterRequest(True), version, image=image)
    assert [(b.broker_id, b.host, b.port, b.rack) for b in response.brokers] == [(1, "host1", 9092, "rack1")]
    assert (response.cluster_id, response.controller_id) in {("cluster-of-the-test", 1), ("cluster-of-the-test", -1)}
    assert response.cluster_authorized_operations == 0b1_1111_1010_0000


def test_fenced_brokers_are_told_on_request() -> None:
    image = image_of(brokers=[broker_image(1), broker_image(2, is_fenced=True)])
    response = ask(describe_cluster, DescribeClusterRequest(include_fenced_brokers=True), 2, image=image)
    assert [(broker.broker_id, broker.is_fenced) for broker in response.brokers] == [(1, False), (2, True)]
    assert response.cluster_authorized_operations == -(2**31)


@pytest.mark.parametrize(
    ("role", "asked", "error"),
    [
        ("broker", 2, MismatchedEndpointType.code),
        ("broker", 9, UnsupportedEndpointType.code),
        ("controller", 1, MismatchedEndpointType.code),
    ],
)
def test_nodes_of_another_kind_are_refused(role: str, asked: int, error: int) -> None:
    handler = at_controller if role == "controller" else describe_cluster
    response = ask(handler, DescribeClusterRequest(endpoint_type=asked), 1, image=image_of(), role=role)
    assert (response.error_code, response.brokers) == (error, [])


def test_version_0_on_a_controllers_listener_is_an_invalid_request() -> None:
    response = ask(at_controller, DescribeClusterRequest(), 0, image=image_of(), role="controller")
    assert response.error_code == InvalidRequest.code


def test_controllers_are_told_on_their_own_listener() -> None:
    controller = ControllerImage(3, Uuid(16), {"CONTROLLER": Endpoint("CONTROLLER", "host3", 9093, 0)})
    response = ask(
        at_controller,
        DescribeClusterRequest(endpoint_type=2),
        2,
        image=image_of(controllers={3: controller}),
        role="controller",
        listener="CONTROLLER",
        quorum=FakeQuorum(leader_id=3),
    )
    assert [(node.broker_id, node.host, node.port) for node in response.brokers] == [(3, "host3", 9093)]
    assert (response.controller_id, response.endpoint_type) == (3, 2)

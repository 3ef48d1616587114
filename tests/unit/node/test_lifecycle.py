"""A broker's membership on a whole node: gone from the metadata, it comes back by itself."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from ottla.node import Node
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tests.unit.server.whole_node import with_node

SOON_S = 1.0


def test_a_broker_that_was_unregistered_serves_again_with_its_second_heartbeat(tmp_path: Path) -> None:
    """The first finds the registration gone and makes it anew; the second does not wait for its turn."""

    async def run(node: Node) -> float:
        replicas = node.broker.replicas
        response = await node.controller.handle(UnregisterBrokerRequest(1), version=0)
        assert isinstance(response, UnregisterBrokerResponse)
        assert response.error_code == 0
        registered_s = None
        while True:
            await asyncio.sleep(0.01)
            registration = None if replicas.image is None else replicas.image.brokers.get(1)
            if registration is not None and registered_s is None:
                registered_s = time.monotonic()
            if registration is not None and not registration.is_fenced:
                assert registered_s is not None
                return time.monotonic() - registered_s

    assert with_node(tmp_path, run) < SOON_S


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_controller_is_asked_before_a_broker_goes_unless_the_settings_say_otherwise(
    tmp_path: Path, is_enabled: bool
) -> None:
    """What the metadata log says of the broker in the end: without `controlled.shutdown.enable` it just goes."""

    async def run(node: Node) -> Node:
        assert not node.loader.image.brokers[1].is_fenced
        return node

    stopped = with_node(tmp_path, run, controlled_shutdown_enable=str(is_enabled).lower())
    assert stopped.loader.image.brokers[1].is_fenced is is_enabled

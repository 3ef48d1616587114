"""What a node tells others of where it is, when its settings do not say: as Kafka, the canonical name of its host."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.config import BrokerConfig
from ottla.node import build
from ottla.world import Network, NodeWorld
from ottla.world.system_loop import run_node

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
}


class NamedNetwork:
    """The real network of a host that has a certain name."""

    def __init__(self, network: Network, name: str | OSError) -> None:
        self._network = network
        self._name = name
        self.looked_up_count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    async def own_name(self, timeout_ms: float) -> str:
        assert timeout_ms > 0
        self.looked_up_count += 1
        if isinstance(self._name, OSError):
            raise self._name
        return self._name


Seen = tuple[dict[str, tuple[str, bool]], dict[str, tuple[str, bool]], int]


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Seen]:
    """Starts a node; returns each listener's advertised host, and whether its port is the bound one."""

    def start(listeners: str, name: str | OSError = "host.example", **more: str) -> Seen:
        given: Mapping[str, str] = {**SETTINGS, "listeners": listeners, "log.dirs": str(tmp_path), **more}

        async def main(world: NodeWorld, stop: object) -> Seen:
            network = NamedNetwork(world.network, name)
            node = build(BrokerConfig(given), NodeWorld(world.clock, world.disk, world.random, world.tasks, network))
            node.format_if_new()
            await node.start()
            try:
                while not node.loader.image.controllers:  # registered beside the start, and not waited for there
                    await world.tasks.sleep_ms(1)
                bound = {name: one.address.port for name, one in node.sockets._listeners.items()}
                broker, controller = (
                    {name: (one.host, one.port == bound[name]) for name, one in image.endpoints.items()}
                    for image in (node.loader.image.brokers[1], node.loader.image.controllers[1])
                )
                assert node.bootstrap_address.host == next(iter(broker.values()))[0]
                return broker, controller, network.looked_up_count
            finally:
                await node.stop()

        return run_node(main)

    return start


def test_a_listener_on_every_interface_is_advertised_by_the_hosts_canonical_name(start: Callable[..., Seen]) -> None:
    """A controller's by the address that the voters know it by, where it is one of them."""
    broker, controller, looked_up_count = start("PLAINTEXT://:0,CONTROLLER://:0")
    assert broker == {"PLAINTEXT": ("host.example", True)}
    assert controller == {"CONTROLLER": ("127.0.0.1", False)}
    assert looked_up_count == 1


def test_an_advertised_listener_without_a_host_has_the_name_too(start: Callable[..., Seen]) -> None:
    advertised = {"advertised.listeners": "PLAINTEXT://:0,CONTROLLER://:0"}
    broker, controller, looked_up_count = start("PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0", **advertised)
    assert broker == {"PLAINTEXT": ("host.example", True)}
    assert controller == {"CONTROLLER": ("host.example", True)}
    assert looked_up_count == 1


def test_hosts_that_are_given_are_not_looked_up(start: Callable[..., Seen]) -> None:
    broker, controller, looked_up_count = start(
        "PLAINTEXT://localhost:0,CONTROLLER://127.0.0.1:0", OSError("never asked")
    )
    assert broker == {"PLAINTEXT": ("localhost", True)}
    assert controller == {"CONTROLLER": ("127.0.0.1", True)}
    assert looked_up_count == 0


def test_only_what_is_advertised_is_registered(start: Callable[..., Seen]) -> None:
    more = {
        "advertised.listeners": "PLAINTEXT://outside.example:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,HIDDEN:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    broker, _, _ = start("HIDDEN://127.0.0.1:0,PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0", **more)
    assert broker == {"PLAINTEXT": ("outside.example", True)}


def test_a_host_that_does_not_know_its_name_starts_with_a_warning(
    start: Callable[..., Seen], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        broker, _, _ = start("PLAINTEXT://:0,CONTROLLER://:0", OSError(-2, "Name or service not known"))
    assert broker == {"PLAINTEXT": ("localhost", True)}
    (line,) = [record.getMessage() for record in caplog.records]
    assert "Name or service not known" in line
    assert "localhost" in line
    assert "advertised.listeners" in line, "what to do"

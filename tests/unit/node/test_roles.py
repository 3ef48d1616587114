"""`ottla/node/node.py`, `shared.py` and the roles: what a node of each kind has, and in which order it starts."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ottla.config import BrokerConfig
from ottla.errors import NotController
from ottla.node import CannotStart, Node, build
from ottla.raft import RaftNode
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.world import NodeWorld
from ottla.world.system_loop import run_node
from tests.unit.server.nodes import Client

T = TypeVar("T")

OF_LOGS = ("-checkpoint", ".kafka_cleanshutdown")
"""Files that only who opens logs writes."""


def config_of(directory: Path, roles: str, **more: str) -> BrokerConfig:
    listeners = {
        "broker": "PLAINTEXT://127.0.0.1:0",
        "controller": "CONTROLLER://127.0.0.1:0",
        "broker,controller": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    }
    voter = 1 if "controller" in roles else 2
    return BrokerConfig(
        {
            "process.roles": roles,
            "node.id": "1",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{voter}@127.0.0.1:9093",
            "listeners": listeners[roles],
            "log.dirs": str(directory),
            **more,
        }
    )


def with_node(config: BrokerConfig, test: Callable[[Node], Awaitable[T]]) -> T:
    async def main(world: NodeWorld, stop: object) -> T:
        node = build(config, world)
        node.format_if_new()
        await node.start()
        try:
            return await test(node)
        finally:
            await node.stop()

    return run_node(main)


def controller_port(node: Node) -> int:
    return node.sockets._listeners["CONTROLLER"].address.port


def test_a_controller_alone_decides_and_has_no_logs_of_its_own(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        assert node.broker_role is None
        assert node.bootstrap_address.port == controller_port(node)
        client = await Client(controller_port(node)).connect()
        while not node.loader.image.controllers:  # registered beside the start
            await node.world.tasks.sleep_ms(1)
        described = await client.ask(DescribeClusterRequest(endpoint_type=2), 2)
        assert [(one.broker_id, one.port) for one in described.brokers] == [(1, controller_port(node))]
        assert described.controller_id == 1
        created = await client.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1000), 7)
        assert created.topics[0].error_code == 38, "no broker has room for a replica"
        client.close()

    with_node(config_of(tmp_path, "controller"), test)
    assert "__cluster_metadata-0" in os.listdir(tmp_path)
    assert [name for name in os.listdir(tmp_path) if name.endswith(OF_LOGS)] == []


@pytest.mark.parametrize("roles", ["controller", "broker,controller"])
def test_a_metadata_directory_is_used_by_one_process_at_a_time(tmp_path: Path, roles: str) -> None:
    config = config_of(tmp_path / "logs", roles, **{"metadata.log.dir": str(tmp_path / "metadata")})

    async def test(node: Node) -> None:
        second = build(config, node.world)
        with pytest.raises(CannotStart, match="Another process is using this directory"):
            await second.start()

    with_node(config, test)
    with_node(config, lambda node: node.world.tasks.sleep_ms(0))


def test_a_controllers_listener_answers_before_the_quorum_has_a_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    start = RaftNode.start

    async def start_late(raft: RaftNode) -> None:
        client = await Client(controller_port(made[0])).connect()
        seen.append((await client.ask(ApiVersionsRequest("test", "1"), 4)).error_code)
        answer = await client.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1000), 7)
        seen.append([topic.error_code for topic in answer.topics])
        seen.append(list(made[0].sockets._listeners))
        client.close()
        await start(raft)

    made: list[Node] = []
    monkeypatch.setattr(RaftNode, "start", start_late)

    async def main(world: NodeWorld, stop: object) -> None:
        made.append(build(config_of(tmp_path, "broker,controller"), world))
        made[0].format_if_new()
        await made[0].start()
        await made[0].stop()

    run_node(main)
    assert seen == [0, [NotController.code], ["CONTROLLER"]]


def test_a_broker_with_a_port_of_its_own_takes_no_connections_before_its_logs_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that finds the port closed asks another broker; one that was let in would wait for the recovery."""
    from ottla.replica import ReplicaManager

    open_before: list[list[str]] = []
    on_metadata = ReplicaManager.on_metadata

    def noting(replicas: ReplicaManager, *told: Any) -> None:
        if replicas.image is None:
            open_before.append(list(made[0].sockets._listeners))
        on_metadata(replicas, *told)

    monkeypatch.setattr(ReplicaManager, "on_metadata", noting)
    made: list[Node] = []

    async def main(world: NodeWorld, stop: object) -> None:
        listeners = "PLAINTEXT://127.0.0.1:29871,SECOND://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
        protocols = "PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT,CONTROLLER:PLAINTEXT"
        more = {"listeners": listeners, "listener.security.protocol.map": protocols}
        made.append(build(config_of(tmp_path, "broker,controller", **more), world))
        made[0].format_if_new()
        await made[0].start()
        assert sorted(made[0].sockets._listeners) == ["CONTROLLER", "PLAINTEXT", "SECOND"]
        assert sorted(made[0].loader.image.brokers[1].endpoints) == ["PLAINTEXT", "SECOND"]
        await made[0].stop()

    run_node(main)
    assert open_before == [["CONTROLLER", "SECOND"]]

"""Three simulated nodes on virtual time, whose insides a test may look at."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from random import Random
from typing import Self, TypeVar

from ottla.node import Node
from ottla.sim.cluster import SimulatedCluster, layout
from ottla.sim.logs import LogCapture
from ottla.sim.loop import VirtualLoop
from ottla.sim.network import VirtualNetwork
from ottla.sim.node import SimulatedNode
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

T = TypeVar("T")

COMMON = {"default.replication.factor": "3", "min.insync.replicas": "2"}


class Trio:
    """Nodes 1, 2 and 3, each a broker and a controller."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, racks: Mapping[int, str] | None = None) -> None:
        """`settings` are for all; `racks` says where each node is."""
        self.loop = VirtualLoop()
        network = VirtualNetwork(self.loop, Random("network"))
        made = layout(3, settings={**COMMON, **(settings or {})})
        for node_id, rack in (racks or {}).items():
            made[f"node{node_id}"]["broker.rack"] = rack
        self.nodes = SimulatedCluster(network, made, LogCapture(lambda _: None, print), lambda _: None, "trio")
        self.loop.run_until_complete(self.nodes.start())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.nodes.kill()
        self.loop.close()

    def node(self, node_id: int) -> Node:
        found = self.nodes[f"node{node_id}"].node
        assert found is not None
        return found

    @property
    def running(self) -> list[SimulatedNode]:
        return [one for one in self.nodes if one.is_running]

    @property
    def controller(self) -> Node:
        (found,) = (one.node for one in self.running if one.node is not None and one.node.raft.is_leader)
        return found

    def pass_seconds(self, seconds: float) -> None:
        end_us = self.loop.now_us + round(seconds * 1_000_000)
        self.loop.call_at_us(end_us, lambda: None)
        self.loop.run_until(lambda: self.loop.now_us >= end_us)

    def run(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await work

        return self.loop.run_until_complete(wait())

    def create(self, name: str, assignments: list[list[int]]) -> None:
        """A topic whose partitions have these replicas."""
        topic = CreatableTopic(
            name, -1, -1, [CreatableReplicaAssignment(index, ids) for index, ids in enumerate(assignments)]
        )
        response = self.run(self.controller.controller.handle(CreateTopicsRequest([topic], 30_000), version=7))
        assert isinstance(response, CreateTopicsResponse)
        assert response.topics[0].error_code == 0, response.topics[0].error_message
        self.pass_seconds(1)

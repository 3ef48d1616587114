"""A simulated cluster for tests that watch it from inside: its nodes, their raft and their metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import ottla.server.envelope  # noqa: F401  or it is imported in the middle of a simulated call
from ottla.sim.cluster import SimulatedCluster, layout
from ottla.sim.logs import LogCapture
from ottla.sim.loop import VirtualLoop
from ottla.sim.network import VirtualNetwork
from ottla.sim.node import SimulatedNode


class Cluster:
    """Simulated nodes and the loop that they run on."""

    def __init__(
        self,
        seed: int,
        node_count: int,
        *,
        controller_count: int = 0,
        overrides: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """`overrides` are settings of single nodes, by name."""
        self.loop = VirtualLoop()
        self.errors: list[str] = []
        self.logs = LogCapture(lambda _: None, self.errors.append)
        self.network = network = VirtualNetwork(self.loop, Random(f"{seed} network"))
        settings = layout(node_count, controller_count=controller_count)
        if not node_count:
            settings = {name: own for name, own in settings.items() if own["process.roles"] == "controller"}
        for name, own in (overrides or {}).items():
            settings[name] = {**settings[name], **own}
        self.cluster = SimulatedCluster(network, settings, self.logs, lambda _: None, str(seed))

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.kill()
        self.loop.close()

    def start(self, *names: str) -> None:
        self.loop.run_until_complete(self.cluster.start(*names))

    def wait(self, is_done: Callable[[], bool], seconds: float = 30) -> None:
        end_us = self.loop.now_us + round(seconds * 1_000_000)
        self.loop.call_at_us(end_us, lambda: None)
        self.loop.run_until(lambda: is_done() or self.loop.now_us >= end_us)
        assert is_done()

    @property
    def leaders(self) -> list[SimulatedNode]:
        return [node for node in self.cluster if node.is_running and node.node is not None and node.node.raft.is_leader]

    def settled(self) -> SimulatedNode:
        """The one leader, whom all that run follow."""

        def is_settled() -> bool:
            running = [one.node for one in self.cluster if one.is_running and one.node is not None]
            return len(self.leaders) == 1 and len({node.raft.leader_id for node in running}) == 1

        self.wait(is_settled)
        return self.leaders[0]

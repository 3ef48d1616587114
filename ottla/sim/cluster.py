"""`SimulatedCluster`: nodes by name, each on a host of its own, with what is done to several of them at once.

Nodes have any roles that their settings give them. `layout` makes settings for the usual clusters: every node with both
roles, or brokers and controllers apart. Operations on several nodes take them in the order they are named in, begin
all of them at once, and return when the last is done.

Promises: a node's course depends on the seed and its own name, so a node more in the cluster leaves the others' disks
and draws as they were. A node that dies meanwhile fails nobody else's operation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from ottla.sim.logs import LogCapture
from ottla.sim.loop import VirtualLoop
from ottla.sim.network import VirtualNetwork
from ottla.sim.node import NodeDied, SimulatedNode
from ottla.types import Uuid

PORT = 9092
CONTROLLER_PORT = 9093
CONTROLLER_ID_FIRST = 101
"""Ids of nodes that are controllers only: far from those of brokers, so that a trace is easy to read."""


def layout(
    node_count: int, *, controller_count: int = 0, settings: Mapping[str, str] | None = None, name: str = "node"
) -> dict[str, dict[str, str]]:
    """Settings by name for a cluster: `node_count` brokers, which are its controllers too unless there are others."""
    names = {f"{name}{number}": number for number in range(1, node_count + 1)} if node_count > 1 else {name: 1}
    controllers = {f"controller{number}": CONTROLLER_ID_FIRST + number for number in range(controller_count)}
    voters = ",".join(f"{node_id}@{host}:{CONTROLLER_PORT}" for host, node_id in (controllers or names).items())
    common = {
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": "/data/a",
        **(settings or {}),
    }
    own, control = f"PLAINTEXT://:{PORT}", f"CONTROLLER://:{CONTROLLER_PORT}"
    found = {}
    for host, node_id in names.items():
        roles = {"process.roles": "broker", "listeners": own}
        if not controllers:
            roles = {"process.roles": "broker,controller", "listeners": f"{own},{control}"}
        found[host] = {**common, **roles, "node.id": str(node_id), "advertised.listeners": f"PLAINTEXT://{host}:{PORT}"}
    for host, node_id in controllers.items():
        found[host] = {**common, "process.roles": "controller", "listeners": control, "node.id": str(node_id)}
    return found


class SimulatedCluster:
    """The nodes, by name. A single one is a cluster too."""

    def __init__(
        self,
        network: VirtualNetwork,
        settings: Mapping[str, Mapping[str, str]],
        logs: LogCapture,
        trace: Callable[[str], None],
        seed: str,
    ) -> None:
        self._network = network
        self._loop: VirtualLoop = network.loop
        self._trace = trace
        is_alone = len(settings) == 1
        cluster_id = None if is_alone else str(Uuid(Random(f"{seed} cluster").randbytes(16)))
        self.nodes = {
            name: SimulatedNode(
                network, name, own, logs, trace, seed if is_alone else f"{seed} {name}", cluster_id=cluster_id
            )
            for name, own in settings.items()
        }

    def __getitem__(self, name: str) -> SimulatedNode:
        return self.nodes[name]

    def __iter__(self) -> Iterator[SimulatedNode]:
        return iter(self.nodes.values())

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def brokers(self) -> list[str]:
        """The names of the nodes that serve clients."""
        return [one.name for one in self if "broker" in one.settings["process.roles"]]

    @property
    def voters(self) -> list[str]:
        """The names of the nodes that are controllers."""
        return [one.name for one in self if "controller" in one.settings["process.roles"]]

    @property
    def running(self) -> list[str]:
        return [one.name for one in self if one.is_running]

    @property
    def life_count(self) -> int:
        """How many lives all nodes have had together."""
        return sum(one.life_count for one in self)

    def minority(self, chance: Random) -> list[str]:
        """Some nodes, at least one, without which a majority of voters and of brokers is left."""
        most = max(1, min((len(self.voters) - 1) // 2, (len(self.brokers) - 1) // 2))
        return chance.sample(list(self.nodes), chance.randint(1, most))

    def is_majority(self, names: Sequence[str]) -> bool:
        """Whether these nodes can go on by themselves: more than half of the voters."""
        return 2 * sum(name in names for name in self.voters) > len(self.voters)

    # What is done to several nodes. Without names it is done to all whom it concerns.

    async def start(self, *names: str) -> list[str]:
        """Start nodes at once, as those of a quorum wait for each other; the names of those that serve."""
        chosen = names or [one.name for one in self if not one.is_running]
        return await self._together({name: self.nodes[name].start() for name in chosen})

    async def stop(self, *names: str) -> list[str]:
        """End nodes by SIGTERM, at once; the names of those that came to an orderly end."""
        chosen = names or self.running
        return await self._together({name: self.nodes[name].stop() for name in chosen})

    def kill(self, *names: str, is_power_loss: bool = False) -> None:
        """End nodes at the same instant, by kill -9 or for want of power."""
        for name in names or self.running:
            self.nodes[name].kill(is_power_loss=is_power_loss)

    def pause(self, *names: str) -> None:
        for name in names or self.running:
            self.nodes[name].pause()

    def resume(self, *names: str) -> None:
        for name in names or list(self.nodes):
            self.nodes[name].resume()

    def mend_disks(self) -> None:
        for node in self:
            node.mend_disk()

    async def _together(self, works: Mapping[str, Coroutine[Any, Any, None]]) -> list[str]:
        tasks = {name: self._loop.create_task(work, name=name) for name, work in works.items()}
        try:
            results = await asyncio.gather(*tasks.values(), return_exceptions=True)
        except asyncio.CancelledError:
            for task in tasks.values():
                task.cancel()
            raise
        outcomes = dict(zip(tasks, results, strict=True))
        for error in outcomes.values():
            if isinstance(error, BaseException) and not isinstance(error, NodeDied):
                raise error
        return [name for name, error in outcomes.items() if error is None]

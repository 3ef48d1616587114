"""What goes wrong with a cluster: every fault of a scenario, when it strikes and how it passes.

Several go on at a time. Each takes itself away after a while (what was killed is started again, what was cut is healed)
and `end` takes away what is left. A node is in one trouble at a time; links may be in many.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Coroutine
from contextvars import Context
from random import Random
from typing import Any, Protocol

from ottla.sim.cluster import SimulatedCluster
from ottla.sim.faults import CHANGES
from ottla.sim.many.scenario import SESSION_MS, ClusterScenario
from ottla.sim.network import VirtualNetwork
from ottla.sim.node import NodeDied, SimulatedNode
from ottla.sim.waiting import sleep_ms, until

DOWN_MS = (1, 200, 3_000, 8_000)
"""How long a node is gone."""
LINK_MS = (50, 12_000)
WRONG_CLOCK_MS = 600_000
"""Never far from the truth: timestamps an hour ahead of the broker's clock would be refused."""
DRIFT_PPM = 20_000
END_MS_MAX = 120_000
"""How long nodes may take to come out of their troubles once the network is whole."""
STARTS_MAX = 10


class Watch(Protocol):
    """What the observers of a run know."""

    def is_in_sync(self) -> bool:
        """Whether all nodes run and every replica was in sync when they last looked."""

    def forget(self) -> None:
        """Let only what is seen from now on count."""

    def controller(self) -> str | None:
        """The node that leads the quorum, if that is known."""


class Troubles:
    """All that is wrong with the cluster of a run."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        network: VirtualNetwork,
        scenario: ClusterScenario,
        trace: Callable[[str], None],
        watch: Watch,
    ) -> None:
        self._cluster = cluster
        self._network = network
        self._loop = network.loop
        self._scenario = scenario
        self._trace = trace
        self._watch = watch
        self._busy: set[str] = set()
        """Nodes that are in some trouble, and are brought out of it by whoever brought them in."""
        self.excused: set[str] = set()
        """Nodes whose disk was made to fail in this life: they may complain."""
        self.failure: BaseException | None = None
        self.counts: dict[str, int] = {}

    def strike(self, chance: Random) -> None:
        """Let one of the scenario's faults begin."""
        if self.failure is not None:
            raise self.failure
        if not self._scenario.faults:
            return
        fault = chance.choice(self._scenario.faults)
        self.counts[f"fault: {fault}"] = self.counts.get(f"fault: {fault}", 0) + 1
        self._trace(f"fault: {fault}")
        self._begin(fault, chance)

    def _begin(self, fault: str, chance: Random) -> None:
        links, nodes = self._network.links, self._cluster.nodes
        free = [node for node in self._cluster if node.is_running and node.name not in self._busy]
        one, other = chance.choice(list(nodes)), chance.choice(list(self._network.hosts))
        match fault:
            case "reset":
                connections = self._network.open_connections()
                if connections:
                    self._network.reset(chance.choice(connections))
            case "cut" if one != other:
                self._pass_later(links.cut([one], [other]), chance)
            case "one way" if one != other:
                source, target = (one, other) if chance.random() < 0.5 else (other, one)
                self._pass_later(links.cut([source], [target], is_one_way=True), chance)
            case "mute":
                self._pass_later(links.mute(one), chance)
            case "deafen":
                self._pass_later(links.deafen(one), chance)
            case "partition" if len(nodes) > 1:
                side = self._cluster.minority(chance)
                self._pass_later(links.partition(side, [name for name in nodes if name not in side]), chance)
            case "isolate controller":
                controller = self._watch.controller() or chance.choice(self._cluster.voters)
                self._pass_later(links.isolate(controller), chance)
            case "flap" if one != other:
                flapping = links.flap(one, other, up_ms=chance.choice((50, 500)), down_ms=chance.choice((100, 1_000)))
                self._pass_later(flapping, chance)
            case "slow link" if one != other:
                delay_us = (0, chance.choice((20_000, 300_000, 2_000_000)))
                is_one_way = chance.random() < 0.5
                self._pass_later(links.slow(one, other, delay_us=delay_us, is_one_way=is_one_way), chance)
            case "clock":
                nodes[one].clock.jump_ms(chance.randrange(-WRONG_CLOCK_MS, WRONG_CLOCK_MS) // 4)
            case "drift":
                nodes[one].clock.set_drift_ppm(chance.randrange(-DRIFT_PPM, DRIFT_PPM))
            case "slow disk":
                nodes[one].slow_disk({"sync": (0, chance.choice((5_000, 300_000))), "write": (0, 2_000)})
                self._later(chance.uniform(*LINK_MS), lambda: self._quicken(nodes[one]))
            case _ if free:
                self._break_nodes(fault, free, chance)

    def _break_nodes(self, fault: str, free: list[SimulatedNode], chance: Random) -> None:
        node = chance.choice(free)
        down_ms = chance.choice(DOWN_MS)
        match fault:
            case "kill":
                self._kill([node], down_ms)
            case "kill minority":
                names = self._cluster.minority(chance)
                self._kill([one for one in free if one.name in names], down_ms)
            case "kill all":
                self._kill(free, down_ms)
            case "power" if self._scenario.is_synced or self._watch.is_in_sync():
                self._watch.forget()
                self._kill([node], down_ms, is_power_loss=True)
            case "stop":
                self._spawn([node], self._stop(node, down_ms))
            case "pause":
                self._spawn([node], self._pause(node, chance.uniform(10, SESSION_MS)))
            case "long pause":
                self._spawn([node], self._pause(node, chance.uniform(SESSION_MS, 4 * SESSION_MS)))
            case "crash":
                node.dies_of_power_loss = self._scenario.is_synced and chance.random() < 0.5
                node.disk.crash_at(chance.choice((1, 5, 30, 200)), kinds=CHANGES, moment="during")
                self._spawn([node], self._await_death(node, down_ms))
            case "disk":
                self.excused.add(node.name)
                node.disk.fail_at(chance.choice((1, 3, 20)), errno.EIO, kinds=CHANGES, moment="during")
                self._spawn([node], self._await_death(node, down_ms))

    # Nodes that come back.

    def kill_all(self, chance: Random) -> None:
        """End every node at one instant; each returns in its own time, so in any order."""
        self._trace("all nodes are killed")
        self._cluster.kill()
        for node in self._cluster:
            self._spawn([node], self._return(node, chance.uniform(0, DOWN_MS[-1])))

    def _kill(self, nodes: list[SimulatedNode], down_ms: float, *, is_power_loss: bool = False) -> None:
        for node in nodes:
            node.kill(is_power_loss=is_power_loss)
            self._spawn([node], self._return(node, down_ms))

    async def _stop(self, node: SimulatedNode, down_ms: float) -> None:
        try:
            await node.stop()
        except NodeDied:
            self._trace(f"{node.name} died while it stopped")
        await self._return(node, down_ms)

    async def _pause(self, node: SimulatedNode, pause_ms: float) -> None:
        node.pause()
        await sleep_ms(self._loop, pause_ms)
        node.resume()

    async def _await_death(self, node: SimulatedNode, down_ms: float) -> None:
        """Let a fault of the disk do its work, and end what it has left."""
        await sleep_ms(self._loop, 3_000)
        node.kill(is_power_loss=False)
        await self._return(node, down_ms)

    async def _return(self, node: SimulatedNode, down_ms: float) -> None:
        await sleep_ms(self._loop, down_ms)
        node.mend_disk()
        for _ in range(STARTS_MAX):
            if node.is_running:
                break
            try:
                self.excused.discard(node.name)
                await node.start()
            except NodeDied:
                await sleep_ms(self._loop, down_ms)

    # What passes.

    def _spawn(self, nodes: list[SimulatedNode], work: Coroutine[Any, Any, None]) -> None:
        """Go on with a trouble of nodes, which are in no other meanwhile."""
        names = {node.name for node in nodes}
        self._busy |= names

        async def run() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001 - told to the course of the run
                self.failure = self.failure or error
            finally:
                self._busy -= names

        self._loop.create_task(run(), context=Context())

    def _pass_later(self, name: str, chance: Random) -> None:
        self._later(chance.uniform(*LINK_MS), lambda: self._heal(name))

    def _heal(self, name: str) -> None:
        if name in self._network.links.names:
            self._network.heal(name)

    def _quicken(self, node: SimulatedNode) -> None:
        if node.name not in self._busy:
            node.mend_disk()

    def _later(self, delay_ms: float, call: Callable[[], None]) -> None:
        self._loop.call_later(delay_ms / 1000, call, context=Context())

    async def end(self) -> None:
        """Take everything away; returns when every trouble of a node has come to its end."""
        self._network.heal()
        self._cluster.resume()
        for node in self._cluster:
            node.clock.set_drift_ppm(0)
        await until(self._loop, lambda: sorted(self._busy), END_MS_MAX, "nodes do not come out of their troubles")
        self._cluster.mend_disks()
        if self.failure is not None:
            raise self.failure

"""What goes wrong with a cluster: every fault of a scenario, when it strikes and how it passes.

Several go on at a time. Each takes itself away after a while (what was killed is started again, what was cut is healed)
and `end` takes away what is left. A node is in one trouble at a time; links may be in many.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Coroutine
from contextvars import Context
from random import Random
from typing import Any, Protocol, TypeVar

from ottla.sim.cluster import SimulatedCluster
from ottla.sim.faults import CHANGES
from ottla.sim.many.scenario import SESSION_MS, ClusterScenario
from ottla.sim.network import VirtualNetwork
from ottla.sim.node import NodeDied, SimulatedNode
from ottla.sim.waiting import sleep_ms, until

T = TypeVar("T")

DOWN_MS = (1, 200, 3_000, 8_000)
"""How long a node is gone."""
LINK_MS = (50, 12_000)
WRONG_CLOCK_MS = 600_000
"""Never far from the truth: timestamps an hour ahead of the broker's clock would be refused."""
DRIFT_PPM = 20_000
END_MS_MAX = 120_000
"""How long nodes may take to come out of their troubles once the network is whole."""
STARTS_MAX = 10
BOUNCE_MS_MAX = 9_000
"""How long each step of a bounce is waited for: a session, and what may come on top of it."""
UNCLEAN = ("kill", "kill minority", "kill all", "crash", "disk")
"""What ends nodes without a word to the controller, though not by taking their power."""
LOOK_MS = 10
ASKED_US = 50_000


class Watch(Protocol):
    """What the observers of a run know."""

    def is_in_sync(self) -> bool:
        """Whether all nodes run and every replica was in sync when they last looked."""

    def forget(self) -> None:
        """Let only what is seen from now on count."""

    def is_alone_in_sync(self, name: str) -> bool:
        """Whether the node is the only one in the ISR of some partition, as the newest metadata says."""

    def registration(self, name: str) -> tuple[int, bool] | None:
        """The broker's epoch and whether it is fenced, as the newest metadata says; None where nobody can tell."""

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
        self._powerless: str | None = None
        """Who has lost power last, and perhaps bytes with it."""
        self._powerless_as: tuple[int, bool] | None = None
        """How it was registered then."""
        self._is_ending = False

    def strike(self, chance: Random) -> None:
        """Let one of the scenario's faults begin."""
        if self.failure is not None:
            raise self.failure
        if not self._scenario.faults:
            return
        fault = chance.choice(self._scenario.faults)
        self._trace(f"fault: {fault}")
        has_begun = self._begin(fault, chance)
        self._count(f"fault: {fault}" if has_begun else "faults that found nothing to strike")

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def _begin(self, fault: str, chance: Random) -> bool:
        """Whether there was something to strike."""
        links, nodes = self._network.links, self._cluster.nodes
        free = [node for node in self._cluster if node.is_running and node.name not in self._busy]
        one, other = chance.choice(list(nodes)), chance.choice(list(self._network.hosts))
        match fault:
            case "reset":
                connections = self._network.open_connections()
                if not connections:
                    return False
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
            case "stall" if one != other:
                self._pass_later(links.stall(one, other, path=chance.randrange(2)), chance)
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
            case _:
                return bool(free) and self._break_nodes(fault, free, chance)
        return True

    def _break_nodes(self, fault: str, free: list[SimulatedNode], chance: Random) -> bool:
        node = chance.choice(free)
        down_ms = chance.choice(DOWN_MS)
        if fault in UNCLEAN and not self._may_end_uncleanly():
            return False
        match fault:
            case "kill":
                self._kill([node], down_ms)
            case "kill minority":
                names = self._cluster.minority(chance)
                chosen = [one for one in free if one.name in names]
                self._kill(chosen, down_ms)
                return bool(chosen)
            case "kill all":
                self._kill(free, down_ms)
            case "power" if self._scenario.is_synced or self._watch.is_in_sync():
                self._take_power(node)
                self._spawn([node], self._return(node, down_ms))
            case "bounce" if self._scenario.is_synced or self._watch.is_in_sync():
                brokers = [one for one in free if one.name in self._cluster.brokers]
                candidates = [one for one in brokers if one.name != self._watch.controller()]
                if not candidates:
                    return False
                node = chance.choice(candidates)
                self._spawn([node], self._bounce(node, chance))
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
            case _:
                return False
        return True

    # A node that loses power just as it is about to rejoin the ISRs (KIP-903).

    async def _bounce(self, node: SimulatedNode, chance: Random) -> None:
        """Let a node lose power, return, and lose power again while leaders' requests to take it back into ISRs are on
        their way; then end such a leader when it has its answer, before the node has fetched again what it lost.

        Each of these is a fault of its own kind, and nothing here is more than the rule allows. What is drawn by chance
        alone comes about too rarely: a request must be under way for longer than a broker's session.
        """
        links, controller = self._network.links, self._watch.controller()
        others = [one for one in self._cluster.brokers if one not in (node.name, controller)]
        names = []
        asked: dict[tuple[str, str, int], int] = {}
        self._take_power(node)
        if controller is not None:
            names = [links.stall(one, controller, path=chance.randrange(2)) for one in others]
        returning = self._loop.create_task(self._return(node, chance.choice(DOWN_MS[:2])), context=Context())
        leaders = await self._until(lambda: self._leaders_asking_for(node, asked), BOUNCE_MS_MAX)
        if leaders and self._may_lose_power_again(node):
            self._count("bounced while it was to rejoin an ISR")
            names += [links.cut([node.name], [leader.name]) for leader in leaders]
            self._take_power(node)
            await returning  # where it still starts, it begins once more
            await self._return(node, chance.choice(DOWN_MS[:2]))
            for name in names[: len(others)]:
                self._heal(name)
            await self._until(lambda: not self._leaders_asking_for(node, asked), BOUNCE_MS_MAX)
            for leader in leaders:
                is_free = leader.is_running and leader.name not in self._busy
                if is_free and not self._is_ending and self._may_end_uncleanly():
                    self._kill([leader], chance.choice(DOWN_MS))
        for name in names:
            self._heal(name)
        await returning

    def _leaders_asking_for(self, node: SimulatedNode, asked: dict[tuple[str, str, int], int]) -> list[SimulatedNode]:
        """The nodes whose request to take this one into an ISR has got no answer for a while. `asked` keeps since when
        each waits: leader, partition, and the epoch that the leader knows."""
        node_id = int(node.settings["node.id"])
        asking = {
            (other.name, f"{partition.topic}-{partition.index}", pending.partition_epoch): other
            for other in self._cluster
            if other.name in self._cluster.brokers and other.name not in self._busy and other.node is not None
            for partition in other.node.replicas.partitions()
            if (pending := partition.leadership.pending) is not None and pending.joining == node_id
        }
        for key in [key for key in asked if key not in asking]:
            del asked[key]
        for key in asking:
            asked.setdefault(key, self._loop.now_us)
        found = {other.name: other for key, other in asking.items() if self._loop.now_us - asked[key] >= ASKED_US}
        return list(found.values())

    def _may_lose_power_again(self, node: SimulatedNode) -> bool:
        if self._is_ending or not node.is_running:
            return False
        return self._scenario.is_synced or (
            self._powerless == node.name and not self._watch.is_alone_in_sync(node.name)
        )

    async def _until(self, look: Callable[[], T], limit_ms: int) -> T:
        """What is seen there, as soon as it is something, or when the time is over, or the run's troubles are."""
        deadline_us = self._loop.now_us + limit_ms * 1000
        while not (found := look()) and self._loop.now_us < deadline_us and not self._is_ending:
            await sleep_ms(self._loop, LOOK_MS)
        return found

    # Nodes that come back.

    def _take_power(self, node: SimulatedNode) -> None:
        self._watch.forget()
        self._powerless = node.name
        self._powerless_as = self._watch.registration(node.name)
        node.kill(is_power_loss=True)

    def _may_end_uncleanly(self) -> bool:
        """Whether the controller knows of the last loss of power. Until then the node counts as in sync, and of several
        brokers that did not stop in order the one that registers last is elected (KIP-966)."""
        powerless = self._powerless
        if self._scenario.is_synced or powerless is None or powerless not in self._cluster.brokers:
            return True
        registration = self._watch.registration(powerless)
        return registration is not None and registration != self._powerless_as

    def kill_all(self, chance: Random) -> None:
        """End every node at one instant; each returns in its own time, so in any order."""
        self._trace("all nodes are killed")
        self._cluster.kill()
        for node in self._cluster:
            self._spawn([node], self._return(node, chance.uniform(0, DOWN_MS[-1])))

    def _kill(self, nodes: list[SimulatedNode], down_ms: float) -> None:
        for node in nodes:
            node.kill(is_power_loss=False)
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
        self._is_ending = True
        self._network.heal()
        self._cluster.resume()
        for node in self._cluster:
            node.clock.set_drift_ppm(0)
        await until(self._loop, lambda: sorted(self._busy), END_MS_MAX, "nodes do not come out of their troubles")
        self._is_ending = False
        self._cluster.mend_disks()
        if self.failure is not None:
            raise self.failure

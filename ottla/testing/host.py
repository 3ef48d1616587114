"""One life of a node under test: the node, its link to the clients, its clock, and how it is told to go wrong.

A `Host` lives on one event loop and is only touched there: on a thread of the test's process (`thread`), or in a
process of its own (`child`). Both ends of a life are here: `stop` in order, and `die` as by kill -9, after which the
disk holds what the system had been given and nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from ottla.config import BrokerConfig
from ottla.node import Node, build
from ottla.testing.link import Link, LinkedNetwork, PeerLink
from ottla.testing.moving import MovingClock, MovingTasks
from ottla.testing.open_files import CountingDisk
from ottla.world import ClientWorld, NodeWorld

CLIENTS: Literal["clients"] = "clients"
Target: TypeAlias = int | Literal["clients"]
"""Who is at the other end of a node's link: another node, by its number, or all clients."""

MOVE_MS_MAX = 1_000_000_000
"""How far time moves at once: less than half of a lone node's patience with itself (`settings.for_tests`)."""
SETTLE_MS = 2
"""After each move, for what has become due to be done."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What a life begins with. Plain values, because they may cross a pipe."""

    settings: dict[str, str]
    cluster_id: str
    peer_of_port: Sequence[tuple[int, int]]
    """The ports of the other nodes, each with the number of its node."""
    faults: Sequence[Sequence[Any]]
    """What is wrong with the links to other nodes already: arguments of `Host.switch`."""


class NodeUnderTest(Protocol):
    """A node as the cluster sees it, wherever it runs. What fails raises `ClusterError` or what the node raised."""

    @property
    def is_running(self) -> bool: ...

    @property
    def is_paused(self) -> bool: ...

    @property
    def address(self) -> str:
        """Where clients reach it: the same in every life."""
        ...

    def begin(self, orders: Orders) -> None:
        """Let it start; it does so meanwhile."""
        ...

    def is_ready(self, timeout_s: float) -> bool:
        """Whether clients are served, by the end of that time; raises why it cannot start."""
        ...

    def stop(self) -> None: ...

    def kill(self) -> None:
        """As kill -9 does; one that does not run stays as it is."""
        ...

    def pause(self) -> None:
        """Let it stand still, as SIGSTOP does."""
        ...

    def resume(self) -> None: ...

    def ask(self, command: str, *arguments: Any) -> Any:
        """Have the running node's `Host` do one of `COMMANDS`."""
        ...


class Host:
    """See the module. Everything is called on the loop of `world`."""

    def __init__(self, orders: Orders, world: ClientWorld, ahead_ms: int) -> None:
        self.clock = MovingClock(world.clock, ahead_ms)
        self._tasks = MovingTasks(world.tasks, self.clock)
        self._real_tasks = world.tasks
        self.disk = CountingDisk()
        self._network = LinkedNetwork(world.network, world.clock, world.tasks, dict(orders.peer_of_port))
        self._orders = orders
        everything = NodeWorld(self.clock, self.disk, world.random, self._tasks, self._network)
        self.node: Node = build(BrokerConfig(orders.settings), everything)

    async def start(self) -> None:
        """Return when clients are served. What was never formatted is."""
        for fault in self._orders.faults:
            await self.switch(*fault)
        self.node.format_if_new(self._orders.cluster_id)
        await self.node.start()

    async def stop(self) -> None:
        """A controlled shutdown."""
        if self.link.is_cut:
            self.link.heal()
        await self.node.stop()

    def die(self) -> None:
        """Close every connection and port. Whoever calls this lets nothing of the loop run any more, then closes the
        disk's files with `disk.close_all`."""
        self._network.close_all()

    @property
    def link(self) -> Link:
        """The one between the node and its clients, once it has started."""
        return self._network.links[self.node.bootstrap_address.port]

    @property
    def port(self) -> int:
        return self.link.address.port

    # Commands: what `NodeUnderTest.ask` names. Plain values in and out, because they may cross a pipe.

    async def command(self, name: str, arguments: list[Any]) -> Any:
        assert name in COMMANDS, name
        return await getattr(self, name)(*arguments)

    async def move_time(self, by_ms: int) -> int:
        """Let that much time pass; returns how far ahead of the real clock the node's is now."""
        while by_ms > 0:
            step_ms = min(by_ms, MOVE_MS_MAX)
            self._tasks.move(step_ms)
            by_ms -= step_ms
            await self._real_tasks.sleep_ms(SETTLE_MS)
        return self.clock.ahead_ms

    async def switch(self, target: Target, name: str, *arguments: Any) -> None:
        """Break or heal the link to all clients, or what this node has opened to another: one of `SWITCHES`."""
        assert name in SWITCHES, name
        link: Link | PeerLink = self._network.peers[target] if isinstance(target, int) else self.link
        getattr(link, name)(*arguments)

    async def link_state(self) -> str:
        """What keeps a client's request from being answered: `cut`, `silent`, or nothing."""
        if self.link.is_cut:
            return "cut"
        return "silent" if self.link.holds_incoming or self.link.holds_outgoing else ""

    async def quorum_leader(self) -> list[int]:
        """The epoch of the metadata quorum, and who leads it, -1 if nobody; as this node knows it."""
        return [self.node.raft.epoch, self.node.raft.leader_id]

    async def connection_count(self) -> int:
        return self.link.connection_count


COMMANDS = ("move_time", "switch", "link_state", "quorum_leader", "connection_count")
SWITCHES = ("cut", "silence", "delay", "drop", "heal")

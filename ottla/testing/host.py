"""One life of a node under test: the node, its link to the clients, its clock, and how it is told to go wrong.

A `Host` lives on one event loop and is only touched there: on a thread of the test's process (`thread`), or in a
process of its own (`child`). Both ends of a life are here: `stop` in order, and `die` as by kill -9, after which the
disk holds what the system had been given and nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

from ottla.config import BrokerConfig
from ottla.node import Node, build
from ottla.testing.link import Link, LinkedNetwork
from ottla.testing.moving import MovingClock, MovingTasks
from ottla.testing.open_files import CountingDisk
from ottla.world import ClientWorld, NodeWorld

MOVE_MS_MAX = 1_000_000_000
"""How far time moves at once: less than half of the node's patience with itself (`settings.for_tests`)."""
SETTLE_MS = 2
"""After each move, for what has become due to be done."""


class NodeUnderTest(Protocol):
    """A node as the cluster sees it, wherever it runs. What fails raises `ClusterError` or what the node raised."""

    @property
    def is_running(self) -> bool: ...

    @property
    def address(self) -> str:
        """Where clients reach it: the same in every life."""
        ...

    def start(self) -> None:
        """Return when clients are served."""
        ...

    def stop(self) -> None: ...

    def kill(self) -> None:
        """As kill -9 does; one that does not run stays as it is."""
        ...

    def ask(self, command: str, *arguments: Any) -> Any:
        """Have the running node's `Host` do one of `COMMANDS`."""
        ...


class Host:
    """See the module. Everything is called on the loop of `world`."""

    def __init__(self, settings: Mapping[str, str], world: ClientWorld, ahead_ms: int) -> None:
        self.clock = MovingClock(world.clock, ahead_ms)
        self._tasks = MovingTasks(world.tasks, self.clock)
        self._real_tasks = world.tasks
        self.disk = CountingDisk()
        self._network = LinkedNetwork(world.network, world.clock, world.tasks)
        everything = NodeWorld(self.clock, self.disk, world.random, self._tasks, self._network)
        self.node: Node = build(BrokerConfig(settings), everything)

    async def start(self) -> None:
        """Return when clients are served. What was never formatted is."""
        self.node.format_if_new()
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

    async def cut(self) -> None:
        self.link.cut()

    async def silence(self, direction: str) -> None:
        self.link.silence(cast(Any, direction))

    async def delay(self, delay_ms: float) -> None:
        self.link.delay(delay_ms)

    async def drop(self) -> None:
        self.link.drop()

    async def heal(self) -> None:
        self.link.heal()

    async def link_state(self) -> str:
        """What keeps a request from being answered: `cut`, `silent`, or nothing."""
        if self.link.is_cut:
            return "cut"
        return "silent" if self.link.holds_requests or self.link.holds_responses else ""

    async def connection_count(self) -> int:
        return self.link.connection_count


COMMANDS = ("move_time", "cut", "silence", "delay", "drop", "heal", "link_state", "connection_count")

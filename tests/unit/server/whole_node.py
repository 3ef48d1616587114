"""A whole node in this process, and sessions fed with bytes by hand: thousands of frames a second, each one watched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ottla.config import BrokerConfig
from ottla.node import Node, build
from ottla.server import Session
from ottla.world import Address, NodeWorld, Part
from ottla.world.system_loop import run_node

T = TypeVar("T")


class FedStream:
    """A connection whose peer is the test: what is sent is counted, and whether it was closed is known."""

    local = Address("127.0.0.1", 9092)
    peer = Address("127.0.0.1", 40000)

    def __init__(self) -> None:
        self.unsent_bytes = 0
        self.sent_bytes = 0
        self.is_closed = False
        self.is_paused = False

    def send(self, parts: Sequence[Part]) -> None:
        for part in parts:
            self.sent_bytes += len(part) if isinstance(part, bytes | bytearray | memoryview) else part.size

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True


class Fed:
    """One connection to one listener of the node."""

    def __init__(self, node: Node, listener: str = "PLAINTEXT") -> None:
        self.stream = FedStream()
        self.session = Session(node.sockets._ports[listener], self.stream)

    def feed(self, data: bytes | bytearray) -> None:
        """As much as the session reads before it closes or pauses."""
        position = 0
        while position < len(data) and not self.stream.is_closed and not self.stream.is_paused:
            buffer = self.session.get_buffer()
            count = min(len(buffer), len(data) - position)
            buffer[:count] = data[position : position + count]
            position += count
            self.session.on_received(count)

    def end(self) -> None:
        self.session.on_closed(None)

    @property
    def is_settled(self) -> bool:
        """Answered or closed: nothing is being waited for."""
        return self.stream.is_closed or not self.session.is_waiting


def with_node(directory: Path, test: Callable[[Node], Coroutine[Any, Any, T]], **more: str) -> T:
    """Run `test` beside a node that keeps its data in `directory`; `more` settings have `_` for the dots."""
    config = BrokerConfig(
        {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@127.0.0.1:9093",
            "log.dirs": str(directory),
            "offsets.topic.replication.factor": "1",
            **{name.replace("_", "."): value for name, value in more.items()},
        }
    )

    async def main(world: NodeWorld, stop: object) -> T:
        node = build(config, world)
        node.format_if_new()
        await node.start()
        try:
            return await test(node)
        finally:
            await node.stop()
            await asyncio.sleep(0)

    return run_node(main)

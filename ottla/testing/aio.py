"""`AsyncCluster`: the same for tests that are coroutines. The nodes run beside the test's loop, never on it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType

from ottla.testing.cluster import Cluster, Direction, Nodes
from ottla.testing.host import Target


class AsyncCluster:
    """`async with AsyncCluster() as cluster: ...`; every call is `Cluster`'s, and awaited."""

    def __init__(
        self,
        nodes: int = 1,
        *,
        processes: bool = False,
        settings: Mapping[str, str] | None = None,
        topics: Mapping[str, int] | None = None,
    ) -> None:
        self._cluster = Cluster(nodes, processes=processes, settings=settings, topics=topics)

    async def start(self) -> AsyncCluster:
        await asyncio.to_thread(self._cluster.start)
        return self

    async def close(self) -> None:
        await asyncio.to_thread(self._cluster.close)

    async def __aenter__(self) -> AsyncCluster:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    async def create_topic(self, name: str, partitions: int = 1, **configs: object) -> str:
        return await asyncio.to_thread(self._cluster.create_topic, name, partitions, **configs)

    async def leader(self, topic: str, partition: int = 0) -> int:
        return await asyncio.to_thread(self._cluster.leader, topic, partition)

    async def controller(self) -> int:
        return await asyncio.to_thread(self._cluster.controller)

    async def wait_for_replicas(self, topic: str, timeout: float = 30.0) -> None:
        await asyncio.to_thread(self._cluster.wait_for_replicas, topic, timeout)

    async def wait_for_group(
        self, group: str, *, state: str | None = None, members: int | None = None, timeout: float = 30.0
    ) -> None:
        await asyncio.to_thread(
            self._cluster.wait_for_group, group, state=state, members=members, timeout=timeout
        )  # fmt: skip

    def is_running(self, node: int = 0) -> bool:
        return self._cluster.is_running(node)

    async def stop(self, node: Nodes = None) -> None:
        await asyncio.to_thread(self._cluster.stop, node)

    async def kill(self, node: Nodes = None) -> None:
        await asyncio.to_thread(self._cluster.kill, node)

    async def restart(self, node: Nodes = None) -> None:
        await asyncio.to_thread(self._cluster.restart, node)

    async def pause(self, node: Nodes = None) -> None:
        await asyncio.to_thread(self._cluster.pause, node)

    async def resume(self, node: Nodes = None) -> None:
        await asyncio.to_thread(self._cluster.resume, node)

    async def move_time(self, seconds: float, node: Nodes = None) -> None:
        await asyncio.to_thread(self._cluster.move_time, seconds, node)

    async def cut(
        self, node: Nodes = None, peer: Target | None = None, *, silent: bool = False, direction: Direction = "both"
    ) -> None:
        await asyncio.to_thread(self._cluster.cut, node, peer, silent=silent, direction=direction)

    async def delay(self, seconds: float, node: Nodes = None, peer: Target | None = None) -> None:
        await asyncio.to_thread(self._cluster.delay, seconds, node, peer)

    async def drop_connections(self, node: Nodes = None, peer: Target | None = None) -> None:
        await asyncio.to_thread(self._cluster.drop_connections, node, peer)

    async def heal(self, node: Nodes = None, peer: Target | None = None) -> None:
        await asyncio.to_thread(self._cluster.heal, node, peer)

    async def connection_count(self, node: int = 0) -> int:
        return await asyncio.to_thread(self._cluster.connection_count, node)

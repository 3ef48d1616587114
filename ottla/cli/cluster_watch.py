"""What a cluster of `ottla cluster up` is doing, from its start to its end.

Promises: what is told comes from the processes themselves (alive, memory) and from the cluster through an admin client
(brokers, quorum, leaders, replicas and their lag), asked every `INTERVAL_S`; a cluster that does not answer in time is
told as it was last seen, with what the processes say now. A node that has served and dies is started again.
A signal ends the nodes in order, whether or not anybody still reads what is told; Ctrl-C once more kills them.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ottla.cli.cluster_lag import LagWatch
from ottla.cli.cluster_nodes import STOP_S, LocalCluster, NodeProcess
from ottla.cli.tool import give_up_stdout

if TYPE_CHECKING:
    from ottla.client import AsyncAdmin
    from ottla.client.admin.topics import PartitionDescription

INTERVAL_S = 0.5
STOPPING_INTERVAL_S = 0.1
ANSWER_S = 5.0


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node at a moment. What only the cluster knows is None while it does not say."""

    node_id: int
    roles: str
    state: str
    """`starting`, `running`, `active` (the controller in charge), `fenced`, `stopping`, or `ended`."""
    pid: int | None = None
    why: str | None = None
    """Why it ended, the last time."""
    leaders: int | None = None
    replicas: int | None = None
    in_sync: int | None = None
    """How many of its replicas are in the ISR."""
    lag: int | None = None
    """How many records its replicas are behind their leaders, all together."""
    resident_bytes: int | None = None
    restarts: int = 0
    """How often it has been started again."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the cluster last said of itself."""

    brokers: frozenset[int] = frozenset()
    controller: int = -1
    voters: frozenset[int] = frozenset()
    """Those that lead the quorum or have fetched from its leader."""
    partitions: tuple[PartitionDescription, ...] = ()
    lags: Mapping[int, int | None] = field(default_factory=dict)
    """Of the brokers with replicas that others have too."""

    @property
    def serving(self) -> frozenset[int]:
        return self.brokers | self.voters


class Display(Protocol):
    """Who shows what is seen. `OSError` when nobody can see it any more."""

    def ready(self, bootstrap_servers: str, directory: str) -> None: ...

    def show(self, nodes: list[NodeStatus]) -> None: ...

    def stopping(self) -> None: ...

    def close(self) -> None: ...


class AllEnded(Exception):
    """Every node has ended by itself: one line for each."""


def watch(cluster: LocalCluster, display: Display) -> None:
    """Run the cluster until a signal ends it, and all its nodes with it; `AllEnded` when none is left to run."""
    try:
        asyncio.run(_Watch(cluster, display).run())
    finally:
        cluster.close()


class _Watch:
    """One run of the command."""

    def __init__(self, cluster: LocalCluster, display: Display) -> None:
        self._cluster = cluster
        self._display = display
        self._seen = Seen()
        self._lags = LagWatch()
        self._is_ready = False
        self._has_audience = True
        self._stop = asyncio.Event()
        self._is_impatient = False

    async def run(self) -> None:
        self._catch_signals()
        self._cluster.start()
        try:
            await self._until_stopped()
        finally:
            await self._end()
        if not self._stop.is_set():
            nodes = self._cluster.nodes.values()
            raise AllEnded("\n".join(f"node {one.member.node_id}: {one.why_it_ended}" for one in nodes))

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()

        def interrupt() -> None:
            self._is_impatient = self._stop.is_set()
            self._stop.set()

        loop.add_signal_handler(signal.SIGINT, interrupt)
        loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
            loop.add_signal_handler(signal.SIGHUP, self._stop.set)

    async def _until_stopped(self) -> None:
        from ottla.client import AsyncAdmin

        servers = self._cluster.bootstrap_servers
        async with AsyncAdmin(bootstrap_servers=servers, client_id="ottla-cluster-up") as admin:
            while not self._stop.is_set() and self._cluster.has_future:
                await self._look(admin)
                self._cluster.restart_dead()
                await _within(INTERVAL_S, self._stop)

    async def _look(self, admin: AsyncAdmin) -> None:
        """Ask the cluster, and show what it says."""
        asked = asyncio.create_task(_ask(admin, self._lags))
        stopped = asyncio.create_task(self._stop.wait())
        await asyncio.wait({asked, stopped}, timeout=ANSWER_S, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if asked.done():
            self._seen = asked.result() or self._seen
        else:
            asked.cancel()
        for node in self._cluster.nodes.values():
            node.is_up |= node.is_running and node.member.node_id in self._seen.serving
        self._show()
        brokers = {one.node_id for one in self._cluster.members if one.client_port}
        if not self._is_ready and self._seen.brokers >= brokers:
            self._is_ready = True
            self._tell(lambda: self._display.ready(self._cluster.bootstrap_servers, self._cluster.directory))

    async def _end(self) -> None:
        """All nodes in order, together."""
        self._tell(self._display.stopping)
        self._seen = Seen()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + STOP_S
        while self._cluster.is_running and not self._is_impatient and loop.time() < deadline:
            self._cluster.ask_to_stop()
            self._show()
            await asyncio.sleep(STOPPING_INTERVAL_S)
        self._cluster.close()
        self._show()
        self._tell(self._display.close)

    def _show(self) -> None:
        self._tell(lambda: self._display.show([_status(node, self._seen) for node in self._cluster.nodes.values()]))

    def _tell(self, tell: Callable[[], None]) -> None:
        """Once nobody can see it (the terminal or the pipe is closed) the nodes are ended, and nothing is told."""
        if self._has_audience:
            try:
                tell()
            except OSError:
                give_up_stdout()
                self._has_audience = False
                self._stop.set()


async def _within(seconds: float, event: asyncio.Event) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return


async def _ask(admin: AsyncAdmin, lags: LagWatch) -> Seen | None:
    """What the cluster says of itself; None when it does not."""
    from ottla.errors import KafkaError

    try:
        found = await admin.describe_cluster(timeout=ANSWER_S)
        quorum = await admin.describe_metadata_quorum(timeout=ANSWER_S)
        names = await admin.list_topics(include_internal=True, timeout=ANSWER_S)
        topics = await admin.describe_topics(names, timeout=ANSWER_S)
        ids = [node.node_id for node in found.nodes]
        behind = await lags.look(admin, ids, topics.succeeded.values())
    except KafkaError:
        return None
    return Seen(
        brokers=frozenset(ids),
        controller=quorum.leader_id,
        voters=frozenset(
            one.replica_id
            for one in quorum.voters
            if one.replica_id == quorum.leader_id or one.last_fetch_timestamp is not None
        ),
        # Of a topic that was just deleted, and of a broker that has just died, there is nothing to tell.
        partitions=tuple(one for topic in topics.succeeded.values() for one in topic.partitions),
        lags=behind,
    )


def _status(node: NodeProcess, seen: Seen) -> NodeStatus:
    own = node.member
    roles = "+".join(own.roles)
    if not node.is_running:
        return NodeStatus(own.node_id, roles, "ended", why=node.why_it_ended, restarts=node.restart_count)
    state = "running"
    if node.is_stopping:
        state = "stopping"
    elif not node.is_up:
        state = "starting"
    elif own.client_port and own.node_id not in seen.brokers:
        state = "fenced"
    elif own.node_id == seen.controller:
        state = "active"
    if not own.client_port or not seen.brokers:
        return NodeStatus(
            own.node_id, roles, state, node.pid, resident_bytes=node.resident_bytes, restarts=node.restart_count
        )
    mine = [one for one in seen.partitions if any(replica.node_id == own.node_id for replica in one.replicas)]
    return NodeStatus(
        own.node_id,
        roles,
        state,
        node.pid,
        leaders=sum(one.leader is not None and one.leader.node_id == own.node_id for one in mine),
        replicas=len(mine),
        in_sync=sum(any(replica.node_id == own.node_id for replica in one.isr) for one in mine),
        lag=seen.lags.get(own.node_id, 0),
        resident_bytes=node.resident_bytes,
        restarts=node.restart_count,
    )

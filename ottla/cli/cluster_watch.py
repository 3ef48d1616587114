"""What a cluster of `ottla cluster up` is doing, from its start to its end.

Promises: what is told comes from the processes themselves (alive, memory) and from the cluster through an admin client
(brokers, quorum, leaders, replicas and their lag), asked every `INTERVAL_S`; a cluster that does not answer in time is
told as it was last seen, with what the processes say now.
A signal ends the nodes in order.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ottla.cli.cluster_nodes import LocalCluster, NodeProcess

if TYPE_CHECKING:
    from ottla.client import AsyncAdmin
    from ottla.client.admin.topics import PartitionDescription

INTERVAL_S = 0.5
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
    """Why it ended."""
    leaders: int | None = None
    replicas: int | None = None
    in_sync: int | None = None
    """How many of its replicas are in the ISR."""
    lag: int | None = None
    """How many records its replicas are behind, all together."""
    resident_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What the cluster last said of itself."""

    brokers: frozenset[int] = frozenset()
    controller: int = -1
    voters: frozenset[int] = frozenset()
    partitions: tuple[PartitionDescription, ...] = ()
    lags: tuple[tuple[int, int], ...] = ()


class Display(Protocol):
    """Who shows what is seen."""

    def ready(self, bootstrap_servers: str, directory: str) -> None: ...

    def show(self, nodes: list[NodeStatus]) -> None: ...

    def close(self) -> None: ...


def watch(cluster: LocalCluster, display: Display) -> None:
    """Run the cluster until a signal ends it, and all its nodes with it."""
    try:
        asyncio.run(_watch(cluster, display))
    finally:
        cluster.stop()
        display.show([_status(node, Seen()) for node in cluster.nodes.values()])
        display.close()


async def _watch(cluster: LocalCluster, display: Display) -> None:
    from ottla.client import AsyncAdmin

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    cluster.start()
    seen = Seen()
    is_ready = False
    async with AsyncAdmin(bootstrap_servers=cluster.bootstrap_servers, client_id="ottla-cluster-up") as admin:
        while not stop.is_set():
            asked = asyncio.create_task(_ask(admin))
            ended = asyncio.create_task(stop.wait())
            await asyncio.wait({asked, ended}, timeout=ANSWER_S, return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            if asked.done():
                seen = asked.result() or seen
            else:
                asked.cancel()
            display.show([_status(node, seen) for node in cluster.nodes.values()])
            brokers = {one.node_id for one in cluster.members if one.client_port}
            if not is_ready and seen.brokers >= brokers:
                is_ready = True
                display.ready(cluster.bootstrap_servers, cluster.directory)
            try:
                await asyncio.wait_for(stop.wait(), INTERVAL_S)
            except TimeoutError:
                continue


async def _ask(admin: AsyncAdmin) -> Seen | None:
    """What the cluster says of itself; None when it does not."""
    from ottla.errors import KafkaError

    try:
        found = await admin.describe_cluster(timeout=ANSWER_S)
        quorum = await admin.describe_metadata_quorum(timeout=ANSWER_S)
        names = await admin.list_topics(include_internal=True, timeout=ANSWER_S)
        topics = await admin.describe_topics(names, timeout=ANSWER_S)
        ids = [node.node_id for node in found.nodes]
        log_dirs = await admin.describe_log_dirs(ids, timeout=ANSWER_S)
    except KafkaError:
        return None
    return Seen(
        brokers=frozenset(ids),
        controller=quorum.leader_id,
        voters=frozenset(one.replica_id for one in quorum.voters),
        # Of a topic that was just deleted, and of a broker that has just died, there is nothing to tell.
        partitions=tuple(one for topic in topics.succeeded.values() for one in topic.partitions),
        lags=tuple(
            (node_id, sum(one.offset_lag for dir_ in dirs.values() for one in dir_.replicas.values()))
            for node_id, dirs in log_dirs.succeeded.items()
        ),
    )


def _status(node: NodeProcess, seen: Seen) -> NodeStatus:
    own = node.member
    roles = "+".join(own.roles)
    if not node.is_running:
        return NodeStatus(own.node_id, roles, "ended", why=node.why_it_ended)
    state = "running"
    if node.is_stopping:
        state = "stopping"
    elif not seen.brokers:
        state = "starting"
    elif own.client_port and own.node_id not in seen.brokers:
        state = "fenced"
    elif own.node_id == seen.controller:
        state = "active"
    if not own.client_port or not seen.brokers:
        return NodeStatus(own.node_id, roles, state, node.pid, resident_bytes=node.resident_bytes)
    mine = [one for one in seen.partitions if any(replica.node_id == own.node_id for replica in one.replicas)]
    return NodeStatus(
        own.node_id,
        roles,
        state,
        node.pid,
        leaders=sum(one.leader is not None and one.leader.node_id == own.node_id for one in mine),
        replicas=len(mine),
        in_sync=sum(any(replica.node_id == own.node_id for replica in one.isr) for one in mine),
        lag=dict(seen.lags).get(own.node_id),
        resident_bytes=node.resident_bytes,
    )

"""A client's lowest parts on a thread of their own: connections, the cluster's metadata, offsets, single fetches.

Readers of ranges need neither positions nor a group nor a fetch session: each fetch names its partition and its
offset, nothing is kept at the broker, and what is answered is what was asked for. Called by `cluster` in the driver and
by `range_reader` in the tasks. Coroutines run on the link's own loop: `link.run(link.partition(...))`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Set
from typing import Any, NamedTuple, TypeVar

from ottla.client.config import ConsumerConfig, read_settings
from ottla.client.consumer.offset_lookup import OffsetLookup
from ottla.client.metrics import Metrics, NetworkMetrics
from ottla.client.network import Build, Cluster, Metadata, NetworkClient, Node
from ottla.types import ZERO_UUID, TopicPartition, Uuid
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.world.threads import LoopThread

T = TypeVar("T")

FETCH_KEY = 1
NAMES_VERSION_MAX = 12
"""The last version of Fetch that names topics; those behind it have their ids."""
READ_COMMITTED = "read_committed"


class Leader(NamedTuple):
    """Who leads a partition now."""

    node_id: int
    epoch: int
    topic_id: Uuid


class Link:
    """Connections to one cluster, from construction to `close`."""

    def __init__(self, settings: Mapping[str, str], name: str) -> None:
        values: dict[str, object] = {"allow.auto.create.topics": "false", **settings, "enable.auto.commit": "false"}
        self.config = read_settings(ConsumerConfig, values, {})
        self.is_read_committed = self.config.isolation_level == READ_COMMITTED
        self._loop = LoopThread(f"ottla-{name}")
        self.world = self._loop.world
        try:
            self._loop.call(lambda: self._make(name))
        except BaseException:
            self._loop.close()
            raise

    def _make(self, name: str) -> None:
        config = self.config
        metrics = Metrics(config.client_id, self.world.clock.monotonic_ms)
        measured = NetworkMetrics(metrics, "consumer")
        self.network = NetworkClient(self.world, config, name=f"{name} clientId={config.client_id}", measured=measured)
        self.metadata = Metadata(self.network, auto_create=config.allow_auto_create_topics)
        self.lookup = OffsetLookup(self.network, self.metadata, is_read_committed=self.is_read_committed)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns, from any other thread."""
        return self._loop.run(work)

    def post(self, call: Callable[[], object]) -> None:
        """Have something called on the loop, soon; nobody waits for it."""
        self._loop.post(call)

    def close(self) -> None:
        """End all connections, and the thread. A second call does nothing."""

        def end() -> None:
            self.metadata.close()
            self.network.close()

        self._loop.post(end)
        self._loop.close()

    # On the loop

    def leader(self, partition: TopicPartition) -> Leader | None:
        """The partition's leader, if it is known and can be reached."""
        cluster = self.metadata.cluster
        info = cluster.partition(partition)
        if info is None or info.leader not in cluster.nodes:
            return None
        return Leader(info.leader, info.leader_epoch, cluster.topics[partition.topic].topic_id)

    def keep_topics(self, topics: Set[str]) -> None:
        """Ask about these only from now on: one that is gone would be asked about again and again."""
        if not self.metadata.topics.keys() <= topics:
            self.metadata.set_topics([topic for topic in self.metadata.topics if topic in topics])

    async def updated(self, timeout_ms: float) -> None:
        """Wait for the next news of the cluster, whoever has asked for it, and at most so long."""
        told = asyncio.Event()

        def tell(_: Cluster) -> None:
            told.set()

        self.metadata.on_update.append(tell)
        try:
            await asyncio.wait_for(told.wait(), timeout_ms / 1000)
        except TimeoutError:
            pass  # the caller knows how long it has waited
        finally:
            self.metadata.on_update.remove(tell)

    async def fetch(
        self, partition: TopicPartition, offset: int, leader: Leader, *, bytes_max: int, wait_ms: int, node_id: int
    ) -> PartitionData | None:
        """One fetch of one partition; None when the answer has nothing of it. Raises what kept it from coming."""
        asked = FetchPartition(
            partition=partition.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=offset,
            partition_max_bytes=bytes_max,
        )
        topic = FetchTopic(topic=partition.topic, topic_id=leader.topic_id, partitions=[asked])

        def make(_: int) -> FetchRequest:
            return FetchRequest(
                max_wait_ms=wait_ms,
                min_bytes=1,
                max_bytes=max(bytes_max, 1),
                isolation_level=int(self.is_read_committed),
                topics=[topic],
                rack_id=self.config.client_rack,
            )

        has_id = leader.topic_id != ZERO_UUID
        build = Build(FETCH_KEY, make) if has_id else Build(FETCH_KEY, make, version_max=NAMES_VERSION_MAX)
        response: FetchResponse = await self.network.send(node_id, build)
        for told_topic in response.responses:
            for told in told_topic.partitions:
                self._note_leader(partition, told, response)
                return told
        return None

    def _note_leader(self, partition: TopicPartition, told: PartitionData, response: FetchResponse) -> None:
        """A refusal may name the new leader (KIP-951)."""
        leader = told.current_leader
        if told.error_code and leader is not None and leader.leader_id >= 0:
            nodes = [Node(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints]
            self.metadata.update_leader(partition, leader.leader_id, leader.leader_epoch, nodes)

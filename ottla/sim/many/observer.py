"""Who asks each node, again and again, what it knows: leaders and epochs, the quorum, and what its replicas offer.

One observer a node, on a host of its own. What a node tells counts for the life it tells it in.
"""

from __future__ import annotations

from typing import Any

from ottla.sim.checks import QUORUM, Leaders, PartitionView, Watermarks
from ottla.sim.clients.client import Client
from ottla.sim.clients.link import LOST
from ottla.sim.node import SimulatedNode
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

INTERVAL_MS = 300
METADATA_VERSION = 12
FETCH_VERSION = 13
QUORUM_VERSION = 0
TIMEOUT_MS = 3_000


class Observer(Client):
    """See the module. `view` is what the node told last in its present life."""

    node: SimulatedNode
    leaders: Leaders
    watermarks: Watermarks
    request_timeout_ms = TIMEOUT_MS

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._views: dict[str, dict[str, PartitionView]] = {}
        self._ends: dict[tuple[str, str], int] = {}

    async def work(self) -> None:
        while not self.is_stopping:
            try:
                await self._look()
            except LOST as error:
                self.trace(f"{self.name}: {error}")
            await self.world.tasks.sleep_ms(INTERVAL_MS * self.chance.uniform(0.5, 1.5))

    @property
    def life(self) -> str:
        return life_of(self.node)

    @property
    def view(self) -> dict[str, PartitionView] | None:
        """None where the node does not run, or has not been asked in this life."""
        return self._views.get(self.life) if self.node.is_running else None

    def forget(self) -> None:
        """Let only what is told from now on count."""
        self._views.clear()

    async def _look(self) -> None:
        if not self.node.is_running:
            return
        await self.link()
        life = self.life  # an answer counts if the node still lives it
        metadata: MetadataResponse = await self.ask(
            MetadataRequest(None, allow_auto_topic_creation=False), METADATA_VERSION
        )
        if self.life != life:
            return
        view = {}
        led = []
        for topic in metadata.topics:
            for one in topic.partitions:
                name = f"{topic.name}-{one.partition_index}"
                view[name] = PartitionView(
                    one.leader_id,
                    one.leader_epoch,
                    tuple(one.replica_nodes),
                    tuple(one.isr_nodes),
                    tuple(one.offline_replicas),
                )
                self.leaders.observe(life, name, one.leader_epoch, one.leader_id)
                if str(one.leader_id) == self.node.settings["node.id"]:
                    led.append((topic, one.partition_index))
        self._views = {life: view}
        await self._look_at_quorum()
        if led and self.life == life:
            await self._look_at_offsets(life, led)

    async def _look_at_quorum(self) -> None:
        topic = DescribeQuorumRequestTopicData(QUORUM, [DescribeQuorumRequestPartitionData(0)])
        response: DescribeQuorumResponse = await self.ask(DescribeQuorumRequest([topic]), QUORUM_VERSION)
        if response.error_code:
            return  # the controller is out of reach
        for found in (one for answer in response.topics for one in answer.partitions):
            if not found.error_code:
                # Whoever was asked, it is the leader that answers; its own epochs grow, over all of its lives.
                self.leaders.observe(f"controller {found.leader_id}", QUORUM, found.leader_epoch, found.leader_id)

    async def _look_at_offsets(self, life: str, led: list[tuple[Any, int]]) -> None:
        asked: dict[Any, FetchTopic] = {}
        names = {}
        for topic, index in led:
            names[topic.topic_id] = topic.name
            entry = asked.setdefault(topic.topic_id, FetchTopic(topic.name, topic.topic_id, []))
            # Where the last answer said that the log ends for consumers: never out of range, and nothing to send.
            offset = self._ends.get((life, f"{topic.name}-{index}"), 0)
            entry.partitions.append(FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1))
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=list(asked.values()), isolation_level=1)
        response: FetchResponse = await self.ask(request, FETCH_VERSION)
        if self.life != life:
            return
        for answer in response.responses:
            for one in answer.partitions:
                if not one.error_code:
                    name = f"{names[answer.topic_id]}-{one.partition_index}"
                    self._ends[life, name] = one.high_watermark
                    self.watermarks.observe(
                        life,
                        name,
                        high_watermark=one.high_watermark,
                        last_stable_offset=one.last_stable_offset,
                        log_start_offset=one.log_start_offset,
                    )


def life_of(node: SimulatedNode) -> str:
    return f"{node.name} life {node.life_count}"

"""The brokers as a writer reaches them: one set of connections a process and cluster, kept from task to task.

Promises: what passes by itself (a leader or a coordinator that moves, a broker that restarts) is waited for, up to
`delivery.timeout.ms`; everything else raises Kafka's error. A process keeps few links, and the one that was not used
for longest goes first. Spark's worker processes are forked before they run a task, so a link is never shared by two.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from ottla.client.config import ProducerConfig
from ottla.client.errors import KafkaTimeout
from ottla.client.network import (
    COORDINATOR,
    Build,
    CoordinatorKind,
    Coordinators,
    Deadline,
    Metadata,
    NetworkClient,
    TopicInfo,
)
from ottla.client.network.waiting import within
from ottla.errors import (
    ConcurrentTransactions,
    KafkaError,
    LeaderNotAvailable,
    UnsupportedVersion,
    error_class,
)
from ottla.pipelines.sink.options import SinkOptions
from ottla.types import TopicPartition
from ottla.wire.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from ottla.world.threads import LoopThread

log = logging.getLogger(__name__)

LINKS_MAX = 4
DESCRIBE_PRODUCERS_KEY = 61
ENDING_MS = 10
"""A transaction that is ending has ended after about this long."""

T = TypeVar("T")


class Link:
    """Connections to one cluster, on a thread of their own. Coroutines of this module run there, by `run`."""

    def __init__(self, config: ProducerConfig) -> None:
        self.config = config
        self._thread = LoopThread("ottla-sink")
        self.world = self._thread.world
        self.network, self.metadata, self.coordinators = self._thread.call(self._connect)

    def _connect(self) -> tuple[NetworkClient, Metadata, Coordinators]:
        network = NetworkClient(self.world, self.config, name=f"Sink clientId={self.config.client_id}")
        return network, Metadata(network), Coordinators(network)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns, run on the link's thread."""
        return self._thread.run(work)

    def close(self) -> None:
        def close() -> None:
            self.metadata.close()
            self.network.close()

        self._thread.call(close)
        self._thread.close()

    def deadline(self) -> Deadline:
        return Deadline(self.world, self.config.delivery_timeout_ms)

    # Coordinators

    async def ask(self, kind: CoordinatorKind, key: str, build: Build, codes: Callable[[Any], Iterable[int]]) -> Any:
        """The coordinator's response, asked again while the error is one that passes; other errors raise.

        `codes` are the error codes that the response has.
        """

        async def once() -> Any:
            response = await self.coordinators.send(kind, key, build, self.config.delivery_timeout_ms)
            code = next((code for code in codes(response) if code), 0)
            if code:
                self.coordinators.note(kind, key, code)
                raise error_class(code)(f"the coordinator of {kind.name.lower()} {key} says {error_class(code).name}")
            return response

        return await self.persist(once)

    def feature(self, kind: CoordinatorKind, key: str, name: str) -> int:
        """The level of a cluster's feature, as the coordinator told it when it was connected to."""
        node_id = self.coordinators.known(kind, key)
        versions = None if node_id is None else self.network.versions(node_id, COORDINATOR)
        return 0 if versions is None else versions.features.get(name, 0)

    async def persist(self, once: Callable[[], Awaitable[T]]) -> T:
        """What `once` gives, tried until it does or the time is up."""
        deadline, failures = self.deadline(), 0
        while True:
            try:
                return await once()
            except KafkaError as error:
                if not error.retriable or deadline.has_passed:
                    raise
                if isinstance(error, ConcurrentTransactions):
                    delay_ms: float = min(ENDING_MS * 2.0**failures, self.config.retry_backoff_max_ms)
                else:
                    delay_ms = self.network.retry_backoff.delay_ms(failures)
                failures += 1
                await self.world.tasks.sleep_ms(deadline.at_most(delay_ms))

    # Leaders

    async def topic(self, name: str) -> TopicInfo:
        """The topic, waited for until it is known."""
        return await self.metadata.topic(name, self.config.max_block_ms)

    async def refresh(self) -> None:
        """Ask who leads now. A broker that does not answer is no failure here: the next try will tell."""
        try:
            await within(self.world, self.metadata.next_update(), self.config.retry_backoff_max_ms, "metadata")
        except KafkaTimeout as error:
            log.debug("no news of the leaders: %s", error)

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The partitions by their leaders; raises `LeaderNotAvailable` where one has none."""
        led: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            node = self.metadata.cluster.leader(partition)
            if node is None:
                raise LeaderNotAvailable(f"{partition} has no leader")
            led.setdefault(node.node_id, []).append(partition)
        return led

    async def producers(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[ProducerState]]:
        """What each partition's leader knows of the producers that write to it, asked once a leader.

        `UnsupportedVersion` before Kafka 2.8.
        """
        wanted = list(partitions)
        for name in {partition.topic for partition in wanted}:
            await self.topic(name)
        found: dict[TopicPartition, list[ProducerState]] = {}

        async def once() -> None:
            missing = [partition for partition in wanted if partition not in found]
            try:
                for node_id, led in self.by_leader(missing).items():
                    found.update(await self._producers_of(node_id, led))
            except UnsupportedVersion:
                raise
            except KafkaError:
                await self.refresh()
                raise

        await self.persist(once)
        return found

    async def _producers_of(self, node_id: int, led: list[TopicPartition]) -> dict[TopicPartition, list[ProducerState]]:
        topics: dict[str, list[int]] = {}
        for topic, partition in led:
            topics.setdefault(topic, []).append(partition)
        request = DescribeProducersRequest(topics=[TopicRequest(name, indexes) for name, indexes in topics.items()])
        response = await self.network.send(node_id, Build(DESCRIBE_PRODUCERS_KEY, lambda version: request))
        found = {}
        for topic in response.topics:
            for one in topic.partitions:
                if one.error_code:
                    raise error_class(one.error_code)(f"{topic.name}-{one.partition_index}: {one.error_message or ''}")
                found[TopicPartition(topic.name, one.partition_index)] = one.active_producers
        return found


_links: dict[tuple[tuple[str, str], ...], Link] = {}


def link_to(options: SinkOptions) -> Link:
    """This process's link to the cluster that the options name."""
    key = tuple(sorted(options.kafka.items()))
    link = _links.pop(key, None)
    if link is None:
        while len(_links) >= LINKS_MAX:
            _links.pop(next(iter(_links))).close()
        link = Link(options.config())
    _links[key] = link
    return link

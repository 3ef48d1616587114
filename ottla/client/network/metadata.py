"""What is known of the cluster, kept fresh: asked for when something is missing or wrong, and when it has grown old.

Promises: one request at a time, and after a failure the retry backoff; a partition's leader never goes back to an older
leader epoch, whichever broker answers; a topic that was deleted and made again (another id) begins afresh; when no
known broker answers, the client begins again with `bootstrap.servers` (KIP-899, KIP-1102) unless told not to. Who waits
for an update gets the next one that was asked for after the wait began, or the error that waiting does not mend.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from ottla.client.errors import ClientClosed, KafkaTimeout
from ottla.client.network.cluster import NO_NODE, Cluster, Node, PartitionInfo, TopicInfo
from ottla.client.network.network_client import NetworkClient
from ottla.client.network.waiting import within
from ottla.errors import (
    InvalidTopicException,
    KafkaError,
    LeaderNotAvailable,
    NetworkException,
    RebootstrapRequired,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
    error_class,
)
from ottla.net import Build
from ottla.types import ZERO_UUID, TopicPartition, Uuid
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from ottla.world import Promise, Timer

log = logging.getLogger(__name__)

METADATA_KEY = 3
PERMANENT = (InvalidTopicException.code, TopicAuthorizationFailed.code)
"""Errors of a topic that waiting does not mend."""


class Metadata:
    """The cluster as one client sees it; nothing is asked before something is wanted."""

    def __init__(self, network: NetworkClient, *, auto_create: bool = True) -> None:
        self._network = network
        self._world = network.world
        self._config = network.config
        self._name = network.name
        self.cluster = Cluster()
        self.topics: dict[str, None] = {}
        """The topics that are asked for."""
        self.wants_all = False
        """All topics are asked for: a consumer with a pattern, which must see new ones."""
        self.auto_create = auto_create
        """Whether asking for a topic may make the broker create it (`allow.auto.create.topics`)."""
        self.on_update: list[Callable[[Cluster], None]] = []
        """Called after every update, with the new cluster."""
        self.on_error: list[Callable[[KafkaError], object]] = []
        """Called when asking failed for a reason that waiting does not mend; it is asked again all the same."""
        self.last_error: KafkaError | None = None
        """Why there has been no answer since the last one."""
        self._waiting: list[Promise[Cluster]] = []
        """Who waits for an answer to a request that is still to be sent."""
        self._is_wanted = False
        self._is_urgent = False
        """What is wanted was never asked for, so that there is nothing to wait for."""
        self._is_asking = False
        self._is_timer_short = False
        """The timer is one for a retry, and not the one for what has become old."""
        self._failures = 0
        self._first_failure_ms: int | None = None
        self._timer: Timer | None = None
        self._is_closed = False
        self.updated_ms: int | None = None
        """When the last answer came, by the monotonic clock."""

    # Wanting

    def add_topics(self, topics: Iterable[str]) -> bool:
        """Ask for these as well from now on; whether any of them is new, in which case an update is on its way."""
        new = [topic for topic in topics if topic not in self.topics]
        self.topics.update(dict.fromkeys(new))
        if new and not self.wants_all:
            self._is_urgent = True
            self.request_update()
        return bool(new)

    def set_topics(self, topics: Iterable[str], *, wants_all: bool = False) -> None:
        """Ask for these and no others from now on."""
        before = self.topics
        self.topics = dict.fromkeys(topics)
        is_new = wants_all != self.wants_all or any(topic not in before for topic in self.topics)
        self.wants_all = wants_all
        if is_new:
            self._is_urgent = True
            self.request_update()

    def request_update(self) -> None:
        """Something is missing or wrong: ask soon, at the latest after the retry backoff."""
        self._is_wanted = True
        self._go_on()

    def next_update(self) -> Promise[Cluster]:
        """The answer to a request that is sent after this call; fails with what waiting does not mend."""
        promise: Promise[Cluster] = self._world.tasks.promise()
        if self._is_closed:
            promise.set_exception(self._closed())
            return promise
        self._waiting.append(promise)
        self.request_update()
        return promise

    async def topic(self, topic: str, timeout_ms: float, *, partition: int | None = None) -> TopicInfo:
        """The topic, waiting for it to be known, and to have `partition`; errors that waiting does not mend raise.

        `KafkaTimeout` says that the topic, or the partition, is not there after `timeout_ms`.
        """
        deadline_ms = self._world.clock.monotonic_ms() + timeout_ms
        if topic not in self.topics:
            self.topics[topic] = None
            self._is_urgent = True
        while True:
            info = self.cluster.topics.get(topic)
            if info is not None:
                if info.error_code in PERMANENT:
                    raise error_class(info.error_code)(f"{topic}: {error_class(info.error_code).__doc__}")
                if not info.error_code and (partition is None or partition in info.partitions):
                    return info
            left_ms = max(deadline_ms - self._world.clock.monotonic_ms(), 0)
            try:
                await within(self._world, self.next_update(), left_ms, "an update")
            except KafkaTimeout:
                if self.last_error is not None or self.updated_ms is None:
                    # Whether the topic is there nobody knows: the cluster itself does not answer.
                    why = self.last_error or "no broker has answered yet"
                    raise KafkaTimeout(f"{timeout_ms / 1000:g} s passed; {why}") from self.last_error
                what = f"Topic {topic}" if partition is None or info is None else f"Partition {partition} of {topic}"
                raise KafkaTimeout(f"{what} not present in metadata after {timeout_ms:.0f} ms.") from None

    # Asking

    def _go_on(self) -> None:
        if self._is_asking or self._is_closed:
            return
        if not self._is_wanted:
            self._set_timer(self._config.metadata_max_age_ms)
            return
        if self._failures:
            wait_ms = self._network.retry_backoff.delay_ms(self._failures - 1)
        elif self.updated_ms is None or self._is_urgent:
            wait_ms = 0.0
        else:
            # Something is still missing after an answer: asking again at once would only tell the same.
            wait_ms = self._config.retry_backoff_ms - (self._world.clock.monotonic_ms() - self.updated_ms)
        if wait_ms <= 0:
            self._ask()
        elif self._timer is None or not self._is_timer_short:
            self._set_timer(max(wait_ms, 1.0), is_short=True)

    def _set_timer(self, delay_ms: float, *, is_short: bool = False) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._is_timer_short = is_short
        self._timer = self._world.tasks.later(delay_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if not self._is_asking and not self._is_closed:
            self._ask()

    def _ask(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._is_wanted = self._is_urgent = False
        self._is_asking = True
        waiting, self._waiting = self._waiting, []
        topics = None if self.wants_all else list(self.topics)

        def make(version: int) -> MetadataRequest:
            if topics is None:
                asked = None
            else:
                asked = [MetadataRequestTopic(name=topic) for topic in topics]
            return MetadataRequest(topics=asked, allow_auto_topic_creation=self.auto_create)

        def answered(response: Any, error: KafkaError | None) -> None:
            self._is_asking = False
            if self._is_closed:
                self._fail(waiting, self._closed())
                return
            if error is None and response.error_code == RebootstrapRequired.code:
                self._rebootstrap("a broker asks for it")
                error = NetworkException("the broker asks to begin again with the bootstrap servers")
            if error is not None or not response.brokers:
                self._waiting = waiting + self._waiting
                self._on_failure(error or NetworkException("the broker names no brokers"))
                return
            self._failures = 0
            self._first_failure_ms = None
            self.last_error = None
            self._apply(response, topics)
            for promise in waiting:
                if not promise.done():
                    promise.set_result(self.cluster)
            self._go_on()

        # Version 4 is the first that can be told not to create topics.
        build = Build(METADATA_KEY, make, version_min=1 if self.auto_create else 4)
        self._network.send_then(self._network.least_loaded(), build, answered)

    def _on_failure(self, error: KafkaError) -> None:
        now_ms = self._world.clock.monotonic_ms()
        self.last_error = error
        self._failures += 1
        if self._first_failure_ms is None:
            self._first_failure_ms = now_ms
        if self._failures & (self._failures - 1) == 0:
            log.warning("[%s] The cluster's metadata could not be had (attempt %d): %s", self._name, self._failures,
                        error)  # fmt: skip
        if (
            self._config.metadata_recovery_strategy.upper() == "REBOOTSTRAP"
            and now_ms - self._first_failure_ms >= self._config.metadata_recovery_rebootstrap_trigger_ms
        ):
            self._rebootstrap(f"no metadata for {now_ms - self._first_failure_ms} ms")
        if not error.retriable:
            waiting, self._waiting = self._waiting, []
            self._fail(waiting, error)
            for told in list(self.on_error):
                told(error)
        self._is_wanted = True
        self._go_on()

    def _rebootstrap(self, why: str) -> None:
        log.info("[%s] Beginning again with the bootstrap servers: %s", self._name, why)
        self._first_failure_ms = None
        self._network.forget_nodes()

    def _apply(self, response: MetadataResponse, asked: list[str] | None) -> None:
        self.updated_ms = self._world.clock.monotonic_ms()
        before = self.cluster
        topics = {}
        for told in response.topics:
            if told.name is not None:
                topics[told.name] = _merged(told, before.topics.get(told.name))
        if asked is not None:
            # What was wanted only after the request went out keeps what is known of it.
            for name in self.topics:
                if name not in topics and name in before.topics and name not in asked:
                    topics[name] = before.topics[name]
        is_open = any(
            (info.error_code and info.error_code not in PERMANENT)
            or any(one.error_code == LeaderNotAvailable.code for one in info.partitions.values())
            for info in topics.values()
        )
        nodes = {one.node_id: Node(one.node_id, one.host, one.port, one.rack) for one in response.brokers}
        self._set(
            Cluster(
                nodes,
                topics,
                {info.topic_id: name for name, info in topics.items() if info.topic_id != ZERO_UUID},
                response.cluster_id,
                response.controller_id,
                before.version + 1,
            )
        )
        if before.cluster_id is None and response.cluster_id is not None:
            log.info("[%s] Cluster ID: %s", self._name, response.cluster_id)
        missing = [name for name, info in topics.items() if info.error_code == UnknownTopicOrPartition.code]
        if missing and not self.wants_all:
            log.log(logging.WARNING if before.version > 1 else logging.DEBUG,
                    "[%s] The metadata response reported topics that do not exist: %s", self._name,
                    ", ".join(missing))  # fmt: skip
        if is_open and not self.wants_all:
            self._is_wanted = True

    def _set(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._network.set_nodes(cluster.nodes)
        for told in list(self.on_update):
            told(cluster)

    def update_leader(self, partition: TopicPartition, leader: int, leader_epoch: int, nodes: Iterable[Node]) -> bool:
        """A broker told who leads now, beside its refusal (KIP-951); whether that was news."""
        cluster = self.cluster
        info = cluster.partition(partition)
        if info is None or leader < 0 or leader_epoch <= info.leader_epoch:
            return False
        known = {**cluster.nodes, **{node.node_id: node for node in nodes}}
        if leader not in known:
            return False
        topic = cluster.topics[partition.topic]
        moved = replace(info, leader=leader, leader_epoch=leader_epoch)
        topic = replace(topic, partitions={**topic.partitions, partition.partition: moved})
        self._set(replace(cluster, nodes=known, topics={**cluster.topics, partition.topic: topic}))
        return True

    # Ending

    def close(self) -> None:
        """Ask no more. Who waits is told with `ClientClosed`."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        self._fail(waiting, self._closed())

    def _closed(self) -> ClientClosed:
        return ClientClosed(f"[{self._name}] the client is closed")

    def _fail(self, waiting: list[Promise[Cluster]], error: KafkaError) -> None:
        for promise in waiting:
            if not promise.done():
                promise.set_exception(error)


def _merged(told: MetadataResponseTopic, known: TopicInfo | None) -> TopicInfo:
    """What a broker tells of a topic, but for partitions of which something newer is known."""
    assert told.name is not None
    name = told.name
    is_same = known is not None and (known.topic_id == told.topic_id or told.topic_id == ZERO_UUID)
    partitions = {}
    for one in sorted(told.partitions, key=lambda one: one.partition_index):
        info = PartitionInfo(
            name,
            one.partition_index,
            one.leader_id if one.error_code == 0 or one.leader_id >= 0 else NO_NODE,
            one.leader_epoch,
            tuple(one.replica_nodes),
            tuple(one.isr_nodes),
            tuple(one.offline_replicas),
            one.error_code,
        )
        if is_same and known is not None:
            older = known.partitions.get(one.partition_index)
            if older is not None and one.leader_epoch >= 0 and older.leader_epoch > one.leader_epoch:
                info = older
        partitions[one.partition_index] = info
    return TopicInfo(
        name,
        Uuid(told.topic_id),
        partitions,
        told.is_internal,
        told.error_code,
        told.topic_authorized_operations,
    )

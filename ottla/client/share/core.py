"""A share consumer without a face: membership, records on their way to the user, and what the user says of them.

`AsyncShareConsumer` and `ShareConsumer` are two faces of a `ShareCore`. It lives on the loop; `acknowledge` and
`wakeup` may be called from elsewhere, as long as the user's own calls come one at a time. Promises: a record is the
user's until it was acknowledged, or until its lock has run out; the next poll accepts what the last one returned
(implicit), or is refused while anything is not acknowledged (explicit).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ottla.client.config import ShareConsumerConfig
from ottla.client.errors import ClientClosed, IllegalState, Wakeup
from ottla.client.group.context import Coordination
from ottla.client.group.poll_watch import PollWatch
from ottla.client.metrics import HeartbeatMetrics, Metrics, NetworkMetrics, PollMetrics, ShareFetchMetrics
from ottla.client.network import Deadline, Metadata, NetworkClient
from ottla.client.share.acknowledgements import Acknowledgements, AcknowledgeType
from ottla.client.share.delivered import NOT_THERE, Delivered
from ottla.client.share.fetcher import ShareFetcher
from ottla.client.share.session import IdPartition
from ottla.client.share.share_membership import ShareMembership
from ottla.errors import KafkaError
from ottla.records import RawRecord
from ottla.types import TopicPartition
from ottla.world import ClientWorld, Promise

NodeAcks = dict[int, dict[IdPartition, Acknowledgements]]


class Told(NamedTuple):
    """What became of acknowledgements, for the user's callback."""

    topic_partition: TopicPartition
    offsets: frozenset[int]
    error: KafkaError | None


class ShareCore:
    def __init__(self, world: ClientWorld, config: ShareConsumerConfig) -> None:
        assert config.group_id is not None, "the settings have seen to it"
        self.world = world
        self.config = config
        self.name = f"ShareConsumer clientId={config.client_id}, groupId={config.group_id}"
        self._is_implicit = config.share_acknowledgement_mode == "implicit"
        self.metrics = Metrics(
            config.client_id,
            world.clock.monotonic_ms,
            window_ms=config.metrics_sample_window_ms,
            window_count=config.metrics_num_samples,
        )
        measured = NetworkMetrics(self.metrics, "consumer")
        self.network = NetworkClient(world, config, name=self.name, measured=measured)
        self.metadata = Metadata(self.network, auto_create=config.allow_auto_create_topics)
        coordination = Coordination(self.network, self.metadata, config.group_id)
        self.fetch_metrics = ShareFetchMetrics(self.metrics)
        self.poll_metrics = PollMetrics(self.metrics, "consumer-share-metrics")
        self.membership = ShareMembership(coordination, config, HeartbeatMetrics(self.metrics), self._on_assignment)
        self.fetcher = ShareFetcher(
            self.network,
            self.metadata,
            config,
            group_id=config.group_id,
            member_id=self.membership.member.member_id,
            assignment=lambda: self.membership.assignment,
            metrics=self.fetch_metrics,
            on_told=self._on_told,
            on_arrived=self.signal,
        )
        self._watch = PollWatch(
            world,
            self.name,
            interval_ms=config.max_poll_interval_ms,
            records_max=config.max_poll_records,
            matters=lambda: self.membership.is_active,
            on_late=self.membership.on_poll_too_late,
        )
        self.metadata.on_update.append(lambda _: self.signal())
        self.metadata.on_error.append(self.fetcher.fail)
        self._delivered: dict[IdPartition, Delivered] = {}
        self._names: dict[IdPartition, TopicPartition] = {}
        self._error: KafkaError | None = None
        """What the next poll raises, after the records before it were given."""
        self.told: deque[Told] = deque()
        self.wants_told = False
        """Somebody wants to know what becomes of acknowledgements."""
        self._waiting: Promise[None] | None = None
        self.is_woken = False
        self.is_closed = False

    # Signals

    def signal(self) -> None:
        """Something has happened that a poll may wait for."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def _wait(self, timeout_ms: float) -> None:
        promise = self._waiting = self.world.tasks.promise()
        timer = self.world.tasks.later(max(timeout_ms, 0), self.signal)
        try:
            await promise
        finally:
            timer.cancel()

    def wakeup(self) -> None:
        """End the poll that waits, or the next one."""
        self.is_woken = True
        self.signal()

    def _check_woken(self) -> None:
        if self.is_woken:
            self.is_woken = False
            raise Wakeup

    def check_open(self) -> None:
        if self.is_closed:
            raise ClientClosed("This share consumer has already been closed.")

    def _on_assignment(self) -> None:
        self._names.update({key: partition for partition, key in self.membership.assignment.items()})
        self.signal()

    # The subscription

    def subscribe(self, topics: Iterable[str]) -> None:
        names = tuple(dict.fromkeys(topics))
        self.metadata.set_topics(names)
        self.membership.subscribe(names)

    @property
    def subscription(self) -> set[str]:
        return set(self.membership.member.topics)

    async def unsubscribe(self, timeout_ms: float) -> None:
        """Leave the group; what was not acknowledged is released."""
        deadline = Deadline(self.world, timeout_ms)
        await self._settle(deadline)
        await self.membership.leave(deadline.left_ms)
        self._watch.stop()
        self._delivered = {}

    async def _settle(self, deadline: Deadline) -> None:
        """Send what the user has acknowledged, and give back the rest."""
        acks = self._take_acks()
        if acks:
            await self.fetcher.acknowledge_and_wait(acks, deadline.left_ms)
        await self.fetcher.end_sessions(deadline.left_ms or 0.0)

    # Records

    async def poll(self, timeout_ms: float | None) -> list[RawRecord]:
        """The next records that were acquired; none when there are none in time."""
        self.check_open()
        if not self.membership.member.topics:
            raise IllegalState("Consumer is not subscribed to any topics.")
        if self._is_implicit:
            self._accept_all()
        elif not all(one.is_acknowledged for one in self._delivered.values()):
            raise IllegalState("All records must be acknowledged in explicit acknowledgement mode.")
        deadline = Deadline(self.world, timeout_ms)
        acks = self._take_acks()
        self.poll_metrics.began()
        try:
            while True:
                self._check_woken()
                self._watch.note()
                self._watch.watch()
                records = self._next(acks)
                if records:
                    return records
                if deadline.has_passed:
                    return []
                await self._wait(deadline.at_most(self.config.max_poll_interval_ms / 3))
                self.check_open()
        finally:
            self.poll_metrics.ended()
            self.fetcher.stop_wanting()
            if acks:
                self.fetcher.acknowledge(acks, self.config.default_api_timeout_ms, lambda _: None)

    def _next(self, acks: NodeAcks) -> list[RawRecord]:
        """What there is for the user just now; else more is asked for, and `acks` go with that."""
        renewed = [record for one in self._delivered.values() for record in one.take_renewed()]
        if renewed:
            return renewed
        if any(one.has_renewals for one in self._delivered.values()):
            # Records that the user wants to keep come first: nothing new is acquired before that is settled.
            self._send(acks)
            return []
        records = self._collect()
        if records:
            return records
        error, self._error = self._error, None
        if error is None and self.fetcher.errors:
            error = self.fetcher.errors.popleft()
        if error is not None:
            raise error
        self.membership.on_poll()
        for node_id, found in self._take_acks().items():  # gaps
            acks.setdefault(node_id, {}).update(found)
        sent, rest = dict(acks), acks
        rest.clear()
        self.fetcher.want(sent)
        return []

    def _send(self, acks: NodeAcks) -> None:
        sent = dict(acks)
        acks.clear()
        self.fetcher.acknowledge(sent, self.config.default_api_timeout_ms, lambda _: None)

    def _collect(self) -> list[RawRecord]:
        """Records that have arrived, about `max.poll.records` of them."""
        taken: list[RawRecord] = []
        arrived = self.fetcher.arrived
        while arrived and len(taken) < self.config.max_poll_records and self._error is None:
            acquired = arrived[0]
            into = self._delivered.get(acquired.key)
            if into is None or not (into.records or into.acks):
                into = Delivered(acquired.topic_partition, acquired.key, acquired.node_id)
                self._delivered[acquired.key] = into
            elif into.node_id != acquired.node_id:
                break  # the leader has moved: what it gave is acknowledged there first
            taken += acquired.take(self.config.max_poll_records - len(taken), into)
            self._error, acquired.error = acquired.error, None
            if acquired.is_drained:
                arrived.popleft()
        return taken

    def give_back(self, records: Iterable[RawRecord]) -> None:
        """These could not be given to the user: another may try."""
        for record in records:
            one = self._find(record.topic, record.partition)
            if one is not None and record.offset in one.records:
                one.acknowledge(record.offset, AcknowledgeType.RELEASE)

    # Acknowledging

    def acknowledge(self, topic: str, partition: int, offset: int, kind: AcknowledgeType) -> None:
        """Say of one record what is to become of it; the next poll or commit tells the broker."""
        if self._is_implicit:
            raise IllegalState("Implicit acknowledgement of delivery is being used.")
        one = self._find(topic, partition)
        if one is None:
            raise IllegalState(NOT_THERE)
        one.acknowledge(offset, kind)

    def _find(self, topic: str, partition: int) -> Delivered | None:
        wanted = TopicPartition(topic, partition)
        for one in self._delivered.values():
            if one.topic_partition == wanted:
                return one
        return None

    def _accept_all(self) -> None:
        for one in self._delivered.values():
            one.acknowledge_all(AcknowledgeType.ACCEPT)

    def _take_acks(self) -> NodeAcks:
        """What the user has acknowledged, by broker."""
        acks: NodeAcks = {}
        for key, one in list(self._delivered.items()):
            found = one.take_acks()
            if found:
                acks.setdefault(one.node_id, {})[key] = found
            if one.is_empty:
                del self._delivered[key]
        return acks

    async def commit(self, timeout_ms: float | None) -> dict[TopicPartition, KafkaError | None]:
        """Tell the brokers what was acknowledged; what became of it, by partition."""
        self.check_open()
        if self._is_implicit:
            self._accept_all()
        answers = await self.fetcher.acknowledge_and_wait(self._take_acks(), timeout_ms)
        return {self._name(key): error for key, error in answers.items()}

    def commit_async(self) -> None:
        """The same without waiting."""
        self.check_open()
        if self._is_implicit:
            self._accept_all()
        self.fetcher.acknowledge(self._take_acks(), self.config.default_api_timeout_ms, lambda _: None)

    def _name(self, key: IdPartition) -> TopicPartition:
        return self._names.get(key) or TopicPartition(str(key.topic_id), key.partition)

    def _on_told(self, key: IdPartition, acks: Acknowledgements, error: KafkaError | None) -> None:
        one = self._delivered.get(key)
        if one is not None and one.has_renewals:
            one.on_told(acks, error)
            if one.is_empty:
                del self._delivered[key]
        if self.wants_told:
            self.told.append(Told(self._name(key), frozenset(acks.types), error))
        self.signal()

    # The end

    async def close(self, timeout_ms: float) -> None:
        """Send what was acknowledged, release the rest, leave the group and end all connections."""
        if self.is_closed:
            return
        self.is_closed = True
        self.signal()
        deadline = Deadline(self.world, timeout_ms)
        try:
            await self._settle(deadline)
            await self.membership.leave(deadline.left_ms)
        finally:
            self.abort()

    def abort(self) -> None:
        """End everything at once."""
        self.is_closed = True
        self._watch.stop()
        self.membership.close()
        self.fetcher.close()
        self.metadata.close()
        self.network.close()


CommitCallback = Callable[[dict[TopicPartition, frozenset[int]], KafkaError | None], object]
"""Called with the offsets whose acknowledgements were answered, and why they were refused."""

"""A consumer without a face: everything but the user's own code, which the faces run where the user is.

`AsyncConsumer` and `Consumer` are two faces of a `ConsumerCore`. It lives on the loop, and only `take`, `wakeup` and
`note_poll` may be called from elsewhere. What concerns the user's code (listeners, callbacks of commits, interceptors,
deserializers) it hands to the face. Promises: an error that the user must hear of is raised by one poll, and fetching
goes on after that; `wakeup` ends one wait, the present one or the next.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.config import ConsumerConfig, OffsetReset
from ottla.client.consumer.fetch_buffer import FetchBuffer, Fetched, RawBatch, RawRecord
from ottla.client.consumer.fetcher import Fetcher
from ottla.client.consumer.offset_lookup import FoundOffset, OffsetLookup
from ottla.client.consumer.partition_state import NO_EPOCH, PartitionState, Position, Status
from ottla.client.consumer.positions import Positions, Trouble
from ottla.client.consumer.subscription_state import Choice, SubscriptionPattern, SubscriptionState, as_position
from ottla.client.errors import ClientClosed, IllegalState, KafkaTimeout, Wakeup
from ottla.client.group import (
    CommitCallback,
    Completion,
    GroupMetadata,
    OffsetAndMetadata,
    Offsets,
    RebalanceEvent,
    RebalanceKind,
    Subscription,
)
from ottla.client.metrics import FetchMetrics, Metrics, NetworkMetrics, PollMetrics
from ottla.client.network import Build, Cluster, Deadline, Metadata, NetworkClient, PartitionInfo, within
from ottla.errors import (
    InvalidGroupId,
    InvalidTopicException,
    KafkaError,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
    error_class,
)
from ottla.types import TopicPartition
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.world import ClientWorld, Promise

if TYPE_CHECKING:
    from ottla.client.group import ConsumerGroup

log = logging.getLogger(__name__)

T = TypeVar("T")

METADATA_KEY = 3
NO_CREATION_VERSION = 4
NO_GROUP = "group.id is not set: without one there is no group to subscribe in, and none to commit offsets for"
ERRORS_MAX = 16
"""Errors that wait for a poll; more are the same ones again."""


class ConsumerCore:
    """All of a consumer that runs on the loop."""

    def __init__(self, world: ClientWorld, config: ConsumerConfig) -> None:
        self.world = world
        self.config = config
        self.name = f"Consumer clientId={config.client_id}" + (
            f", groupId={config.group_id}" if config.group_id else ""
        )
        self.is_read_committed = config.isolation_level == "read_committed"
        self.metrics = Metrics(
            config.client_id,
            world.clock.monotonic_ms,
            window_ms=config.metrics_sample_window_ms,
            window_count=config.metrics_num_samples,
        )
        measured = NetworkMetrics(self.metrics, "consumer")
        self.network = NetworkClient(world, config, name=self.name, measured=measured)
        self.metadata = Metadata(self.network, auto_create=config.allow_auto_create_topics)
        self.subscription = SubscriptionState()
        self.buffer = FetchBuffer(self.subscription)
        self.buffer.on_consumed = self._on_consumed
        self.fetch_metrics = FetchMetrics(self.metrics)
        self.poll_metrics = PollMetrics(self.metrics)
        self.lookup = OffsetLookup(self.network, self.metadata, is_read_committed=self.is_read_committed)
        self.group: ConsumerGroup | None = None
        if config.group_id is not None:
            from ottla.client.group import ConsumerGroup

            self.group = ConsumerGroup(self.network, self.metadata, config, self)
        self.fetcher = Fetcher(
            self.network,
            self.metadata,
            config,
            self.subscription,
            self.buffer,
            on_arrived=self.signal,
            on_error=self.fail,
            on_reset_wanted=self._look_for_positions,
            metrics=self.fetch_metrics,
        )
        self.positions_finder = Positions(
            self.network,
            self.metadata,
            config,
            self.subscription,
            self.lookup,
            committed=None if self.group is None else self._committed_positions,
            on_found=self._on_positions,
            on_error=self.fail,
        )
        self.metadata.on_update.append(self._on_metadata)
        self.metadata.on_error.append(self.fail)
        self._transient: dict[str, int] = {}
        """Topics that somebody asks about just now, and how many do."""
        self._errors: deque[Trouble] = deque()
        self._has_topic_trouble = False
        self.signal_count = 0
        self._waiting: dict[Promise[None], None] = {}
        self._interruptible: dict[Promise[Any], None] = {}
        self.is_woken = False
        self.is_closed = False

    # Waking

    @property
    def has_something_to_do(self) -> bool:
        """Whether a poll must come to the loop, and not only to the buffer. From any thread."""
        group = self.group
        return bool(
            self.is_woken
            or self.is_closed
            or self.fetcher.is_stopped  # by an error that is to be raised, or that was: then fetching begins again
            or (group is not None and (group.events or group.commits.completions))
        )

    def signal(self) -> None:
        """Something has happened that somebody may wait for."""
        self.signal_count += 1
        waiting, self._waiting = self._waiting, {}
        for promise in waiting:
            if not promise.done():
                promise.set_result(None)

    on_group_event = signal

    async def wait(self, timeout_ms: float | None, seen: int) -> None:
        """Wait for a `signal` after the `signal_count` that was seen, and at most so long."""
        if self.signal_count != seen:
            return
        promise = self.world.tasks.promise()
        self._waiting[promise] = None

        def time_out() -> None:
            if not promise.done():
                promise.set_result(None)

        timer = None if timeout_ms is None else self.world.tasks.later(max(timeout_ms, 0), time_out)
        try:
            await promise
        finally:
            self._waiting.pop(promise, None)
            if timer is not None:
                timer.cancel()

    def wakeup(self) -> None:
        """End the present wait with `Wakeup`, or the next, after `is_woken` was set, from wherever. On the loop."""
        if not self.is_woken:
            return  # somebody has heard of it already, between the setting and this call
        for promise in list(self._interruptible):
            if not promise.done():
                self.is_woken = False
                promise.set_exception(Wakeup())
        self.signal()

    async def interruptible(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives, unless `wakeup` comes first: then that is cancelled."""
        if self.is_woken:
            work.close()
            self.raise_wakeup()
        done: Promise[T] = self.world.tasks.promise()
        has_begun = False

        async def run() -> None:
            nonlocal has_begun
            has_begun = True
            try:
                value = await work
            except Exception as error:  # noqa: BLE001  it is the caller's
                if not done.done():
                    done.set_exception(error)
            else:
                if not done.done():
                    done.set_result(value)

        task = self.world.tasks.spawn(run(), f"a call of {self.name}")
        self._interruptible[done] = None
        try:
            value: T = await done
            return value
        finally:
            self._interruptible.pop(done, None)
            task.cancel()
            if not has_begun:
                work.close()

    def raise_wakeup(self) -> None:
        if self.is_woken:
            self.is_woken = False
            raise Wakeup

    def fail(self, error: Trouble) -> None:
        """The next poll raises this, unless it is settled by then; nothing is fetched before that."""
        if len(self._errors) < ERRORS_MAX:
            self._errors.append(error)
        self.fetcher.is_stopped = self.positions_finder.is_stopped = True
        self.signal()

    def raise_error(self) -> None:
        """Raise what the user must hear of, one at a time; what the user has settled meanwhile is no news."""
        while self._errors:
            trouble = self._errors.popleft()
            error = trouble if isinstance(trouble, KafkaError) else trouble()
            if error is not None:
                raise error

    def go_on(self) -> None:
        """Look for positions, and fetch."""
        self.fetcher.is_stopped = self.positions_finder.is_stopped = bool(self._errors)
        self.positions_finder.go_on()
        self.fetcher.go_on()

    def _look_for_positions(self) -> None:
        self.positions_finder.go_on()

    def _on_positions(self) -> None:
        self.fetcher.go_on()
        self.signal()

    def check_open(self) -> None:
        if self.is_closed:
            raise ClientClosed("This consumer has already been closed.")

    def check_poll(self, timeout: float | None) -> None:
        """`IllegalState` for a poll that nothing could ever come of."""
        if timeout is not None and timeout < 0:
            raise ValueError("Timeout must not be negative")
        if self.subscription.choice is Choice.NONE:
            self.check_open()
            raise IllegalState("Consumer is not subscribed to any topics or assigned any partitions")

    # The subscription

    def subscribe(self, choice: Sequence[str] | re.Pattern[str] | SubscriptionPattern) -> None:
        """Have the group assign partitions of these topics; `unsubscribe` is for an empty list."""
        self.need_group()
        subscription = self.subscription
        if isinstance(choice, SubscriptionPattern):
            subscription.subscribe_server_pattern(choice)
        elif isinstance(choice, re.Pattern):
            subscription.subscribe_pattern(choice)
            self._match(self.metadata.cluster)
        else:
            subscription.subscribe_topics(choice)
        self.watch_topics()
        self._tell_group()

    def _tell_group(self) -> None:
        assert self.group is not None, "only a member has a subscription"
        pattern = self.subscription.server_pattern
        self.group.subscribe(Subscription(self.subscription.topics, None if pattern is None else pattern.pattern))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without a group's help."""
        if self.group is not None and self.config.enable_auto_commit and self.positions():
            self.group.commits.commit_async(None, None)  # what was read of those that go
        self.subscription.assign_by_user(partitions)
        self._assignment_changed()
        self.go_on()

    def forget_subscription(self) -> None:
        """Nothing is read any more; the group has been left."""
        self.subscription.unsubscribe()
        self._assignment_changed()

    def _assignment_changed(self) -> None:
        self.watch_topics()
        self.fetch_metrics.assigned(self.subscription.partitions, self._preferred_replica)

    def _preferred_replica(self, partition: TopicPartition) -> int:
        state = self.subscription.partitions.get(partition)
        return -1 if state is None else state.preferred_replica

    def watch_topics(self) -> None:
        """Ask the cluster about what is read, and about nothing else."""
        topics = self.subscription.watched_topics()
        if self.group is not None:
            topics.update(self.group.watched_topics())
        topics.update(self._transient)
        self.metadata.set_topics(sorted(topics), wants_all=self.subscription.choice is Choice.PATTERN)

    def _match(self, cluster: Cluster) -> bool:
        is_excluding = self.config.exclude_internal_topics
        return self.subscription.match_topics(
            name
            for name, info in cluster.topics.items()
            if not info.error_code and not (is_excluding and info.is_internal)
        )

    def _on_metadata(self, cluster: Cluster) -> None:
        subscription = self.subscription
        if subscription.choice is Choice.PATTERN and self._match(cluster):
            self.watch_topics()
            self._tell_group()
        if not self._has_topic_trouble and self._refused_topic() is not None:
            self._has_topic_trouble = True
            self.fail(self._topic_trouble)
        self.signal()

    def _topic_trouble(self) -> KafkaError | None:
        self._has_topic_trouble = False
        return self._refused_topic()

    def _refused_topic(self) -> KafkaError | None:
        """The error of a topic that this consumer reads and may not, or that nobody can read."""
        topics = self.metadata.cluster.topics
        for name in sorted(self.subscription.watched_topics()):
            info = topics.get(name)
            if info is not None and info.error_code == TopicAuthorizationFailed.code:
                return TopicAuthorizationFailed(f"Not authorized to access topics: [{name}]")
            if info is not None and info.error_code == InvalidTopicException.code:
                return InvalidTopicException(f"Invalid topics: [{name}]")
        return None

    # Polling

    def note_poll(self) -> bool:
        """The user polls; whether the poll must come to the loop. From any thread."""
        return (self.group is not None and self.group.note_poll()) or self.has_something_to_do

    def begin_poll(self) -> None:
        """On the loop, at the beginning of a poll and after every wait in it. Raises what the user must hear of."""
        self.check_open()
        self.raise_wakeup()
        group = self.group
        if group is not None and group.note_poll():
            group.on_poll()
        self.raise_error()
        self.go_on()

    def poll_wait_ms(self, left_ms: float | None) -> float:
        """How long a poll may sleep before `begin_poll` wants to be called again."""
        wait_ms = self.config.max_poll_interval_ms / 2 if left_ms is None else left_ms
        due_ms = None if self.group is None else self.group.next_poll_ms()
        wait_ms = wait_ms if due_ms is None else min(wait_ms, due_ms)
        return min(wait_ms, self.config.max_poll_interval_ms / 2)

    def take(self, limit: int) -> tuple[list[RawRecord], bool]:
        """Records from the buffer, and whether they are final. From the one thread that polls."""
        return self.buffer.take(limit)

    def _on_consumed(self, fetched: Fetched) -> None:
        """The user is done with a fetch. On the thread that polls."""
        state = fetched.state
        self.fetch_metrics.consumed([(state.topic_partition.topic, fetched.size, fetched.given_count)])
        lag, position = state.lag(is_read_committed=self.is_read_committed), state.position
        if lag is not None and position is not None:
            lead = position.offset - max(state.log_start_offset or 0, 0)
            self.fetch_metrics.position(state.topic_partition, lag=lag, lead=lead)

    def take_batches(self, bytes_max: int) -> list[tuple[PartitionState, list[RawBatch]]]:
        """Batches from the buffer that are not decoded. From the one thread that polls."""
        return self.buffer.take_batches(bytes_max)

    def rewind(self, places: Iterable[tuple[PartitionState, Position]]) -> None:
        """What was taken could not all be used: go back to these places."""
        for state, position in places:
            if self.subscription.partitions.get(state.topic_partition) is state:
                state.seek_validated(position)
        self.go_on()

    def next_event(self) -> RebalanceEvent | None:
        """The next change of the assignment, to be carried out: `begin_event`, the listener, `end_event`."""
        group = self.group
        return group.events.popleft() if group is not None and group.events else None

    def next_completion(self) -> Completion | None:
        """The next asynchronous commit that has ended, for its callback."""
        group = self.group
        completions = None if group is None else group.commits.completions
        return completions.popleft() if completions else None

    async def begin_event(self, event: RebalanceEvent) -> None:
        """Before the listener."""
        assert self.group is not None, "only a group makes events"
        partitions = self.subscription.partitions
        if event.kind is RebalanceKind.ASSIGNED:
            self._set_assignment(event)
        for partition in event.partitions:
            state = partitions.get(partition) or self.subscription.partitions.get(partition)
            if state is not None:
                state.is_held = True
        await self.group.prepare(event)

    def begin_leave(self, timeout_ms: float) -> RebalanceEvent | None:
        """Stop being a member; the event gives up all that is assigned. What it commits takes no longer than that."""
        assert self.group is not None, "only a group can be left"
        event = self.group.begin_leave(timeout_ms)
        if event is None and self.subscription.is_by_group and self.subscription.partitions:
            # The group has not heard yet that the last event was carried out, and takes nothing back.
            partitions = tuple(self.subscription.partitions)
            event = RebalanceEvent(RebalanceKind.REVOKED, partitions, (), self.world.tasks.promise())
        return event

    def put_back(self, event: RebalanceEvent) -> None:
        """The caller was stopped before the listener heard of `event`: the next poll begins with it again."""
        assert self.group is not None, "only a group makes events"
        self.group.events.appendleft(event)

    def end_event(self, event: RebalanceEvent) -> None:
        """After the listener, whatever became of it."""
        if event.kind is RebalanceKind.ASSIGNED:
            for partition in event.partitions:
                state = self.subscription.partitions.get(partition)
                if state is not None:
                    state.is_held = False
        else:
            self._set_assignment(event)
        if not event.done.done():
            event.done.set_result(None)
        self.go_on()

    def _set_assignment(self, event: RebalanceEvent) -> None:
        if self.subscription.is_by_group:
            self.subscription.assign_by_group(event.assignment)
            self._assignment_changed()

    # Places

    def positions(self) -> Offsets:
        """Where the user stands (for the group's commits)."""
        return self.subscription.positions()

    async def _committed_positions(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return await self.need_group().commits.committed(partitions, self.config.default_api_timeout_ms)

    def seek(self, partition: TopicPartition, place: int | OffsetAndMetadata) -> None:
        position = as_position(place)
        state = self.subscription.state(partition)
        info = self.metadata.cluster.partition(partition)
        if info is not None:
            state.leader_epoch = max(state.leader_epoch, info.leader_epoch, NO_EPOCH)
        log.info("[%s] Seeking to offset %d for partition %s", self.name, position.offset, partition)
        state.seek(position)
        self.go_on()

    def seek_by(self, partitions: Iterable[TopicPartition] | None, reset: OffsetReset) -> None:
        """Go to the beginning or the end of these, or of all, as soon as that is known."""
        for partition in list(partitions or self.subscription.partitions):
            self.subscription.state(partition).request_reset(reset)
        self.go_on()

    async def position(self, partition: TopicPartition, timeout_ms: float) -> int:
        """The next offset to be given to the user, waiting until there is one."""
        deadline = Deadline(self.world, timeout_ms)
        while True:
            seen = self.signal_count
            state = self.subscription.state(partition)
            self.raise_error()
            if state.position is not None and state.status in (Status.FETCHING, Status.AWAIT_VALIDATION):
                return state.position.offset
            state.is_held = False  # a listener that asks wants what is committed, and will not seek first
            self.positions_finder.go_on()
            if deadline.has_passed:
                raise KafkaTimeout(
                    f"Timeout of {timeout_ms:.0f} ms expired before the position for partition {partition} could be "
                    f"determined{self._why()}"
                )
            await self.wait(deadline.left_ms, seen)

    def _why(self) -> str:
        """What keeps the cluster from answering, as the end of a message."""
        error = self.metadata.last_error
        return "" if error is None else f": {error}"

    def stands_at(self, partition: TopicPartition) -> int:
        """The position of a partition that has one."""
        position = self.subscription.state(partition).position
        assert position is not None, "somebody has looked for it, or sought it"
        return position.offset

    def set_paused(self, partitions: Iterable[TopicPartition], is_paused: bool) -> None:
        states = [self.subscription.state(partition) for partition in partitions]
        for state in states:
            state.is_paused = is_paused
        # Also when paused: what was fetched ahead of these kept their broker from being asked for the others.
        self.go_on()
        if not is_paused:
            self.signal()

    @contextmanager
    def _asking_about(self, topics: Iterable[str]) -> Iterator[None]:
        """Have the metadata of topics that may be nobody's, for as long as this lasts."""
        names = sorted(set(topics))
        for name in names:
            self._transient[name] = self._transient.get(name, 0) + 1
        self.watch_topics()
        try:
            yield
        finally:
            for name in names:
                self._transient[name] -= 1
                if not self._transient[name]:
                    del self._transient[name]
            if not self.is_closed:
                self.watch_topics()

    async def offsets(
        self, targets: Mapping[TopicPartition, int], timeout_ms: float
    ) -> dict[TopicPartition, FoundOffset | None]:
        """The offset of a timestamp, or of an end, for each."""
        if not targets:
            return {}
        with self._asking_about(partition.topic for partition in targets):
            return await self.lookup.find(targets, timeout_ms)

    # The cluster

    async def topics(self, names: Iterable[str] | None, timeout_ms: float) -> dict[str, list[PartitionInfo]]:
        """Partitions of these topics, or of all, asked now. A topic that does not exist is not in it."""
        asked = None if names is None else [MetadataRequestTopic(name=name) for name in sorted(set(names))]
        is_creating = asked is not None and self.config.allow_auto_create_topics
        build = Build(
            METADATA_KEY,
            lambda _: MetadataRequest(topics=asked, allow_auto_topic_creation=is_creating),
            version_min=1 if is_creating or asked is None else NO_CREATION_VERSION,
        )
        deadline = Deadline(self.world, timeout_ms)
        failures = 0
        while True:
            try:
                promise = self.network.send(self.network.least_loaded(), build, timeout_ms=deadline.at_most(timeout_ms))
                response: MetadataResponse = await within(self.world, promise, deadline.left_ms, "Metadata")
                return self._described(response, has_retries=asked is not None and not deadline.has_passed)
            except KafkaError as error:
                if not error.retriable or deadline.has_passed:
                    raise
                await self.world.tasks.sleep_ms(deadline.at_most(self.network.retry_backoff.delay_ms(failures)))
                failures += 1
                if deadline.has_passed:
                    raise KafkaTimeout(
                        f"Timeout expired while fetching topic metadata, after {timeout_ms:g} ms: {error}"
                    ) from error

    def _described(self, response: MetadataResponse, *, has_retries: bool) -> dict[str, list[PartitionInfo]]:
        found = {}
        for topic in response.topics:
            code, name = topic.error_code, topic.name
            if code == UnknownTopicOrPartition.code:
                continue
            if code:
                error = error_class(code)(f"{name}: {error_class(code).__doc__}")
                if has_retries or not error.retriable:
                    raise error
                continue
            assert name is not None, "topics were asked for by name"
            found[name] = [
                PartitionInfo(
                    name,
                    one.partition_index,
                    one.leader_id,
                    one.leader_epoch,
                    tuple(one.replica_nodes),
                    tuple(one.isr_nodes),
                    tuple(one.offline_replicas),
                    one.error_code,
                )
                for one in sorted(topic.partitions, key=lambda one: one.partition_index)
            ]
        return found

    # The group

    def need_group(self) -> ConsumerGroup:
        if self.group is None:
            raise InvalidGroupId(NO_GROUP)
        return self.group

    def group_metadata(self) -> GroupMetadata:
        return self.need_group().group_metadata()

    def commit_async(self, offsets: Offsets | None, callback: CommitCallback | None) -> None:
        self.need_group().commits.commit_async(offsets, callback)

    # Ending

    async def close_commits(self, timeout_ms: float) -> None:
        """What auto-commit still owes when partitions were assigned by hand."""
        if self.group is not None and self.subscription.choice is Choice.ASSIGNED:
            await self.group.auto_commit(timeout_ms)

    def close(self) -> None:
        """End everything. A second call does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        self.fetcher.close()
        self.positions_finder.close()
        if self.group is not None:
            self.group.close()
        self.metadata.close()
        self.network.close()
        self.buffer.clear()
        self.signal()

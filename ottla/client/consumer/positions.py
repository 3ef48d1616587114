"""The way of every assigned partition to a position: what was committed, the reset policy, and new leaders' consent.

A partition without a position gets the group's committed offset; without one, `auto.offset.reset` says where to look,
or that the user must hear of it (`NoOffsetForPartition`). A partition with a new leader is fetched again once that has
confirmed that it holds what was read before (KIP-320); if not, the position goes back to where the logs part, or the
user hears of it (`LogTruncation`). Promises: a partition that cannot be helped now does not hold up the others; what
fails for now is tried again after the backoff. Everything runs on the loop; called by the consumer.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import NamedTuple, TypeAlias

from ottla.client.config import ConsumerConfig, OffsetReset, ResetKind
from ottla.client.consumer.offset_lookup import EARLIEST, LATEST, PASSING, FoundOffset, OffsetLookup
from ottla.client.consumer.partition_state import NO_EPOCH, PartitionState, Position, Status
from ottla.client.consumer.subscription_state import SubscriptionState, as_position
from ottla.client.errors import ClientClosed, LogTruncation, NoOffsetForPartition, as_kafka_error
from ottla.client.group import OffsetAndMetadata
from ottla.client.network import Build, Cluster, Metadata, NetworkClient
from ottla.errors import KafkaError, TopicAuthorizationFailed, UnsupportedVersion, error_class
from ottla.types import TopicPartition
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.world import Task, Timer

log = logging.getLogger(__name__)

EPOCH_KEY = 23
EPOCH_VERSION_MIN = 3
"""Older brokers ask for a permission that consumers do not have (KIP-320)."""

Committed = Callable[[Iterable[TopicPartition]], Awaitable[dict[TopicPartition, OffsetAndMetadata | None]]]
"""What the group has committed."""

Trouble: TypeAlias = KafkaError | Callable[[], KafkaError | None]
"""What the user must hear of: an error, or what makes one if there still is one when the user listens."""


class Positions:
    """Finds the positions that are missing, and checks those that a new leader has to confirm."""

    def __init__(
        self,
        network: NetworkClient,
        metadata: Metadata,
        config: ConsumerConfig,
        subscription: SubscriptionState,
        lookup: OffsetLookup,
        *,
        committed: Committed | None,
        on_found: Callable[[], object],
        on_error: Callable[[Trouble], object],
    ) -> None:
        self._network = network
        self._metadata = metadata
        self._config = config
        self._subscription = subscription
        self._lookup = lookup
        self._committed = committed
        self._on_found = on_found
        self._on_error = on_error
        self._world = network.world
        self._name = network.name
        self._tasks: list[Task[None]] = []
        self._busy: set[PartitionState] = set()
        """Those that somebody has been asked about, and has not answered yet."""
        self._timer: Timer | None = None
        self._is_closed = False
        self.is_stopped = False
        """The user has to hear of something first: until then it would only be met again."""
        metadata.on_update.append(self._on_metadata)

    def go_on(self) -> None:
        """Ask about every partition that needs it and is not asked about. To be called when there may be something."""
        if self._is_closed or self.is_stopped:
            return
        now_ms = self._world.clock.monotonic_ms()
        cluster = self._metadata.cluster
        wait_ms: float | None = None
        beginning: list[PartitionState] = []
        resets: dict[int, list[PartitionState]] = {}
        validations: dict[int, list[PartitionState]] = {}
        for state in self._subscription.partitions.values():
            if state.status is Status.FETCHING or state.is_held or state in self._busy:
                continue
            if state.fetch_at_ms > now_ms:
                left_ms = state.fetch_at_ms - now_ms
                wait_ms = left_ms if wait_ms is None else min(wait_ms, left_ms)
            elif state.status is Status.INITIALIZING:
                beginning.append(state)
            elif (leader := cluster.leader(state.topic_partition)) is None:
                self._metadata.request_update()  # and `go_on` follows with the answer
            else:
                by_leader = resets if state.status is Status.AWAIT_RESET else validations
                by_leader.setdefault(leader.node_id, []).append(state)
        if beginning:
            self._spawn(beginning, partial(self._initialize, beginning))
        for states in resets.values():
            self._spawn(states, partial(self._reset, states))
        for leader_id, states in validations.items():
            self._spawn(states, partial(self._validate, leader_id, states))
        if wait_ms is not None and self._timer is None:
            self._timer = self._world.tasks.later(wait_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.go_on()

    def close(self) -> None:
        """Look for nothing more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    def _spawn(self, states: list[PartitionState], work: Callable[[], Awaitable[None]]) -> None:
        """Do the work for these partitions, beside that for others, which need not wait for it."""
        self._busy.update(states)
        before = [state.status for state in states]

        async def run() -> None:
            try:
                await work()
            except ClientClosed:
                return
            except Exception as raised:  # noqa: BLE001  it is told to the user
                error = as_kafka_error(raised, "Positions could not be found")
                if error.retriable:
                    log.info("[%s] Positions could not be found yet: %s", self._name, error)
                else:
                    self._on_error(error)
            finally:
                self._busy.difference_update(states)
            at_ms = self._world.clock.monotonic_ms() + self._network.retry_backoff.delay_ms(0)
            for state, status in zip(states, before, strict=True):
                if state.status is status:
                    state.fetch_at_ms = at_ms
            self._on_found()
            self.go_on()

        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(self._world.tasks.spawn(run(), f"positions of {self._name}"))

    # Beginning

    async def _initialize(self, states: list[PartitionState]) -> None:
        if self._committed is not None:
            committed = await self._committed([state.topic_partition for state in states])
            for state in states:
                offset = committed.get(state.topic_partition)
                if offset is not None and self._is_still(state, Status.INITIALIZING):
                    log.info("[%s] Setting offset for partition %s to the committed offset %d", self._name,
                             state.topic_partition, offset.offset)  # fmt: skip
                    self._learn_leader(state)
                    state.seek(as_position(offset))
        states = [state for state in states if self._is_still(state, Status.INITIALIZING)]
        reset = self._config.offset_reset
        if states and reset.kind is ResetKind.NONE:
            self._on_error(lambda: self._undefined(states))
            return
        for state in states:
            state.request_reset(reset)

    def _undefined(self, states: list[PartitionState]) -> NoOffsetForPartition | None:
        """The error of partitions that still have no position, unless the user has sought one for each."""
        left = [state.topic_partition for state in states if self._is_still(state, Status.INITIALIZING)]
        return NoOffsetForPartition(left) if left else None

    def _is_still(self, state: PartitionState, status: Status) -> bool:
        """Whether the user or the group has not meanwhile gone elsewhere with it."""
        return self._subscription.partitions.get(state.topic_partition) is state and state.status is status

    # Resetting

    async def _reset(self, all_states: list[PartitionState]) -> None:
        states = {state.topic_partition: state for state in all_states}
        resets = {partition: state.reset for partition, state in states.items()}
        now_ms = self._world.clock.now_ms()
        targets = {partition: timestamp_of(reset, now_ms) for partition, reset in resets.items() if reset is not None}
        too_early: list[TopicPartition] = []

        def found(partition: TopicPartition, offset: FoundOffset | None) -> None:
            state = states[partition]
            if not self._is_still(state, Status.AWAIT_RESET) or state.reset is not resets[partition]:
                return
            if offset is None:
                too_early.append(partition)  # no record is so young: then it is the end
                return
            log.info("[%s] Resetting offset for partition %s to position %d", self._name, partition, offset.offset)
            self._learn_leader(state)
            state.seek_validated(Position(offset.offset, max(offset.leader_epoch, NO_EPOCH)))

        await self._lookup.ask(targets, found)
        if too_early:
            await self._lookup.ask(dict.fromkeys(too_early, LATEST), found)

    def _learn_leader(self, state: PartitionState) -> None:
        topic = self._metadata.cluster.topics.get(state.topic_partition.topic)
        if topic is not None:
            state.note_topic(topic.topic_id)
        info = self._metadata.cluster.partition(state.topic_partition)
        if info is not None:
            state.leader_epoch = max(state.leader_epoch, info.leader_epoch)

    # New leaders

    def _on_metadata(self, cluster: Cluster) -> None:
        for partition, state in self._subscription.partitions.items():
            topic = cluster.topics.get(partition.topic)
            if topic is not None:
                state.note_topic(topic.topic_id)
            info = cluster.partition(partition)
            if info is not None and info.leader_epoch >= 0:
                state.note_leader(info.leader_epoch)
        self.go_on()
        self._on_found()

    def _truncation(self, truncated: list[Truncated]) -> LogTruncation | None:
        """The error of partitions whose position is still one that the new leader does not hold."""
        left = [
            one
            for one in truncated
            if self._is_still(one.state, Status.AWAIT_VALIDATION) and one.state.position == one.position
        ]
        if not left:
            return None
        return LogTruncation(
            {one.state.topic_partition: one.position.offset for one in left},
            {one.state.topic_partition: one.divergent_offset for one in left},
        )

    async def _validate(self, leader_id: int, states: list[PartitionState]) -> None:
        # The user may have gone elsewhere before this had its turn: then there is nothing to confirm.
        asked = {
            state.topic_partition: (state, state.position)
            for state in states
            if state.position is not None and self._is_still(state, Status.AWAIT_VALIDATION)
        }
        if not asked:
            return
        topics: dict[str, OffsetForLeaderTopic] = {}
        for partition, (state, position) in asked.items():
            topic = topics.setdefault(partition.topic, OffsetForLeaderTopic(topic=partition.topic, partitions=[]))
            topic.partitions.append(
                OffsetForLeaderPartition(
                    partition=partition.partition,
                    current_leader_epoch=state.leader_epoch,
                    leader_epoch=position.epoch,
                )
            )
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=list(topics.values()))
        build = Build(EPOCH_KEY, lambda _: request, version_min=EPOCH_VERSION_MIN)
        try:
            response: OffsetForLeaderEpochResponse = await self._network.send(leader_id, build)
        except UnsupportedVersion:
            # Such a broker cannot tell: go on as Kafka's consumer does.
            for state in states:
                if self._is_still(state, Status.AWAIT_VALIDATION):
                    state.status = Status.FETCHING
            return
        truncated: list[Truncated] = []
        for told_topic in response.topics:
            for told in told_topic.partitions:
                place = asked.get(TopicPartition(told_topic.topic, told.partition))
                if place is not None:
                    self._confirmed(*place, told, truncated)
        if truncated:
            self._on_error(lambda: self._truncation(truncated))

    def _confirmed(
        self,
        state: PartitionState,
        position: Position,
        told: EpochEndOffset,
        truncated: list[Truncated],
    ) -> None:
        partition = state.topic_partition
        if not self._is_still(state, Status.AWAIT_VALIDATION) or state.position != position:
            return  # the user has gone elsewhere
        if told.error_code:
            if told.error_code == TopicAuthorizationFailed.code:
                raise TopicAuthorizationFailed(f"Not authorized to access topics: [{partition.topic}]")
            log.debug("[%s] The leader of %s cannot confirm its position yet: %s", self._name, partition,
                      error_class(told.error_code).name)  # fmt: skip
            if told.error_code in PASSING:
                self._metadata.request_update()
            return
        reset = self._config.offset_reset
        is_known = told.end_offset >= 0 and told.leader_epoch >= 0
        if is_known and told.end_offset >= position.offset:
            state.status = Status.FETCHING
        elif reset.kind is ResetKind.NONE:
            log.warning("[%s] Truncation detected for partition %s at offset %d (the leader's log of that epoch ends "
                        "at %d), but no reset policy is set", self._name, partition, position.offset,
                        told.end_offset)  # fmt: skip
            truncated.append(Truncated(state, position, told.end_offset if is_known else None))
        elif is_known:
            log.info("[%s] Truncation detected for partition %s at offset %d, resetting offset to the first offset "
                     "known to diverge %d", self._name, partition, position.offset, told.end_offset)  # fmt: skip
            state.seek_validated(Position(told.end_offset, told.leader_epoch))
        else:
            log.info("[%s] Truncation detected for partition %s at offset %d, resetting offset", self._name, partition,
                     position.offset)  # fmt: skip
            state.request_reset(reset)


class Truncated(NamedTuple):
    """A partition that was read further than the new leader's log goes."""

    state: PartitionState
    position: Position
    divergent_offset: int | None


def timestamp_of(reset: OffsetReset, now_ms: int) -> int:
    """What to ask ListOffsets for."""
    match reset.kind:
        case ResetKind.EARLIEST:
            return EARLIEST
        case ResetKind.LATEST:
            return LATEST
        case ResetKind.BY_DURATION:
            return max(0, now_ms - reset.duration_ms)
        case ResetKind.NONE:
            raise AssertionError("without a policy there is nothing to look up")

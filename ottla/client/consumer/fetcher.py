"""Fetching: one request to each broker at a time, ahead of the user, for every partition that can be read.

Promises: at most one fetch in flight to a broker; a partition is fetched ahead of the user by at most `AHEAD` fetches,
and all partitions together by about `fetch.max.bytes`; a fetch waits at the broker only together with all partitions
that could be fetched there, so that a quiet partition does not hold up a busy one. A broker that refuses, moves or
vanishes costs a backoff and never a record: what counts is the position. Everything runs on the loop.

What the user must hear of (no permission, an offset out of range without a policy) goes to `on_error`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from ottla.client.config import ConsumerConfig, OffsetReset, ResetKind
from ottla.client.consumer.fetch_buffer import FetchBuffer, Fetched
from ottla.client.consumer.fetch_session import FetchPlan, FetchSession, Wanted
from ottla.client.consumer.partition_state import NO_REPLICA, PartitionState, Position, Status
from ottla.client.consumer.positions import Trouble
from ottla.client.consumer.subscription_state import SubscriptionState
from ottla.client.errors import ClientClosed, OffsetsOutOfRange
from ottla.client.metrics import FetchMetrics
from ottla.client.network import Build, Cluster, Metadata, NetworkClient, Node
from ottla.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    FetchSessionIdNotFound,
    InconsistentTopicId,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    ReplicaNotAvailable,
    TopicAuthorizationFailed,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
    error_class,
)
from ottla.types import ZERO_UUID, TopicPartition
from ottla.wire.messages.fetch import FetchResponse, NodeEndpoint, PartitionData
from ottla.world import Timer

log = logging.getLogger(__name__)

FETCH_KEY = 1
NAMES_VERSION_MAX = 12
AHEAD = 2
"""How many fetches of one partition may wait for the user: one that is being read, and the one after it."""

LEADER_MOVED = {
    error.code
    for error in (
        NotLeaderOrFollower,
        ReplicaNotAvailable,
        KafkaStorageError,
        FencedLeaderEpoch,
        OffsetNotAvailable,
        UnknownTopicOrPartition,
        UnknownTopicId,
        InconsistentTopicId,
    )
}
"""Answers that newer metadata explains."""


class Fetcher:
    """Keeps the buffer filled."""

    def __init__(
        self,
        network: NetworkClient,
        metadata: Metadata,
        config: ConsumerConfig,
        subscription: SubscriptionState,
        buffer: FetchBuffer,
        *,
        on_arrived: Callable[[], object],
        on_error: Callable[[Trouble], object],
        on_reset_wanted: Callable[[], object],
        metrics: FetchMetrics,
    ) -> None:
        self._network = network
        self._metadata = metadata
        self._config = config
        self._subscription = subscription
        self._buffer = buffer
        self._on_arrived = on_arrived
        self._on_error = on_error
        self._on_reset_wanted = on_reset_wanted
        self._metrics = metrics
        self._world = network.world
        self._name = network.name
        self._sessions: dict[int, FetchSession] = {}
        self._in_flight: set[int] = set()
        self._leaderless: set[TopicPartition] = set()
        """Partitions of which the log says that they have no leader."""
        self._is_read_committed = config.isolation_level == "read_committed"
        self._timer: Timer | None = None
        self._is_closed = False
        self.is_stopped = False
        """The user has to hear of an error first: until then it would only be met again."""

    # Asking

    def go_on(self) -> None:
        """Send what can be sent. To be called whenever something may have become fetchable."""
        if self._is_closed or self.is_stopped:
            return
        now_ms = self._world.clock.monotonic_ms()
        by_node: dict[int, list[PartitionState]] = {}
        full: set[int] = set()
        wait_ms: float | None = None
        cluster = self._metadata.cluster
        buffered_bytes = 0
        for state in self._subscription.partitions.values():
            buffered_bytes += state.buffered_bytes
            if not state.is_fetchable:
                continue
            if state.fetch_at_ms > now_ms:
                left_ms = state.fetch_at_ms - now_ms
                wait_ms = left_ms if wait_ms is None else min(wait_ms, left_ms)
                continue
            node_id = self._node_for(state, cluster, now_ms)
            if node_id is None:
                self._tell_leaderless(state)
                self._metadata.request_update()  # and `go_on` follows with the answer
            elif state.buffered_count >= AHEAD:
                full.add(node_id)
            else:
                by_node.setdefault(node_id, []).append(state)
        for node_id, states in by_node.items():
            if node_id in self._in_flight or node_id in full:
                continue
            if self._network.is_backing_off(node_id):
                wait_ms = min(wait_ms or self._config.reconnect_backoff_ms, self._config.reconnect_backoff_ms)
                continue
            if not self._is_worth_it(states):
                continue
            if buffered_bytes >= self._config.fetch_max_bytes and any(state.buffered_count for state in states):
                continue  # the user takes something first
            self._fetch(node_id, states, cluster)
        if wait_ms is not None:
            self._again_after(wait_ms)

    def _tell_leaderless(self, state: PartitionState) -> None:
        """Say once why no records come of a partition."""
        partition = state.topic_partition
        if partition in self._leaderless or self._metadata.cluster.partition(partition) is None:
            return  # of a topic that is not known the metadata tells
        self._leaderless.add(partition)
        log.warning("[%s] Partition %s has no leader that can be reached: it is read again once one is elected",
                    self._name, partition)  # fmt: skip

    def _is_worth_it(self, states: list[PartitionState]) -> bool:
        """Whether a fetch brings something the user will need: ahead of the buffer only where more is known to be.

        A fetch that only waits at the ends of logs would make a seek wait as well, and what is taken meanwhile.
        """
        return not any(state.buffered_count for state in states) or any(
            state.lag_of_fetch(is_read_committed=self._is_read_committed) for state in states
        )

    def _node_for(self, state: PartitionState, cluster: Cluster, now_ms: int) -> int | None:
        """The broker to read from: a nearer replica that the leader told of, or the leader."""
        info = cluster.partition(state.topic_partition)
        if info is None:
            return None
        if state.preferred_replica != NO_REPLICA:
            replica = state.preferred_replica
            if (
                state.is_preferring_replica(now_ms)
                and replica in cluster.nodes
                and replica not in info.offline_replicas
            ):
                return replica
            state.preferred_replica = NO_REPLICA
        return info.leader if info.leader in cluster.nodes else None

    def _fetch(self, node_id: int, states: list[PartitionState], cluster: Cluster) -> None:
        config = self._config
        session = self._sessions.get(node_id)
        if session is None:
            session = self._sessions[node_id] = FetchSession(node_id, self._name)
        wanted: dict[TopicPartition, Wanted] = {}
        asked: dict[TopicPartition, tuple[PartitionState, Position]] = {}
        for state in states:
            position = state.fetch_position
            assert position is not None, "what is fetchable has a position"
            topic = cluster.topics[state.topic_partition.topic]
            wanted[state.topic_partition] = Wanted(
                topic.topic_id, position.offset, state.leader_epoch, config.max_partition_fetch_bytes
            )
            asked[state.topic_partition] = (state, position)
        plan = session.plan(wanted)
        sent_ms = self._world.clock.monotonic_ms()

        def answered(response: FetchResponse | None, error: KafkaError | None) -> None:
            if response is not None:
                self._metrics.answered(self._world.clock.monotonic_ms() - sent_ms, response.throttle_time_ms)
            self._answered(session, plan, asked, response, error)

        self._in_flight.add(node_id)
        self._send(node_id, plan, answered)

    def _send(self, node_id: int, plan: FetchPlan, answered: Callable[[Any, KafkaError | None], None]) -> None:
        config = self._config

        def make(version: int) -> Any:
            return plan.request(
                version,
                max_wait_ms=config.fetch_max_wait_ms,
                min_bytes=config.fetch_min_bytes,
                max_bytes=config.fetch_max_bytes,
                isolation=int(self._is_read_committed),
                rack=config.client_rack,
            )

        build = Build(FETCH_KEY, make) if plan.has_ids else Build(FETCH_KEY, make, version_max=NAMES_VERSION_MAX)
        self._network.send_then(node_id, build, answered)

    def _again_after(self, delay_ms: float) -> None:
        if self._timer is None:
            self._timer = self._world.tasks.later(delay_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.go_on()

    # Answers

    def _answered(
        self,
        session: FetchSession,
        plan: FetchPlan,
        asked: dict[TopicPartition, tuple[PartitionState, Position]],
        response: FetchResponse | None,
        error: KafkaError | None,
    ) -> None:
        if self._is_closed:
            return
        if error is not None or response is None:
            self._failed(session, asked, error or KafkaError("no answer"))
        elif session.settle(plan, response):
            self._take(session.node_id, asked, response)
        elif response.error_code != FetchSessionIdNotFound.code:
            self._back_off([state for state, _ in asked.values()])
        # Only now: a leader told within the answer makes `go_on` be called before the rest of it was taken.
        self._in_flight.discard(session.node_id)
        self.go_on()

    def _failed(
        self, session: FetchSession, asked: dict[TopicPartition, tuple[PartitionState, Position]], error: KafkaError
    ) -> None:
        session.fail()
        if isinstance(error, ClientClosed):
            return
        log.info("[%s] Error sending fetch request to node %d: %s", self._name, session.node_id, error)
        for state, _ in asked.values():
            state.preferred_replica = NO_REPLICA
        self._back_off([state for state, _ in asked.values()])
        self._metadata.request_update()
        if not error.retriable:
            self._on_error(error)

    def _back_off(self, states: list[PartitionState]) -> None:
        at_ms = self._world.clock.monotonic_ms() + self._network.retry_backoff.delay_ms(0)
        for state in states:
            state.fetch_at_ms = at_ms

    def _take(
        self,
        node_id: int,
        asked: dict[TopicPartition, tuple[PartitionState, Position]],
        response: FetchResponse,
    ) -> None:
        has_arrived = False
        names = self._metadata.cluster.topic_names
        for topic in response.responses:
            name = topic.topic or (names.get(topic.topic_id, "") if topic.topic_id != ZERO_UUID else "")
            for told in topic.partitions:
                partition = TopicPartition(name, told.partition_index)
                place = asked.get(partition)
                if place is None:
                    log.debug("[%s] Node %d answers for %s, which was not asked for", self._name, node_id, partition)
                    continue
                state, position = place
                if self._is_stale(state, position):
                    continue
                if told.error_code:
                    self._refused(state, position, told, response.node_endpoints)
                else:
                    has_arrived |= self._arrived(state, position, told)
        if has_arrived:
            self._on_arrived()

    def _is_stale(self, state: PartitionState, position: Position) -> bool:
        """Whether the partition has gone elsewhere since it was asked for."""
        if self._subscription.partitions.get(state.topic_partition) is not state:
            return True
        now_at = state.fetch_position
        return state.status is not Status.FETCHING or now_at is None or now_at.offset != position.offset

    def _arrived(self, state: PartitionState, position: Position, told: PartitionData) -> bool:
        state.high_watermark = told.high_watermark
        state.last_stable_offset = told.last_stable_offset
        state.log_start_offset = told.log_start_offset
        if told.preferred_read_replica >= 0:
            if told.preferred_read_replica != state.preferred_replica:
                log.info("[%s] Fetching %s from replica %d from now on, as its leader says", self._name,
                         state.topic_partition, told.preferred_read_replica)  # fmt: skip
            state.preferred_replica = told.preferred_read_replica
            state.preferred_until_ms = self._world.clock.monotonic_ms() + self._config.metadata_max_age_ms
        data = told.records
        if not data:
            return False
        assert isinstance(data, bytes | bytearray | memoryview), "what was received is no slice of a file"
        self._leaderless.discard(state.topic_partition)
        fetched = Fetched(
            state,
            position,
            data,
            told.aborted_transactions,
            is_read_committed=self._is_read_committed,
            check_crcs=self._config.check_crcs,
        )
        end = fetched.end()
        if end is None:
            self._back_off([state])
            self._on_error(
                KafkaError(
                    f"Failed to make progress reading messages at {state.topic_partition}={position.offset}. "
                    "Received a non-empty fetch response from the server, but no complete records were found."
                )
            )
            return False
        state.arrived_end = end
        self._buffer.put(fetched)
        return True

    def _refused(
        self, state: PartitionState, position: Position, told: PartitionData, endpoints: list[NodeEndpoint]
    ) -> None:
        code = told.error_code
        partition = state.topic_partition
        self._back_off([state])
        if code == OffsetOutOfRange.code:
            self._out_of_range(state, position)
            return
        had_replica = state.preferred_replica != NO_REPLICA
        state.preferred_replica = NO_REPLICA
        if code in LEADER_MOVED:
            log.debug("[%s] Fetch of %s failed: %s", self._name, partition, error_class(code).name)
            leader = told.current_leader
            if leader is not None and leader.leader_id >= 0:
                nodes = [Node(one.node_id, one.host, one.port, one.rack) for one in endpoints]
                if self._metadata.update_leader(partition, leader.leader_id, leader.leader_epoch, nodes):
                    state.fetch_at_ms = 0.0  # there is somebody else to ask at once (KIP-951)
                    return
            if had_replica:
                state.fetch_at_ms = 0.0
            self._metadata.request_update()
        elif code == TopicAuthorizationFailed.code:
            self._on_error(TopicAuthorizationFailed(f"Not authorized to access topics: [{partition.topic}]"))
        elif code == CorruptMessage.code:
            self._on_error(
                CorruptMessage(
                    f"Encountered corrupt message when fetching offset {position.offset} for topic-partition "
                    f"{partition}"
                )
            )
        elif code == UnknownLeaderEpoch.code:
            log.debug("[%s] The leader of %s does not know its newest epoch yet", self._name, partition)
        else:
            log.warning("[%s] Unexpected error while fetching %s at %d: %s", self._name, partition, position.offset,
                        error_class(code).name)  # fmt: skip

    def _out_of_range(self, state: PartitionState, position: Position) -> None:
        if state.preferred_replica != NO_REPLICA:
            # A follower may be behind its leader, or ahead of it in what it has deleted: the leader decides.
            state.preferred_replica = NO_REPLICA
            state.fetch_at_ms = 0.0
            return
        if state.buffered_count:
            # What lies ahead is gone, but not what is in the buffer: first the user takes that.
            return
        reset = self._config.offset_reset
        if reset.kind is ResetKind.NONE:
            self._on_error(
                lambda: (
                    None
                    if self._is_stale(state, position)
                    else OffsetsOutOfRange({state.topic_partition: position.offset})
                )
            )
            return
        log.info("[%s] Fetch position %d of %s is out of range, resetting offset", self._name, position.offset,
                 state.topic_partition)  # fmt: skip
        state.request_reset(OffsetReset(reset.kind, reset.duration_ms))
        self._on_reset_wanted()

    # Ending

    def close(self) -> None:
        """Tell the brokers, as far as they are connected, that their sessions end, and ask no more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for session in self._sessions.values():
            plan = session.close_plan()
            if plan is not None and self._network.is_ready(session.node_id):
                self._send(session.node_id, plan, partial(_ignore))
        self._sessions.clear()


def _ignore(response: Any, error: KafkaError | None) -> None:
    """A session that could not be ended is forgotten by the broker when it needs the room."""

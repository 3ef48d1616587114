"""Fetch (key 1): record batches of partitions, from the files that hold them, waiting until there are enough.

Promises: nothing beyond what the reader may see (high watermark, last stable offset, log end for a follower); at most
`max_bytes` in all and `partition_max_bytes` each, except that the first batch found is sent whole, so that a reader
always gets on; an error of one partition is told at once and leaves the others whole. A fetch that has to wait hangs on
its partitions until they have enough or its time is up, then reads again: it costs a timer and no task.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.config import RACK_AWARE_SELECTOR
from ottla.errors import (
    FencedLeaderEpoch,
    InconsistentTopicId,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    ReplicaNotAvailable,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.replica import (
    DataWaiter,
    FollowerFeed,
    FollowerWaiter,
    Partition,
    ReplicaManager,
    Waiter,
    current_leader,
)
from ottla.server.context import BrokerContext
from ottla.server.fetch_session import SESSION_ERRORS, FetchContext, Overtaken, Wanted
from ottla.storage import Isolation, OffsetMetadata
from ottla.types import ZERO_UUID
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.world import Promise

if TYPE_CHECKING:
    from ottla.replica import PartitionRead

log = logging.getLogger(__name__)

API_KEY = 1
TOPIC_ID_VERSION = 13
REPLICA_STATE_VERSION = 15
LEADER_VERSION = 16
"""From here on NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH tell who leads (KIP-951)."""
RACK_VERSION = 11
"""From here on a consumer may read from a follower (KIP-392)."""
STORAGE_ERROR_VERSION = 6
"""Clients of older versions do not know KAFKA_STORAGE_ERROR."""
CONSUMER = -1
NO_BROKER_EPOCH = -1
FUTURE_REPLICA = -3
READ_COMMITTED = 1

# What a reader runs into in the ordinary course: told, and not counted as a failure of this node.
_EXPECTED = (
    UnknownTopicOrPartition,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
    FencedLeaderEpoch,
    ReplicaNotAvailable,
    KafkaStorageError,
    InconsistentTopicId,
    OffsetOutOfRange,
)


def handle(context: BrokerContext, request: FetchRequest) -> FetchResponse | Promise[FetchResponse]:
    """Answer with what is there, or wait for it."""
    replicas: ReplicaManager = context.broker.replicas
    replica_id, broker_epoch = request.replica_id, NO_BROKER_EPOCH
    if context.version >= REPLICA_STATE_VERSION:
        state = request.replica_state
        replica_id, broker_epoch = (CONSUMER, -1) if state is None else (state.replica_id, state.replica_epoch)
    image = replicas.image
    follower = None
    if replica_id >= 0:
        follower = FollowerFeed(replica_id, broker_epoch, replicas.waiters, context.node.world.clock.monotonic_ms())
    fetch_context: FetchContext = context.broker.fetch_sessions.open(
        request,
        context.version,
        topics={} if image is None else image.topics.by_id,
        follower=follower,
        is_stale=follower is not None and replicas.has_restarted_since(replica_id, broker_epoch),
    )
    fetch = _Fetch(context, request, fetch_context, replica_id, broker_epoch)
    if not fetch.read():
        return fetch.answer()
    return fetch.wait()


def failed(request: FetchRequest, error: KafkaError, version: int) -> FetchResponse:
    """A session's error stands alone; before topic ids, any other is repeated for every partition."""
    response = FetchResponse(error_code=error.code)
    if version < TOPIC_ID_VERSION and not isinstance(error, SESSION_ERRORS):
        response.responses = [
            FetchableTopicResponse(
                topic.topic, ZERO_UUID, [_error(one.partition, error.code) for one in topic.partitions]
            )
            for topic in request.topics
        ]
    return response


class _Fetch:
    """One request under way."""

    __slots__ = (
        "_available",
        "_broker_epoch",
        "_bytes_max",
        "_bytes_min",
        "_context",
        "_fetch_context",
        "_is_waiting",
        "_isolation",
        "_only_leader",
        "_places",
        "_rack",
        "_replica_id",
        "_replicas",
        "_request",
        "_told",
        "_unknown",
    )

    def __init__(
        self,
        context: BrokerContext,
        request: FetchRequest,
        fetch_context: FetchContext,
        replica_id: int,
        broker_epoch: int,
    ) -> None:
        self._context = context
        self._request = request
        self._fetch_context = fetch_context
        self._replica_id = replica_id
        self._broker_epoch = broker_epoch
        self._replicas: ReplicaManager = context.broker.replicas
        self._bytes_max = min(request.max_bytes, context.node.config.fetch_max_bytes)
        self._bytes_min = min(request.min_bytes, self._bytes_max)
        if replica_id >= 0 or replica_id == FUTURE_REPLICA:
            self._isolation = Isolation.LOG_END
        elif request.isolation_level == READ_COMMITTED:
            self._isolation = Isolation.TXN_COMMITTED
        else:
            self._isolation = Isolation.HIGH_WATERMARK
        self._only_leader = replica_id >= 0 or context.version < RACK_VERSION
        self._rack = request.rack_id if replica_id == CONSUMER and _sends_away(context, request) else ""
        """Where a consumer is that may be sent to a nearer replica."""
        self._is_waiting = False
        self._told: list[tuple[Wanted, PartitionData]] = []
        """What each partition is answered with."""
        self._unknown: list[tuple[Wanted, PartitionData]] = []
        """The partitions that are not in the cluster: told behind the others, and no reason not to wait for those."""
        self._places: list[tuple[Partition, OffsetMetadata, int, int]] = []
        """Where the partitions that have not failed are read from, with what is there and the most that may be."""
        self._available = 0

    # Reading

    def read(self) -> bool:
        """Read all partitions; whether to wait for more."""
        self._told, self._unknown, self._places = [], [], []
        by_name = self._replicas.by_name
        is_follower = self._replica_id >= 0
        is_settled = False
        limit = self._bytes_max
        available = 0
        for wanted in self._fetch_context.wanted:
            request = wanted.request
            index = request.partition
            topic = wanted.topic
            if topic is None:
                self._unknown.append((wanted, _error(index, UnknownTopicId.code)))
                continue
            table = by_name.get(topic)
            partition = None if table is None else table.get(index)
            if partition is None and not self._replicas.exists(topic, index):
                self._unknown.append((wanted, _error(index, UnknownTopicOrPartition.code)))
                continue
            bytes_max = request.partition_max_bytes
            if bytes_max > limit:
                bytes_max = limit
            try:
                if partition is None:
                    raise NotLeaderOrFollower
                if wanted.topic_id != partition.topic_id and wanted.topic_id != ZERO_UUID:
                    raise InconsistentTopicId
                if self._rack and (elsewhere := self._elsewhere(request, partition)) is not None:
                    is_settled = True
                    self._told.append((wanted, elsewhere))
                    continue
                read = partition.read(
                    request.fetch_offset,
                    bytes_max=bytes_max,
                    isolation=self._isolation,
                    at_least_one=not available,
                    current_leader_epoch=request.current_leader_epoch,
                    last_fetched_epoch=request.last_fetched_epoch,
                    only_leader=self._only_leader,
                    replica_id=self._replica_id,
                )
                if is_follower:
                    self._record(wanted, partition, read)
            except KafkaError as error:
                is_settled = True
                wanted.note_failure()
                self._told.append((wanted, self._refusal(wanted, partition, error)))
                continue
            self._told.append((wanted, _data(index, read)))
            records = read.records
            size = 0 if records is None else records.size
            if size:
                available += size
                limit -= size
                if limit < 0:
                    limit = 0
            elif read.diverging is not None:
                is_settled = True
            self._places.append((partition, read.start, size, request.partition_max_bytes))
        self._available = available
        if is_settled or available >= self._bytes_min or self._request.max_wait_ms <= 0:
            return False
        return bool(self._places) or self._fetch_context.has_resting

    def _elsewhere(self, request: FetchPartition, partition: Partition) -> PartitionData | None:
        """Where to read instead (KIP-392), with where this log stands and none of its records; None for here."""
        from ottla.replica import nearer_replica  # few clusters have racks

        log = partition.local_log(request.current_leader_epoch, only_leader=False)
        image = self._replicas.image
        assert image is not None, "a partition is there because metadata says so"
        replica = nearer_replica(
            partition,
            image,
            rack=self._rack,
            listener_name=self._context.listener_name,
            fetch_offset=request.fetch_offset,
            now_ms=self._context.node.world.clock.monotonic_ms(),
        )
        if replica is None:
            return None
        return PartitionData(
            request.partition,
            0,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            aborted_transactions=None,
            preferred_read_replica=replica,
            records=b"",
        )

    def _record(self, wanted: Wanted, partition: Partition, read: PartitionRead) -> None:
        """Note where a follower is, and where it reads on: once for each request, however often it is read for."""
        request = wanted.request
        if not self._is_waiting and read.diverging is None:
            partition.record_fetch(
                self._replica_id,
                fetch_offset=request.fetch_offset,
                log_start_offset=request.log_start_offset,
                broker_epoch=self._broker_epoch,
            )
        wanted.note_read(partition, read.start, request.partition_max_bytes)

    def _refusal(self, wanted: Wanted, partition: Partition | None, error: KafkaError) -> PartitionData:
        if not isinstance(error, _EXPECTED):
            log.error(
                "[ReplicaManager broker=%d] Error processing fetch of %s at offset %d: %s",
                self._replicas.node_id, wanted.topic, wanted.request.fetch_offset, error,
            )  # fmt: skip
            if partition is not None:
                partition.stats.failed_fetch_requests += 1
        code = error.code
        if isinstance(error, KafkaStorageError):
            self._replicas.check_directories()
            if self._context.version < STORAGE_ERROR_VERSION:
                code = NotLeaderOrFollower.code
        data = _error(wanted.request.partition, code)
        data.aborted_transactions = None
        return data

    # Waiting

    def wait(self) -> Promise[FetchResponse]:
        """Answer when there is enough, or when time is up."""
        self._is_waiting = True
        promise = self._context.node.world.tasks.promise()

        def answer() -> None:
            self._context.connection.forget(waiter.give_up)
            self.read()
            promise.set_result(self.answer())

        waiter, wait_ms = self._waiter(answer)
        self._context.connection.when_closed(waiter.give_up)
        self._replicas.waiters.park(waiter, wait_ms)
        return promise

    def _waiter(self, answer: Callable[[], None]) -> tuple[Waiter, int]:
        """What waits, and for how long at most."""
        feed, wait_ms = self._fetch_context.feed, self._request.max_wait_ms
        if feed is not None:
            follower = self._replicas.takeover.of(self._replica_id)
            waiter = FollowerWaiter(feed, follower, answer, bytes_min=self._bytes_min)
            return waiter, follower.wait_ms(wait_ms)
        partitions, starts, available, bytes_max = zip(*self._places, strict=True)
        return (
            DataWaiter(
                partitions,
                starts,
                answer,
                available=available,
                bytes_min=self._bytes_min,
                bytes_max=bytes_max,
                isolation=self._isolation,
            ),
            wait_ms,
        )

    # Answering

    def answer(self) -> FetchResponse:
        """The response to what was read last."""
        try:
            session_id, told = self._fetch_context.close(self._told + self._unknown if self._unknown else self._told)
        except Overtaken as error:
            # The session goes on, so its id is told: any other error of a session has none.
            return FetchResponse(error_code=error.code, session_id=error.session_id)
        response = FetchResponse(session_id=session_id)
        is_follower = self._replica_id >= 0
        stats_of = self._replicas.stats_of
        last: FetchableTopicResponse | None = None
        tells_leader = self._context.version >= LEADER_VERSION
        for wanted, data in told:
            topic = wanted.topic
            if last is None or last.topic_id != wanted.topic_id or last.topic != (topic or ""):
                last = FetchableTopicResponse(topic or "", wanted.topic_id, [])
                response.responses.append(last)
            last.partitions.append(data)
            if data.records and topic is not None:
                stats = stats_of(topic)
                stats.fetch_requests += 1
                if is_follower:
                    stats.replication_bytes_out += len(data.records)
                else:
                    stats.bytes_out += len(data.records)
            elif tells_leader and data.error_code in (NotLeaderOrFollower.code, FencedLeaderEpoch.code):
                self._tell_leader(topic or "", data, response)
        return response

    def _tell_leader(self, topic: str, data: PartitionData, response: FetchResponse) -> None:
        leader = current_leader(self._replicas, topic, data.partition_index, self._context.listener_name)
        data.current_leader = LeaderIdAndEpoch(leader.id, leader.epoch)
        if leader.broker is not None and leader.endpoint is not None:
            node = NodeEndpoint(leader.id, leader.endpoint.host, leader.endpoint.port, leader.broker.rack)
            if all(known.node_id != node.node_id for known in response.node_endpoints):
                response.node_endpoints.append(node)


def _sends_away(context: BrokerContext, request: FetchRequest) -> bool:
    """Whether `replica.selector.class` looks at racks and the consumer has told its own."""
    if not request.rack_id or context.version < RACK_VERSION:
        return False
    return context.node.config.replica_selector_class == RACK_AWARE_SELECTOR


def _data(index: int, read: PartitionRead) -> PartitionData:
    aborted = read.aborted
    return PartitionData(
        index,
        0,
        read.high_watermark,
        read.last_stable_offset,
        read.log_start_offset,
        None if read.diverging is None else EpochEndOffset(*read.diverging),
        None,
        None,
        None if aborted is None else [AbortedTransaction(one.producer_id, one.first_offset) for one in aborted],
        -1,
        b"" if read.records is None else read.records,
    )


def _error(index: int, code: int) -> PartitionData:
    """An answer without offsets: nothing may be concluded about the log."""
    return PartitionData(index, code, -1, -1, -1, None, None, None, [], -1, b"")

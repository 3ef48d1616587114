"""Batches to brokers: which may go, to whom, in one request with which others, and what becomes of each.

Promises: at most `max.in.flight.requests.per.connection` requests to a broker at a time; one batch of a partition in a
request; what fails for a reason that passes is sent again after its backoff, in order, until `delivery.timeout.ms`;
what fails for good fails alone; a broker that is not connected gets nothing, so that its batches go on filling. No task
and no promise for a batch: everything is a callback on the client's thread. Woken by the accumulator; it drives nothing
that has nothing to send.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ottla.client.config import ProducerConfig
from ottla.client.errors import ClientClosed, DeliveryTimeout, TransactionAborted, as_kafka_error
from ottla.client.metrics import ProducerMetrics
from ottla.client.network import Build, Cluster, Metadata, NetworkClient, Node
from ottla.client.producer.accumulator import Accumulator, PartitionQueue
from ottla.client.producer.batch import ProducerBatch
from ottla.client.producer.transaction import State, TransactionManager
from ottla.errors import (
    ClusterAuthorizationFailed,
    DuplicateSequenceNumber,
    EligibleLeadersNotAvailable,
    FencedLeaderEpoch,
    InconsistentTopicId,
    InvalidRecord,
    KafkaError,
    KafkaStorageError,
    LeaderNotAvailable,
    ListenerNotFound,
    MessageTooLarge,
    NetworkException,
    NotLeaderOrFollower,
    ReplicaNotAvailable,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
    error_class,
)
from ottla.records import HEADER_SIZE, Batch, batches
from ottla.types import ZERO_UUID, TopicPartition
from ottla.wire import Message
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.world import ClientWorld, Timer

log = logging.getLogger(__name__)

PRODUCE_KEY = 0
TRANSACTIONS_V1_VERSION_MAX = 11
"""A higher version tells the broker that the producer counts on `transaction.version` 2."""
TOPIC_ID_VERSION = 13

STALE_METADATA = (
    EligibleLeadersNotAvailable,
    FencedLeaderEpoch,
    InconsistentTopicId,
    KafkaStorageError,
    LeaderNotAvailable,
    ListenerNotFound,
    NetworkException,
    NotLeaderOrFollower,
    ReplicaNotAvailable,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
"""Errors that say that something else than what is known of the cluster is true by now."""


class _Connected(KafkaError):
    """Not an error: what a request that only waits for the connection ends with."""


def _never(version: int) -> Message:
    raise _Connected


class NodeQueues:
    """What waits for one broker."""

    __slots__ = ("blocked_ms", "due", "in_flight", "is_connecting", "node_id")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.due: dict[PartitionQueue, None] = {}
        """In the order they are served."""
        self.in_flight = 0
        self.is_connecting = False
        self.blocked_ms: int | None = None
        """Since when something is due and cannot go; None while what is due goes."""


class Sender:
    """Sends what the accumulator holds. `manager` is None for a producer without idempotence."""

    def __init__(
        self,
        world: ClientWorld,
        config: ProducerConfig,
        *,
        network: NetworkClient,
        metadata: Metadata,
        accumulator: Accumulator,
        manager: TransactionManager | None,
        metrics: ProducerMetrics,
    ) -> None:
        self._world = world
        self._config = config
        self._network = network
        self._metadata = metadata
        self._accumulator = accumulator
        self._manager = manager
        self._metrics = metrics
        self._name = network.name
        self._acks = config.required_acks
        self._in_flight_max = config.max_in_flight_requests_per_connection
        self._keeps_order = self._in_flight_max == 1
        self._delivery_timeout_ms = config.delivery_timeout_ms
        self._availability_timeout_ms = config.partitioner_availability_timeout_ms
        self._nodes: dict[int, NodeQueues] = {}
        self._leaderless: dict[PartitionQueue, None] = {}
        self._linger_timer: Timer | None = None
        self._expiry_timer: Timer | None = None
        self._is_running = False
        self._again = False
        self._is_closed = False
        self.on_progress: Callable[[], None] = lambda: None
        """Called when batches have ended, or the manager may have something to ask."""
        self.touched: list[PartitionQueue] = []
        """Queues that got a new batch, for a transaction that must know of them. Under the accumulator's mutex."""
        metadata.on_update.append(self._on_metadata)

    @property
    def in_flight_count(self) -> int:
        """Requests that wait for their answer."""
        return sum(node.in_flight for node in self._nodes.values())

    # Running

    def run(self) -> None:
        """Send what can be sent. Called whenever that may have changed."""
        if self._is_running:
            self._again = True
            return
        if self._is_closed:
            return
        self._is_running = True
        try:
            self._again = True
            while self._again:
                self._again = False
                self._run_once()
        finally:
            self._is_running = False
        self.on_progress()

    def _run_once(self) -> None:
        now_ms = self._world.clock.monotonic_ms()
        for queue in self._accumulator.collect_due(now_ms):
            self._place(queue)
        if self._accumulator.waited_ms:
            with self._accumulator.mutex:
                waited_ms, self._accumulator.waited_ms = self._accumulator.waited_ms, 0
            self._metrics.waited_for_memory(waited_ms * 1_000_000)
        manager = self._manager
        if manager is not None:
            self.note_partitions()
            manager.resolve()
            if manager.has_fatal_error:
                assert manager.last_error is not None, "a fatal error has its reason"
                self.abort_all(manager.last_error)
                return
            if self._accumulator.incomplete:
                manager.prepare_idempotent()
            if manager.has_abortable_error or manager.state is State.ABORTING:
                self._abort_unsent(manager.last_error or TransactionAborted())
        for node in list(self._nodes.values()):
            if node.due:
                self._drain(node, now_ms)
        if self._availability_timeout_ms > 0:
            self._accumulator.slow_nodes = {
                node.node_id
                for node in self._nodes.values()
                if node.due and node.blocked_ms is not None and now_ms - node.blocked_ms > self._availability_timeout_ms
            }
        self._set_linger_timer(now_ms)
        if self._expiry_timer is None and self._accumulator.incomplete:
            self._set_expiry_timer(now_ms)

    def note_partitions(self) -> None:
        """Let the transaction know of the partitions that records were appended to."""
        if self._manager is not None and self.touched:
            with self._accumulator.mutex:
                touched, self.touched = self.touched, []
            for queue in touched:
                self._manager.add_partition(queue.partition)

    def _place(self, queue: PartitionQueue) -> None:
        """Put a queue that is due where its broker's turn finds it."""
        if queue.leader < 0:
            self._leaderless[queue] = None
            self._metadata.add_topics([queue.topic.name])
            self._metadata.request_update()
            return
        node = self._nodes.get(queue.leader)
        if node is None:
            node = self._nodes[queue.leader] = NodeQueues(queue.leader)
        node.due[queue] = None

    def _set_linger_timer(self, now_ms: int) -> None:
        left_ms = self._accumulator.linger_left_ms(now_ms)
        if left_ms is None or self._linger_timer is not None:
            return  # the one that is set comes first, and looks again

        def due() -> None:
            self._linger_timer = None
            self.run()

        self._linger_timer = self._world.tasks.later(left_ms, due)

    def _on_metadata(self, cluster: Cluster) -> None:
        moved = self._accumulator.update(cluster)
        for queue in moved:
            is_known = self._leaderless.pop(queue, 0) is None
            for node in self._nodes.values():
                if queue in node.due:
                    del node.due[queue]
                    is_known = True
            if is_known or (queue.batches and queue.batches[0].attempts):
                queue.is_due = True
                self._place(queue)
        for queue in list(self._leaderless):
            if queue.leader >= 0:
                del self._leaderless[queue]
                self._place(queue)
        if self._leaderless:
            self._metadata.request_update()
        idle = self._accumulator.idle_topics(self._config.metadata_max_idle_ms)
        for name in idle:
            self._metadata.topics.pop(name, None)
            self._metrics.forget(name)
        self._world.tasks.soon(self.run)

    # Sending

    def _drain(self, node: NodeQueues, now_ms: int) -> None:
        if node.in_flight < self._in_flight_max and self._network.is_ready(node.node_id):
            node.blocked_ms = None
        elif node.blocked_ms is None:
            node.blocked_ms = now_ms
        while node.due and node.in_flight < self._in_flight_max:
            if not self._network.is_ready(node.node_id):
                self._connect(node)
                return
            taken = self._collect(node, now_ms)
            if not taken:
                return
            self._send(node, taken, now_ms)

    def _connect(self, node: NodeQueues) -> None:
        """Have the connection made; its batches stay where they are, and go on filling, until it is."""
        if node.is_connecting:
            return
        node.is_connecting = True

        def try_again() -> None:
            node.is_connecting = False
            self.run()

        def answered(response: Message | None, error: KafkaError | None) -> None:
            if isinstance(error, _Connected):
                self._world.tasks.soon(try_again)
            elif not isinstance(error, ClientClosed):
                self._metadata.request_update()
                # Until then it counts as connecting. A broker that metadata does not name is refused at once: if every
                # run began anew with each such broker and set a timer for it, their number would double each time.
                self._world.tasks.later(self._network.retry_backoff.delay_ms(0), try_again)

        # The request is never made: asked to be, the connection is there.
        self._network.send_then(node.node_id, Build(PRODUCE_KEY, _never), answered)

    def _collect(self, node: NodeQueues, now_ms: int) -> list[ProducerBatch]:
        accumulator, manager = self._accumulator, self._manager
        taken: list[ProducerBatch] = []
        size = 0
        for queue in list(node.due):
            if queue.is_muted:
                continue
            if not accumulator.settle(queue, now_ms):
                del node.due[queue]
                continue
            batch = queue.batches[0]
            if batch.attempts:
                batch.note_leader(queue.leader_epoch)
                if batch.retry_at_ms > now_ms and not batch.has_new_leader:
                    del node.due[queue]  # its timer brings it back
                    continue
            if manager is not None and not manager.may_send(batch):
                continue
            if taken and size + batch.size > self._config.max_request_size:
                break
            try:
                accumulator.take(queue)
            except Exception as error:  # noqa: BLE001  it is told to whoever sent the records
                self.fail(batch, as_kafka_error(error, "A batch could not be compressed"), was_refused=False)
                self._again = True  # for those behind it
                continue
            if manager is not None and not batch.has_sequence:
                manager.number(batch)
            batch.leader_epoch = queue.leader_epoch
            size += batch.size
            taken.append(batch)
            # Behind the others, or out: what is left is looked at in the next turn.
            del node.due[queue]
            if self._keeps_order:
                queue.is_muted = True
            if accumulator.settle(queue, now_ms):
                node.due[queue] = None
        return taken

    def _send(self, node: NodeQueues, taken: list[ProducerBatch], now_ms: int) -> None:
        by_partition: dict[tuple[object, int], ProducerBatch] = {}
        topic_ids: dict[str, bytes] = {}
        for batch in taken:
            batch.is_in_flight = True
            topic, index = batch.partition
            topic_id = self._accumulator.queue(batch.partition).topic.topic_id
            topic_ids[topic] = topic_id
            by_partition[topic, index] = batch
            by_partition[topic_id, index] = batch
        self._metrics.request_sent(
            (batch.partition.topic, batch.count, batch.size, batch.ratio, now_ms - batch.created_ms, batch.record_size)
            for batch in taken
        )
        build = Build(PRODUCE_KEY, partial(self._make, taken, topic_ids), version_max=self._version_max(topic_ids))
        if self._acks == 0:
            refusal = self._network.send_only(node.node_id, build)
            for batch in taken:
                if refusal is None:
                    self._complete(batch, -1, -1)
                else:
                    self._on_refused(batch, refusal, -1, {})
            self._again = True
            return
        node.in_flight += 1
        self._network.send_then(node.node_id, build, partial(self._on_answer, node, taken, by_partition, now_ms))

    def _version_max(self, topic_ids: dict[str, bytes]) -> int:
        manager = self._manager
        if manager is not None and manager.is_transactional and not manager.is_version_2:
            return TRANSACTIONS_V1_VERSION_MAX
        if ZERO_UUID in topic_ids.values():
            return TOPIC_ID_VERSION - 1
        return 0x7FFF

    def _make(self, taken: list[ProducerBatch], topic_ids: dict[str, bytes], version: int) -> Message:
        topics: dict[str, TopicProduceData] = {}
        for batch in taken:
            name, index = batch.partition
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = TopicProduceData(name, topic_ids[name], [])  # type: ignore[arg-type]
            topic.partition_data.append(PartitionProduceData(index, batch.records()))
        transactional_id = None if self._manager is None else self._manager.transactional_id
        return ProduceRequest(transactional_id, self._acks, self._config.request_timeout_ms, list(topics.values()))

    # Answers

    def _on_answer(
        self,
        node: NodeQueues,
        taken: list[ProducerBatch],
        by_partition: dict[tuple[object, int], ProducerBatch],
        sent_ms: int,
        response: Any,
        error: KafkaError | None,
    ) -> None:
        node.in_flight -= 1
        for batch in taken:
            batch.is_in_flight = False
        unanswered = dict.fromkeys(taken)
        if error is None:
            try:
                self._metrics.answered(self._world.clock.monotonic_ms() - sent_ms, response.throttle_time_ms)
                self._read(unanswered, by_partition, response)
            except Exception as failure:  # noqa: BLE001  it is told to whoever sent the records
                error = as_kafka_error(failure, "The response to Produce could not be handled")
        for batch in unanswered:
            self._on_refused(batch, error or NetworkException("the broker's answer leaves the partition out"), -1, {})
        if self._is_running:
            self._again = True
        else:
            self.run()

    def _read(
        self,
        unanswered: dict[ProducerBatch, None],
        by_partition: dict[tuple[object, int], ProducerBatch],
        response: ProduceResponse,
    ) -> None:
        """Give each batch that is answered for its fate, and take it out of `unanswered`."""
        leaders: list[tuple[TopicPartition, int, int]] = []
        for topic in response.responses:
            for one in topic.partition_responses:
                batch = by_partition.get((topic.name, one.index)) or by_partition.get((topic.topic_id, one.index))
                if batch is None or batch not in unanswered:
                    log.warning("[%s] The broker answers for partition %d of %s, which it was not sent", self._name,
                                one.index, topic.name or topic.topic_id)  # fmt: skip
                    continue
                self._on_partition(batch, one, leaders)
                del unanswered[batch]
        if leaders:
            nodes = [Node(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints]
            for partition, leader, leader_epoch in leaders:
                self._metadata.update_leader(partition, leader, leader_epoch, nodes)

    def _on_partition(
        self, batch: ProducerBatch, told: PartitionProduceResponse, leaders: list[tuple[TopicPartition, int, int]]
    ) -> None:
        if told.error_code == 0:
            self._complete(batch, told.base_offset, told.log_append_time_ms)
            return
        kind = error_class(told.error_code)
        if told.error_code == MessageTooLarge.code and batch.count > 1 and not batch.is_done:
            self._split(batch, told.error_message)
            return
        if issubclass(kind, TopicAuthorizationFailed):
            error: KafkaError = kind(f"Not authorized to access topics: [{batch.partition.topic}]")
        elif issubclass(kind, ClusterAuthorizationFailed):
            error = kind("The producer is not authorized to do idempotent sends")
        else:
            error = kind(told.error_message) if told.error_message else kind()
        leader = told.current_leader
        if leader is not None and leader.leader_id >= 0 and isinstance(error, NotLeaderOrFollower | FencedLeaderEpoch):
            leaders.append((batch.partition, leader.leader_id, leader.leader_epoch))
        record_errors: dict[int, KafkaError] = {}
        for one in told.record_errors:
            text = one.batch_index_error_message or error.message
            # Of several, the one code cannot be told to be each one's.
            record_errors[one.batch_index] = kind(text) if len(told.record_errors) == 1 else InvalidRecord(text)
        self._on_refused(batch, error, told.log_start_offset, record_errors)

    def _on_refused(
        self, batch: ProducerBatch, error: KafkaError, log_start_offset: int, record_errors: dict[int, KafkaError]
    ) -> None:
        queue = self._accumulator.queue(batch.partition)
        queue.is_muted = False
        if self._can_retry(batch, error, log_start_offset):
            log.warning("[%s] Got error produce response on topic-partition %s, retrying (%d attempts left). "
                        "Error: %s %s", self._name, batch.partition, self._config.retries - batch.attempts - 1,
                        error.name, error)  # fmt: skip
            self._retry(queue, batch)
        elif isinstance(error, DuplicateSequenceNumber):
            # It was written, and the broker has forgotten where.
            self._complete(batch, -1, -1)
        else:
            if record_errors:
                rest: KafkaError = InvalidRecord(
                    "Failed to append record because it was part of a batch which had one or more invalid records"
                )
                record_errors = {index: record_errors.get(index, rest) for index in range(batch.count)}
            self.fail(batch, error, was_refused=batch.attempts < self._config.retries, record_errors=record_errors)
        if isinstance(error, STALE_METADATA):
            self._metadata.request_update()

    def _can_retry(self, batch: ProducerBatch, error: KafkaError, log_start_offset: int) -> bool:
        if batch.is_done or batch.attempts >= self._config.retries or isinstance(error, ClientClosed):
            return False
        if self._world.clock.monotonic_ms() - batch.created_ms >= self._delivery_timeout_ms:
            return False
        if self._manager is None:
            return error.retriable
        return self._manager.can_retry(batch, error, log_start_offset)

    def _retry(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        delay_ms = self._network.retry_backoff.delay_ms(batch.attempts)
        batch.attempts += 1
        batch.retry_at_ms = self._world.clock.monotonic_ms() + delay_ms
        self._metrics.retried(batch.partition.topic, batch.count)
        self._accumulator.put_back(queue, batch)

        def again() -> None:
            queue.is_due = True
            self._place(queue)
            self.run()

        self._world.tasks.later(delay_ms + 1, again)

    def _split(self, batch: ProducerBatch, message: str | None) -> None:
        queue = self._accumulator.queue(batch.partition)
        queue.is_muted = False
        log.warning("[%s] Got error produce response on topic-partition %s, splitting and retrying (%d attempts left). "
                    "Error: MESSAGE_TOO_LARGE %s", self._name, batch.partition, self._config.retries - batch.attempts,
                    message or "")  # fmt: skip
        target_size = max(self._config.batch_size, 1)
        if batch.is_split or batch.size <= target_size:
            # Splitting by the usual size has not helped: by half, as far as the records allow.
            target_size = max(_record_size_max(next(batches(batch.records()))), batch.size // 2)
        self._accumulator.reset_ratio(queue.topic, 1.0)
        parts = batch.split(target_size)
        self._metrics.split()
        if self._manager is not None:
            self._manager.batch_split(batch, parts)
        for part in reversed(parts):
            self._accumulator.put_back(queue, part)
        self._accumulator.forget(batch)
        queue.is_due = True
        self._place(queue)

    def _complete(self, batch: ProducerBatch, base_offset: int, append_time_ms: int) -> None:
        if self._manager is not None:
            self._manager.batch_completed(batch, base_offset)
        self._accumulator.queue(batch.partition).is_muted = False
        self._accumulator.forget(batch)
        batch.complete(base_offset, append_time_ms)

    def fail(
        self,
        batch: ProducerBatch,
        error: KafkaError,
        *,
        was_refused: bool,
        record_errors: dict[int, KafkaError] | None = None,
    ) -> None:
        """Give a batch up. Its records fail, and the transaction with them."""
        self._accumulator.forget(batch)
        if batch.is_done:
            return
        log.warning("[%s] %d record(s) for %s could not be written: %s %s", self._name, batch.count, batch.partition,
                    error.name, error)  # fmt: skip
        self._metrics.failed(batch.partition.topic, batch.count)
        try:
            if self._manager is not None:
                self._manager.batch_failed(batch, error, was_refused=was_refused)
        finally:
            batch.fail(error, record_errors)

    # Giving up

    def _set_expiry_timer(self, now_ms: int) -> None:
        left = self._accumulator.oldest()
        if not left:
            return

        def due() -> None:
            self._expiry_timer = None
            self._expire()
            self.run()

        left_ms = left[0].created_ms + self._delivery_timeout_ms - now_ms
        self._expiry_timer = self._world.tasks.later(max(left_ms, 0) + 1, due)

    def _expire(self) -> None:
        now_ms = self._world.clock.monotonic_ms()
        for batch in self._accumulator.oldest():
            age_ms = now_ms - batch.created_ms
            if age_ms < self._delivery_timeout_ms:
                break
            queue = self._accumulator.queue(batch.partition)
            self._accumulator.drop(queue, batch)
            if batch.is_in_flight:
                queue.is_muted = False
            error = DeliveryTimeout(
                f"Expiring {batch.count} record(s) for {batch.partition}: {age_ms} ms has passed since batch creation. "
                "The request has not been sent, or no server response has been received yet."
            )
            self.fail(batch, error, was_refused=False)
            if self._manager is not None and batch.attempts > 0 and batch.has_sequence:
                self._manager.mark_unresolved(batch)

    def _abort_unsent(self, error: KafkaError) -> None:
        """The transaction is lost: what was not sent yet never will be. What was sent has to come to its end."""
        for batch in self._accumulator.oldest():
            if not batch.has_sequence:
                self._accumulator.drop(self._accumulator.queue(batch.partition), batch)
                self.fail(batch, error, was_refused=False)

    def abort_all(self, error: KafkaError) -> None:
        """Everything fails, also what is under way."""
        for batch in self._accumulator.oldest():
            self._accumulator.drop(self._accumulator.queue(batch.partition), batch)
            self._accumulator.forget(batch)
            if not batch.is_done:
                self._metrics.failed(batch.partition.topic, batch.count)
                batch.fail(error)

    def close(self, error: KafkaError) -> None:
        """Send nothing more; what is left fails with `error`."""
        self._is_closed = True
        for timer in (self._linger_timer, self._expiry_timer):
            if timer is not None:
                timer.cancel()
        self.abort_all(error)


def _record_size_max(batch: Batch) -> int:
    """The size of a batch with the largest of these records alone, or a little more."""
    largest = 0
    for record in batch.records():
        headers: Iterable[tuple[str, bytes | None]] = record.headers
        size = sum(10 + 4 * len(name) + len(value or b"") for name, value in headers)
        largest = max(largest, 21 + len(record.key or b"") + len(record.value or b"") + size)
    return HEADER_SIZE + largest

"""Batches on their way into a transaction: each partition's in order and one at a time, all partitions side by side.

Promises: a batch that was sent is known to be in the log, once, at its sequence numbers, before the next of its
partition is sent; what passes by itself is tried again up to `delivery.timeout.ms`; the first failure ends everything,
and `put` and `drain` raise it. `Conflict` is the failure that says: somebody else in this transaction has written
other records under these sequence numbers.

How a foreign batch is told. A broker that finds the same sequence numbers among a producer's last five batches takes
the new one for a repetition, answers with success, and drops it. But its answer then has the timestamp of the batch
that it kept (`log_append_time_ms`), where an answer about a new batch has -1. So the sender reads the batch back
whenever the answer has a time, and compares it with what it sent; times count where rows say them
(`includeTimestamp`). What that time is proves nothing: the clocks of two attempts on two machines may show the same.
Where the topic stamps records itself (`message.timestamp.type=LogAppendTime`) every answer has a time, and so every
batch is read back.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from ottla.client.network import Build, Node
from ottla.errors import (
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    MessageTooLarge,
    NetworkException,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    TransactionAbortable,
    UnknownProducerId,
    error_class,
)
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.sink.link import Link
from ottla.pipelines.sink.reading import keeps_timestamps, lines, own_batches
from ottla.pipelines.sink.rows import WAY_OUT
from ottla.pipelines.sink.transaction import Transaction, reason
from ottla.records import Batch, batches, build_batch
from ottla.types import ZERO_UUID, TopicPartition
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from ottla.world import Promise

log = logging.getLogger(__name__)

PRODUCE_KEY = 0
TRANSACTIONS_V1_VERSION_MAX = 11
"""The highest version of Produce that does not claim `transaction.version` 2."""
TOPIC_ID_VERSION = 13
IN_FLIGHT_MAX = 3
"""Requests to one broker at a time: while they are under way, the batches of other partitions gather for the next."""
WAITING_BYTES_MAX = 32 * 1024 * 1024
ACKS_ALL = -1
NO_TIME = -1
ENDED = (
    InvalidProducerEpoch,
    ProducerFenced,
    InvalidProducerIdMapping,
    InvalidTxnState,
    TransactionAbortable,
    UnknownProducerId,
)
"""The transaction is not this task's any more."""


class Conflict(PipelineError):
    """Another task, or another attempt of this one, has written to the same partition in the same transaction."""

    def __init__(self, partition: TopicPartition, what: str) -> None:
        super().__init__(f"{partition}: {what}. The rows of a Kafka partition must come from one task: {WAY_OUT}")


class Outgoing(NamedTuple):
    """One batch, as it is sent."""

    partition: TopicPartition
    data: bytes
    base_sequence: int
    record_count: int


class _Queue:
    """What waits for one partition."""

    __slots__ = ("failures", "is_busy", "partition", "since_ms", "waiting")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.waiting: deque[Outgoing] = deque()
        self.is_busy = False
        """Its first batch is under way, or waits to be sent again."""
        self.failures = 0
        self.since_ms = 0
        """When its first batch was first sent."""


class Sender:
    """The batches of one task. All of it runs on the link's thread."""

    def __init__(self, link: Link, transaction: Transaction, *, has_timestamps: bool) -> None:
        """`has_timestamps` says whether the records have their rows' times, which every attempt's then have."""
        self._link = link
        self._transaction = transaction
        self._has_timestamps = has_timestamps
        self._queues: dict[TopicPartition, _Queue] = {}
        self._in_flight: dict[int, int] = {}
        self._waiting_bytes = 0
        self._failure: Exception | None = None
        self._progress: Promise[None] | None = None

    # For the task

    async def put(self, outgoing: Iterable[Outgoing]) -> None:
        """Send these behind the others of their partitions; returns when there is room for more."""
        arrived = list(outgoing)
        new = [one for one in dict.fromkeys(one.partition for one in arrived) if one not in self._queues]
        if new:
            await self._transaction.add_partitions(self._link, new)
            self._queues.update((partition, _Queue(partition)) for partition in new)
        for one in arrived:
            self._queues[one.partition].waiting.append(one)
            self._waiting_bytes += len(one.data)
        self._send()
        while self._failure is None and self._waiting_bytes > WAITING_BYTES_MAX:
            await self._next_progress()
        self._check()

    async def drain(self) -> None:
        """Wait until everything is in the log."""
        while self._failure is None and self._waiting_bytes:
            await self._next_progress()
        self._check()

    async def settle(self) -> None:
        """Send nothing more, and wait until nothing is under way: after a failure, for who takes over."""
        if self._failure is None:
            self._failure = PipelineError("the task has failed")
        while any(self._in_flight.values()):
            await self._next_progress()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _next_progress(self) -> Promise[None]:
        if self._progress is None or self._progress.done():
            self._progress = self._link.world.tasks.promise()
        return self._progress

    def _note(self) -> None:
        if self._progress is not None and not self._progress.done():
            self._progress.set_result(None)

    # Sending

    def _send(self) -> None:
        """Send the first batch of every partition that has none under way, as far as the brokers have room."""
        if self._failure is not None:
            return
        cluster = self._link.metadata.cluster
        led: dict[int, list[_Queue]] = {}
        for queue in self._queues.values():
            if queue.waiting and not queue.is_busy:
                node = cluster.leader(queue.partition)
                if node is None:
                    self._again(queue, NetworkException(f"{queue.partition} has no leader"))
                else:
                    led.setdefault(node.node_id, []).append(queue)
        for node_id, queues in led.items():
            while queues and self._in_flight.get(node_id, 0) < IN_FLIGHT_MAX:
                self._send_to(node_id, self._take(queues))

    def _take(self, queues: list[_Queue]) -> dict[TopicPartition, Outgoing]:
        """As many batches as one request holds, from the front; at least one."""
        taken: dict[TopicPartition, Outgoing] = {}
        size = 0
        now_ms = self._link.world.clock.monotonic_ms()
        while queues:
            queue = queues[0]
            first = queue.waiting[0]
            size += len(first.data)
            if taken and size > self._link.config.max_request_size:
                break
            queues.pop(0)
            queue.is_busy = True
            if not queue.failures:
                queue.since_ms = now_ms
            taken[queue.partition] = first
        return taken

    def _send_to(self, node_id: int, taken: dict[TopicPartition, Outgoing]) -> None:
        known = self._link.metadata.cluster.topics
        topic_ids = {partition.topic: known[partition.topic].topic_id for partition in taken}

        def make(version: int) -> ProduceRequest:
            topics: dict[str, TopicProduceData] = {}
            for (name, index), one in taken.items():
                topic = topics.setdefault(name, TopicProduceData(name, topic_ids[name], []))
                topic.partition_data.append(PartitionProduceData(index, one.data))
            timeout_ms = self._link.config.request_timeout_ms
            return ProduceRequest(self._transaction.transactional_id, ACKS_ALL, timeout_ms, list(topics.values()))

        version_max = 0x7FFF
        if not self._transaction.is_version_2:
            version_max = TRANSACTIONS_V1_VERSION_MAX
        elif ZERO_UUID in topic_ids.values():
            version_max = TOPIC_ID_VERSION - 1
        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
        names = {topic_id: name for name, topic_id in topic_ids.items()}
        self._link.network.send_then(
            node_id, Build(PRODUCE_KEY, make, version_max=version_max), partial(self._on_answer, node_id, taken, names)
        )

    # Answers

    def _on_answer(
        self,
        node_id: int,
        taken: dict[TopicPartition, Outgoing],
        names: dict[Any, str],
        response: Any,
        error: KafkaError | None,
    ) -> None:
        self._in_flight[node_id] -= 1
        unanswered = dict(taken)
        if error is None:
            nodes = [Node(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints]
            for topic in response.responses:
                name = topic.name or names.get(topic.topic_id, "")
                for told in topic.partition_responses:
                    one = unanswered.pop(TopicPartition(name, told.index), None)
                    if one is not None:
                        self._on_partition(one, told, nodes)
            error = NetworkException("the broker's answer leaves the partition out")
        for one in unanswered.values():
            self._on_error(one, error)
        self._note()
        self._send()

    def _on_partition(self, one: Outgoing, told: PartitionProduceResponse, nodes: list[Node]) -> None:
        if told.error_code == 0:
            if told.log_append_time_ms == NO_TIME:
                self._done(one)
            else:
                self._link.world.tasks.spawn(self._compare(one, told.base_offset), f"compare {one.partition}")
            return
        leader = told.current_leader
        if leader is not None and leader.leader_id >= 0:
            self._link.metadata.update_leader(one.partition, leader.leader_id, leader.leader_epoch, nodes)
        kind = error_class(told.error_code)
        because = [item.batch_index_error_message for item in told.record_errors if item.batch_index_error_message]
        text = "; ".join([*([told.error_message] if told.error_message else []), *because])
        self._on_error(one, kind(text) if text else kind())

    def _done(self, one: Outgoing) -> None:
        queue = self._queues[one.partition]
        assert queue.waiting[0] is one, "one batch of a partition is under way at a time"
        queue.waiting.popleft()
        queue.is_busy = False
        queue.failures = 0
        self._waiting_bytes -= len(one.data)

    def _on_error(self, one: Outgoing, error: KafkaError) -> None:
        queue = self._queues[one.partition]
        if isinstance(error, MessageTooLarge) and one.record_count > 1:
            self._split(queue, one)
        elif isinstance(error, OutOfOrderSequenceNumber | DuplicateSequenceNumber):
            self._fail(Conflict(one.partition, "other records have this task's sequence numbers"))
        elif isinstance(error, ENDED):
            self._fail(
                PipelineError(
                    f"the transaction was ended under this task ({reason(error)}): a newer run of the query has taken "
                    "over, or the micro-batch took longer than transactionTimeoutMs"
                )
            )
        elif error.retriable:
            self._again(queue, error)
        else:
            self._fail(PipelineError(f"{one.record_count} record(s) for {one.partition} were refused: {reason(error)}"))

    def _again(self, queue: _Queue, error: KafkaError) -> None:
        world, config = self._link.world, self._link.config
        now_ms = world.clock.monotonic_ms()
        if not queue.failures and not queue.is_busy:
            queue.since_ms = now_ms
        if now_ms - queue.since_ms >= config.delivery_timeout_ms:
            self._fail(
                PipelineError(
                    f"{queue.partition} took no record within {config.delivery_timeout_ms} ms "
                    f"(delivery.timeout.ms): {reason(error)}"
                )
            )
            return
        delay_ms = self._link.network.retry_backoff.delay_ms(queue.failures)
        queue.failures += 1
        queue.is_busy = True
        self._link.metadata.request_update()

        def again() -> None:
            queue.is_busy = False
            self._send()

        world.tasks.later(delay_ms, again)

    def _split(self, queue: _Queue, one: Outgoing) -> None:
        """The topic allows less than a whole batch: the same records in two halves, under the same numbers."""
        parts = halves(one)
        self._waiting_bytes += sum(len(part.data) for part in parts) - len(one.data)
        queue.waiting.popleft()
        queue.waiting.extendleft(reversed(parts))
        queue.is_busy = False

    async def _compare(self, one: Outgoing, offset: int) -> None:
        """Go on if the batch that the broker has is the one that was sent."""
        last_sequence = one.base_sequence + one.record_count - 1
        try:
            read = own_batches(self._link, self._transaction, one.partition, offset=offset, last_sequence=last_sequence)
            found = await anext(read)
            await read.aclose()
            (sent,) = batches(one.data)
            has_timestamps = self._has_timestamps and keeps_timestamps(found)
            same = lines(found, has_timestamps=has_timestamps) == lines(sent, has_timestamps=has_timestamps)
            if same and found.base_sequence == one.base_sequence:
                self._done(one)
            else:
                self._fail(Conflict(one.partition, "other records have this task's sequence numbers"))
        except KafkaError as error:
            self._fail(PipelineError(f"{one.partition} could not be read back: {reason(error)}"))
        except Exception as error:  # noqa: BLE001  nobody awaits this: the task has to hear of it
            self._fail(error)
        self._note()
        self._send()

    def _fail(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = error
        self._note()


def halves(one: Outgoing) -> list[Outgoing]:
    """A batch as two, with consecutive sequence numbers."""
    (batch,) = batches(one.data)
    rows = batch.rows()
    middle = len(rows) // 2
    return [
        Outgoing(one.partition, _rebuilt(batch, part, one.base_sequence + start), one.base_sequence + start, len(part))
        for start, part in ((0, rows[:middle]), (middle, rows[middle:]))
    ]


def _rebuilt(batch: Batch, rows: list[Any], base_sequence: int) -> bytes:
    first = rows[0][0]
    return build_batch(
        [(offset - first, *rest) for offset, *rest in rows],
        codec=batch.codec,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=base_sequence,
        is_transactional=True,
    )

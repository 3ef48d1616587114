"""Records on their way to batches: a queue for every partition, a bound on the whole.

`append` puts a record behind the others of its partition; it is what every `send` ends in, so it does nothing that can
be done once for a batch instead. Promises: records of a partition stay in the order of their appends; no more than
`buffer.memory` is held, and who finds it full waits in line; a batch becomes `due` when it is full, when it has
lingered, or when somebody cannot wait (a flush, a full buffer, a closing producer). The sender is woken when a batch
becomes due and when the first one begins to linger, not for every record.
Under `mutex`: `append` on any thread, and what takes batches away on the client's thread. Nothing here waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ottla.client.errors import ClientClosed
from ottla.client.network import NO_NODE, Cluster
from ottla.client.producer.batch import ProducerBatch
from ottla.client.producer.delivery import NO_SIZE, Delivery, OnDelivery
from ottla.client.producer.partitioners import Bits, StickyPartitioner
from ottla.errors import MessageTooLarge
from ottla.records import HEADER_SIZE, Codec, Header, append_record, is_sequence_before, partition_of
from ottla.types import Buffer, TopicPartition, Uuid
from ottla.world import Promise
from ottla.world.locks import new_mutex

if TYPE_CHECKING:
    from ottla.client.columnar import EncodedSection

ANY_PARTITION = -1
RECORD_OVERHEAD_MAX = 21
"""The most that a record takes beside its key, value and headers, as Kafka counts it."""
HEADER_OVERHEAD_MAX = 10
RATIO_STEP_UP = 0.05
RATIO_STEP_DOWN = 0.005
RATIO_ALLOWANCE = 1.05


class PartitionQueue:
    """The batches of one partition that wait to be sent, oldest first."""

    __slots__ = ("batches", "is_due", "is_muted", "leader", "leader_epoch", "open", "partition", "topic")

    def __init__(self, topic: TopicQueues, partition: int) -> None:
        self.topic = topic
        self.partition = TopicPartition(topic.name, partition)
        self.batches: deque[ProducerBatch] = deque()
        self.open: ProducerBatch | None = None
        """The last of them, while it takes records."""
        self.is_due = False
        """The sender has been told of it, and it is in the sender's books until nothing of it is due."""
        self.is_muted = False
        """A batch is under way, and nothing may overtake it."""
        self.leader = NO_NODE
        self.leader_epoch = -1


class TopicQueues:
    """The partitions of one topic, and where its records without a key go."""

    __slots__ = (
        "name",
        "partition_count",
        "queues",
        "ratio",
        "section_max",
        "sticky",
        "sticky_partition",
        "topic_id",
        "used_ms",
    )

    def __init__(self, name: str, sticky: StickyPartitioner) -> None:
        self.name = name
        self.topic_id = Uuid(16)
        self.partition_count = 0
        self.queues: list[PartitionQueue] = []
        self.sticky = sticky
        self.sticky_partition = ANY_PARTITION
        self.ratio = 1.0
        """How small compression makes its records, as far as is known."""
        self.section_max = 0
        self.used_ms = 0


_created_ms = attrgetter("created_ms")


class BufferFull(Exception):
    """There is no memory for a new batch now: `needed` bytes must be waited for."""

    def __init__(self, needed: int) -> None:
        super().__init__(needed)
        self.needed = needed


class Waiting:
    """One who waits for memory: told when what it needs is set aside for it."""

    __slots__ = ("bytes_needed", "granted_bytes", "tell")

    def __init__(self, bytes_needed: int, tell: Callable[[], object]) -> None:
        self.bytes_needed = bytes_needed
        self.granted_bytes = 0
        self.tell = tell


class Accumulator:
    """What was sent and is not under way yet, and the memory of all that is not done."""

    def __init__(
        self,
        *,
        batch_size: int,
        buffer_memory: int,
        request_size_max: int,
        linger_ms: int,
        codec: Codec,
        level: int | None,
        ignore_keys: bool,
        is_adaptive: bool,
        random: Bits,
        monotonic_ms: Callable[[], int],
        promise: Callable[[], Promise[Any]],
        check_may_block: Callable[[], None],
    ) -> None:
        self.mutex = new_mutex()
        self._acquire = self.mutex.acquire
        self._release = self.mutex.release
        self.promise = promise
        self.check_may_block = check_may_block
        self.wake: Callable[[], None] = lambda: None
        """Have the sender look at `due`. Called under the mutex, and not again before the sender has looked."""
        self.is_woken = False
        self.topics: dict[str, TopicQueues] = {}
        """The topics that can be sent to at once."""
        self.due: deque[PartitionQueue] = deque()
        """Queues that have something to send and that the sender has not looked at."""
        self.lingering: deque[tuple[int, ProducerBatch, PartitionQueue]] = deque()
        """When each open batch has lingered long enough, the earliest first."""
        self.incomplete: dict[ProducerBatch, None] = {}
        """Everything that is not done, in the order it came here."""
        self.refusal: Exception | None = None
        """Why nothing can be sent: the producer is closed, has failed, or is in no transaction."""
        self.on_first: Callable[[PartitionQueue], None] | None = None
        """Told when a queue gets a new batch: a transaction must know of the partition. Under the mutex."""
        self.slow_nodes: set[int] = set()
        """Brokers that took nothing for `partitioner.availability.timeout.ms`: records without a key avoid them."""
        self.memory_free = buffer_memory
        self.memory_max = buffer_memory
        self.waiting: deque[Waiting] = deque()
        self.waited_ms = 0
        """How long callers have waited for memory since the sender last looked."""
        self._all: dict[str, TopicQueues] = {}
        self._cluster = Cluster()
        self._batch_size = max(batch_size, 1)
        self._request_size_max = request_size_max
        self._linger_ms = linger_ms
        self._codec = codec
        self._level = level
        self._ignore_keys = ignore_keys
        self._is_adaptive = is_adaptive
        self._random = random
        self._monotonic_ms = monotonic_ms
        self._is_urgent = False
        """Nothing lingers any more: the producer is closing."""

    # Appending

    def append(
        self,
        topic: TopicQueues,
        partition: int,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[Header],
        on_delivery: OnDelivery | None,
        granted: Waiting | None = None,
    ) -> Delivery:
        """Put a record behind those of its partition; `BufferFull` where there is no memory for a new batch."""
        # Acquired by hand: a `with` costs a fifth of the whole call.
        self._acquire()
        try:
            if self.refusal is not None:
                raise self.refusal.with_traceback(None)
            is_sticky = False
            if partition < 0:
                if key is None or self._ignore_keys:
                    is_sticky = True
                    partition = topic.sticky_partition
                    if partition < 0:
                        partition = self._stick(topic)
                else:
                    partition = partition_of(key, topic.partition_count)
            queue = topic.queues[partition]
            batch = queue.open
            while batch is not None:
                index = batch.count
                delta = timestamp - batch.base_timestamp
                if append_record(batch.section, index, delta, key, value, headers, batch.size_max) >= 0:
                    batch.count = index + 1
                    if timestamp > batch.max_timestamp:
                        batch.max_timestamp = timestamp
                    key_size = -1 if key is None else len(key)
                    value_size = -1 if value is None else len(value)
                    delivery = Delivery((batch, index, timestamp, key_size, value_size))
                    if on_delivery is not None:
                        batch.add_callback(delivery, on_delivery)
                    return delivery
                self._close(queue, batch)
                if is_sticky:
                    # The batch is full, so this was the moment to move on.
                    queue = topic.queues[topic.sticky_partition]
                batch = queue.open
            return self._append_new(topic, queue, timestamp, key, value, headers, on_delivery, granted)
        finally:
            self._release()

    def _append_new(
        self,
        topic: TopicQueues,
        queue: PartitionQueue,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[Header],
        on_delivery: OnDelivery | None,
        granted: Waiting | None,
    ) -> Delivery:
        key_size = NO_SIZE if key is None else len(key)
        value_size = NO_SIZE if value is None else len(value)
        upper_bound = HEADER_SIZE + RECORD_OVERHEAD_MAX + max(key_size, 0) + max(value_size, 0)
        for name, header in headers:
            upper_bound += HEADER_OVERHEAD_MAX + 4 * len(name) + (0 if header is None else len(header))
        self.check_size(upper_bound)
        section_max = topic.section_max
        needed = max(section_max + HEADER_SIZE, upper_bound)
        if granted is not None and granted.granted_bytes >= needed:
            self.memory_free += granted.granted_bytes - needed
            granted.granted_bytes = 0
        elif needed > self.memory_free or (self.waiting and granted is None):
            raise BufferFull(needed)
        else:
            self.memory_free -= needed
        now_ms = self._monotonic_ms()
        batch = ProducerBatch(
            self,
            queue.partition,
            size_max=section_max,
            charged_bytes=needed,
            base_timestamp=timestamp,
            created_ms=now_ms,
        )
        try:
            size = append_record(batch.section, 0, 0, key, value, headers, 0x7FFF_FFFF)
        except BaseException:
            self.release(needed)
            raise
        batch.count = 1
        batch.max_timestamp = timestamp
        topic.used_ms = now_ms
        delivery = Delivery((batch, 0, timestamp, key_size, value_size))
        if on_delivery is not None:
            batch.add_callback(delivery, on_delivery)
        self.add(queue, batch, is_open=size < section_max)
        return delivery

    def append_section(
        self, queue: PartitionQueue, encoded: EncodedSection, granted: Waiting | None = None
    ) -> ProducerBatch:
        """Put encoded records, with room for a header in front, behind those of the partition, as a batch of their own;
        `BufferFull` where there is no memory for it."""
        with self.mutex:
            if self.refusal is not None:
                raise self.refusal.with_traceback(None)
            needed = len(encoded.section)
            self.check_size(needed)
            if granted is not None and granted.granted_bytes >= needed:
                granted.granted_bytes -= needed
            elif needed > self.memory_free or (self.waiting and granted is None):
                raise BufferFull(needed)
            else:
                self.memory_free -= needed
            batch = ProducerBatch(
                self,
                queue.partition,
                size_max=0,
                charged_bytes=needed,
                base_timestamp=encoded.base_timestamp,
                created_ms=self._monotonic_ms(),
            )
            batch.set_whole(encoded.section, encoded.record_count, encoded.max_timestamp)
            queue.topic.used_ms = batch.created_ms
            self.add(queue, batch, is_open=False)
            return batch

    def check_size(self, upper_bound: int) -> None:
        """Refuse a record that no request, or no buffer, could ever hold."""
        if upper_bound > self._request_size_max:
            raise MessageTooLarge(
                f"The message is {upper_bound} bytes when serialized which is larger than {self._request_size_max}, "
                "which is the value of the max.request.size configuration."
            )
        if upper_bound > self.memory_max:
            raise MessageTooLarge(
                f"The message is {upper_bound} bytes when serialized which is larger than the total memory buffer "
                "you have configured with the buffer.memory configuration."
            )

    def add(self, queue: PartitionQueue, batch: ProducerBatch, *, is_open: bool) -> None:
        """A new batch behind those of the queue. Under the mutex."""
        if queue.open is not None:
            self._close(queue, queue.open)
        queue.batches.append(batch)
        self.incomplete[batch] = None
        if self.on_first is not None:
            self.on_first(queue)
        if is_open:
            queue.open = batch
            if self._linger_ms > 0 and not self._is_urgent and not self.waiting:
                self.lingering.append((batch.created_ms + self._linger_ms, batch, queue))
                if len(self.lingering) == 1:
                    self._wake()
                return
        self._set_due(queue)

    def _close(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """The open batch takes no more records."""
        queue.open = None
        if queue.partition.partition == queue.topic.sticky_partition:
            self._count_sticky(queue.topic, batch)
        self._set_due(queue)

    def _set_due(self, queue: PartitionQueue) -> None:
        if not queue.is_due:
            queue.is_due = True
            self.due.append(queue)
            self._wake()

    def request_wake(self) -> None:
        """Have the sender look. Under the mutex."""
        self._wake()

    def _wake(self) -> None:
        if not self.is_woken:
            self.is_woken = True
            self.wake()

    # Partitions without a key

    def _stick(self, topic: TopicQueues) -> int:
        topic.sticky_partition = topic.sticky.partition(self._cluster)
        return topic.sticky_partition

    def _count_sticky(self, topic: TopicQueues, batch: ProducerBatch) -> None:
        """A batch of the sticky partition takes no more records: perhaps it is time for another partition."""
        if topic.partition_count == 1:
            return
        if self._is_adaptive:
            queues = [queue for queue in topic.queues if queue.leader >= 0 and queue.leader not in self.slow_nodes]
            topic.sticky.update_load(
                [len(queue.batches) for queue in queues],
                [queue.partition.partition for queue in queues],
                topic.partition_count,
            )
        topic.sticky.appended(HEADER_SIZE + len(batch.section), self._cluster)
        topic.sticky_partition = topic.sticky.partition(self._cluster)

    # What the sender does

    def collect_due(self, now_ms: int) -> list[PartitionQueue]:
        """The queues that have become due since the last call, and those whose batch has lingered."""
        with self.mutex:
            self.is_woken = False
            lingering = self.lingering
            while lingering and lingering[0][0] <= now_ms:
                _, batch, queue = lingering.popleft()
                if not queue.is_due and not batch.is_sealed and queue.open is batch:
                    queue.is_due = True
                    self.due.append(queue)
            due = list(self.due)
            self.due.clear()
            return due

    def linger_left_ms(self, now_ms: int) -> int | None:
        """When to look again for batches that have lingered; None when nothing lingers."""
        with self.mutex:
            lingering = self.lingering
            while lingering and (lingering[0][2].open is not lingering[0][1]):
                lingering.popleft()  # gone already
            return max(0, lingering[0][0] - now_ms) if lingering else None

    def settle(self, queue: PartitionQueue, now_ms: int) -> bool:
        """Whether the first batch of the queue may go, as far as the queue is concerned: it is full, was sent before,
        has lingered, or somebody cannot wait. If not, the queue is out of the books until it becomes due again."""
        with self.mutex:
            batches = queue.batches
            if batches and (
                queue.open is not batches[0]
                or batches[0].created_ms + self._linger_ms <= now_ms
                or self._is_urgent
                or bool(self.waiting)
            ):
                return True
            queue.is_due = False
            return False

    def take(self, queue: PartitionQueue) -> ProducerBatch:
        """Take the first batch out of the queue and seal it."""
        with self.mutex:
            batch = queue.batches.popleft()
            if queue.open is batch:
                self._close(queue, batch)
        if not batch.is_sealed:
            batch.seal(self._codec, self._level)
            if self._codec is not Codec.NONE:
                self._learn(queue.topic, batch.ratio)
        return batch

    def put_back(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """A batch that is to be sent again: in front, behind those with a lower sequence."""
        with self.mutex:
            ahead: list[ProducerBatch] = []
            if batch.has_sequence:
                while (
                    queue.batches
                    and queue.batches[0].has_sequence
                    and is_sequence_before(queue.batches[0].base_sequence, batch.base_sequence)
                ):
                    ahead.append(queue.batches.popleft())
            queue.batches.appendleft(batch)
            queue.batches.extendleft(reversed(ahead))
            self.incomplete.setdefault(batch)

    def drop(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Take a batch out of its queue, wherever it stands in it: it has failed."""
        with self.mutex:
            if queue.open is batch:
                queue.open = None
            if batch in queue.batches:
                queue.batches.remove(batch)

    def forget(self, batch: ProducerBatch) -> None:
        """The batch is done: its memory is free again."""
        with self.mutex:
            self.incomplete.pop(batch, None)
            charged, batch.charged_bytes = batch.charged_bytes, 0
            self.release(charged)

    def release(self, count: int) -> None:
        """Give memory back, first to those who wait for it. Under the mutex."""
        self.memory_free += count
        while self.waiting and self.waiting[0].bytes_needed <= self.memory_free:
            first = self.waiting.popleft()
            first.granted_bytes = first.bytes_needed
            self.memory_free -= first.bytes_needed
            first.tell()

    def hurry(self, queues: Iterable[PartitionQueue] | None = None) -> None:
        """Nothing that is there now lingers any longer. Under the mutex."""
        for queue in self.queues() if queues is None else queues:
            if queue.open is not None:
                self._close(queue, queue.open)
            elif queue.batches:
                self._set_due(queue)

    def stop_lingering(self) -> None:
        """From now on nothing lingers: the producer is closing."""
        with self.mutex:
            self._is_urgent = True
            self.hurry()

    def queues(self) -> list[PartitionQueue]:
        return [queue for topic in self._all.values() for queue in topic.queues]

    def oldest(self) -> list[ProducerBatch]:
        """All that is not done, oldest first. The parts of a split batch are as old as it was, and came last."""
        with self.mutex:
            return sorted(self.incomplete, key=_created_ms)

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        return self._all[partition.topic].queues[partition.partition]

    def _learn(self, topic: TopicQueues, ratio: float) -> None:
        """Compression made a batch this small: so much more may go into the next. Kafka's steps, up fast and down
        slowly."""
        if ratio > topic.ratio:
            topic.ratio = max(topic.ratio + RATIO_STEP_UP, ratio)
        elif ratio < topic.ratio:
            topic.ratio = max(topic.ratio - RATIO_STEP_DOWN, ratio)
        topic.section_max = self._section_max(topic.ratio)

    def reset_ratio(self, topic: TopicQueues, ratio: float) -> None:
        """A batch was too large for the broker: expect no more of compression than it gave."""
        topic.ratio = max(1.0, ratio)
        topic.section_max = self._section_max(topic.ratio)

    def _section_max(self, ratio: float) -> int:
        """How large the records of a batch may be together. Never beyond what a request may be: so a record that fits
        into an open batch needs no check of its own."""
        size = min(self._batch_size, self._request_size_max, self.memory_max)
        if self._codec is not Codec.NONE:
            # Never more than a share of the memory, however well records compress.
            expected = int(size / (ratio * RATIO_ALLOWANCE))
            size = max(size, min(expected, self._request_size_max, self.memory_max // 8))
        return max(size - HEADER_SIZE, 1)

    # Waiting for memory

    def wait_for_memory(self, needed: int, tell: Callable[[], object]) -> Waiting:
        """Stand in line for memory; `tell` is called when it is granted, perhaps before this returns. Batches do not
        linger while somebody waits."""
        waiting = Waiting(needed, tell)
        with self.mutex:
            self.waiting.append(waiting)
            self.release(0)
            self.hurry()
        return waiting

    def stop_waiting(self, waiting: Waiting, waited_ms: int) -> None:
        """The wait is over, after so long: whatever of the grant was not used goes back."""
        with self.mutex:
            self.waited_ms += waited_ms
            if waiting in self.waiting:
                self.waiting.remove(waiting)
            granted, waiting.granted_bytes = waiting.granted_bytes, 0
            self.release(granted)

    # Metadata

    def update(self, cluster: Cluster) -> list[PartitionQueue]:
        """The cluster has changed: new partitions get queues, others a new leader. The queues whose leader changed."""
        moved: list[PartitionQueue] = []
        with self.mutex:
            self._cluster = cluster
            for name, info in cluster.topics.items():
                if info.error_code or not info.partitions:
                    self.topics.pop(name, None)
                    continue
                topic = self._all.get(name)
                if topic is None:
                    sticky = StickyPartitioner(name, self._batch_size, self._random)
                    topic = self._all[name] = TopicQueues(name, sticky)
                    topic.section_max = self._section_max(1.0)
                    topic.used_ms = self._monotonic_ms()
                topic.topic_id = info.topic_id
                count = max(info.partitions) + 1
                while len(topic.queues) < count:
                    topic.queues.append(PartitionQueue(topic, len(topic.queues)))
                if count != topic.partition_count:
                    topic.partition_count = count
                    topic.sticky_partition = ANY_PARTITION
                self.topics[name] = topic
                for index, partition in info.partitions.items():
                    queue = topic.queues[index]
                    leader = partition.leader if partition.leader in cluster.nodes else NO_NODE
                    if leader != queue.leader or partition.leader_epoch != queue.leader_epoch:
                        queue.leader, queue.leader_epoch = leader, partition.leader_epoch
                        moved.append(queue)
            for name in [name for name in self.topics if name not in cluster.topics]:
                del self.topics[name]
        return moved

    def idle_topics(self, idle_ms: int) -> list[str]:
        """Topics that were not sent to for so long, and have nothing to send."""
        before_ms = self._monotonic_ms() - idle_ms
        return [
            topic.name
            for topic in self._all.values()
            if topic.used_ms < before_ms and not any(queue.batches for queue in topic.queues)
        ]

    def close(self) -> None:
        """Take nothing more; who waits for memory is told, and finds out."""
        with self.mutex:
            if not isinstance(self.refusal, ClientClosed):
                self.refusal = ClientClosed("the producer is closed")
            waiting, self.waiting = self.waiting, deque()
        for one in waiting:
            one.tell()

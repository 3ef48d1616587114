"""`Producer`: the blocking face. The same producer on a thread of its own, with `send` on the caller's.

`with Producer(bootstrap_servers="localhost:9092") as producer: producer.send("topic", b"value").result()`. A record is
encoded into its batch right in `send`, on the thread that calls it; the client's thread is woken once a batch. Any
number of threads may use one producer. Callbacks run on the client's thread and must not wait for the producer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ottla.client.config import ProducerConfig, read_settings
from ottla.client.errors import ClientClosed, FatalProducerError, IllegalState
from ottla.client.metrics import MetricValues
from ottla.client.network import Deadline, PartitionInfo
from ottla.client.producer.accumulator import ANY_PARTITION, BufferFull, Waiting
from ottla.client.producer.async_producer import check_record, no_memory, not_bytes
from ottla.client.producer.bulk import BulkDelivery
from ottla.client.producer.core import GroupMetadata, ProducerCore, ProducerRecord
from ottla.client.producer.delivery import Delivery, OnDelivery, RecordMetadata
from ottla.errors import KafkaError
from ottla.records import Header
from ottla.types import TopicPartition
from ottla.world.locks import Parked
from ottla.world.threads import LoopClosed, LoopThread

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class Producer:
    """Writes records. Settings are Kafka's, as a mapping or as keywords."""

    def __init__(self, config: Mapping[str, object] | None = None, **settings: object) -> None:
        table = read_settings(ProducerConfig, config, settings)
        self._loop = loop = LoopThread(f"ottla-producer-network-thread | {table.client_id}")
        try:
            self._core = core = loop.call(
                lambda: ProducerCore(loop.world, table, check_may_block=self._check_may_block)
            )
        except BaseException:
            loop.close()
            raise
        core.accumulator.wake = self._wake
        self._topics = core.accumulator.topics
        self._fast = self._topics if core.is_plain else {}
        """The topics whose records need nothing done to them before they are appended."""
        self._append = core.accumulator.append
        self._now_ms = loop.world.clock.now_ms

    def _wake(self) -> None:
        self._loop.post(self._core.sender.run)

    def _check_may_block(self) -> None:
        if self._loop.is_own_thread:
            raise IllegalState("a callback of the producer must not wait for a delivery: it would wait for itself")

    @property
    def config(self) -> ProducerConfig:
        """The settings it runs with."""
        return self._core.config

    # Sending

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Hand a record over; the delivery tells what becomes of it, to whoever asks.

        Waits up to `max.block.ms` for metadata or memory; raises what is wrong with the record itself.
        """
        queues = self._fast.get(topic)
        if queues is not None and partition is None and timestamp_ms is None:
            try:
                return self._append(queues, ANY_PARTITION, self._now_ms(), key, value, headers, on_delivery)
            except BufferFull:
                pass  # then wait for memory, below
            except (KafkaError, TypeError) as error:
                self._refuse(topic, error)
        try:
            return self._send_slowly(topic, value, key, partition, timestamp_ms, headers, on_delivery)
        except KafkaError as error:
            self._refuse(topic, error)

    def _send_slowly(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[Header],
        on_delivery: OnDelivery | None,
    ) -> Delivery:
        core = self._core
        check_record(partition, timestamp_ms)
        if core.config.interceptor_classes:
            record = core.intercept(ProducerRecord(topic, value, key, partition, timestamp_ms, headers))
            topic, value, key, partition, timestamp_ms, headers = record
        queues = self._topics.get(topic)
        if queues is None or (partition is not None and partition >= queues.partition_count):
            queues = self._run(core.find_topic(topic, partition))
        prepared = core.prepare(queues, value, key, partition, timestamp_ms, headers, on_delivery)
        try:
            return self._when_there_is_memory(partial(self._append, *prepared))
        except TypeError as error:
            raise not_bytes(topic, error) from error

    def _when_there_is_memory(self, append: Callable[[Waiting | None], T]) -> T:
        """What `append` returns, after waiting for memory up to `max.block.ms` where it needs some."""
        try:
            return append(None)
        except BufferFull as full:
            needed = full.needed
        self._check_may_block()
        max_block_ms = self._core.config.max_block_ms
        deadline = Deadline(self._loop.world, max_block_ms)
        while True:
            with self._memory(needed, deadline) as waiting:
                if waiting is None:
                    raise no_memory(needed, max_block_ms)
                try:
                    return append(waiting)
                except BufferFull as full:  # it needs more by now than it was granted
                    needed = full.needed

    @contextmanager
    def _memory(self, needed: int, deadline: Deadline) -> Iterator[Waiting | None]:
        """Stand in line for memory; None when none came in time. What is not used of it goes back."""
        accumulator = self._core.accumulator
        parked = Parked()
        clock_ms = self._loop.world.clock.monotonic_ms
        started_ms = clock_ms()
        waiting = accumulator.wait_for_memory(needed, parked.tell)
        try:
            yield waiting if parked.wait((deadline.left_ms or 0.0) / 1000) else None
        finally:
            accumulator.stop_waiting(waiting, clock_ms() - started_ms)

    def _refuse(self, topic: str, error: KafkaError | TypeError) -> NoReturn:
        """Raise why a record was not taken, after everybody knows of it who must: a transaction must not be committed
        without the record."""
        refusal = not_bytes(topic, error) if isinstance(error, TypeError) else error
        if not self._core.is_closed:
            self._call(partial(self._core.note_error, topic, refusal))
        raise refusal

    def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
    ) -> RecordMetadata:
        """Write a record; where it was written."""
        return self.send(topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers).result()

    def send_arrow(self, topic: str, rows: pa.RecordBatch | pa.Table) -> BulkDelivery:
        """Hand the rows of an Arrow batch or table over: columns `key`, `value`, `headers`, `timestamp`, `partition`.

        Serializers and interceptors are passed over. The delivery tells where all of it was written.
        """
        core = self._core
        queues = self._topics.get(topic) or self._run(core.find_topic(topic, None))
        batches = []
        try:
            for encoded in core.arrow_sections(queues, rows):
                queue = queues.queues[encoded.partition]
                append = partial(core.accumulator.append_section, queue, encoded)
                batches.append(self._when_there_is_memory(append))
        except KafkaError as error:
            self._refuse(topic, error)
        return BulkDelivery(batches)

    def flush(self, timeout: float | None = None) -> None:
        """Send everything that was handed over before, and wait until the fate of all of it is known."""
        self._run(self._core.flush(None if timeout is None else timeout * 1000))

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The topic's partitions and their leaders."""
        info = self._run(self._core.metadata.topic(topic, self._core.config.max_block_ms))
        return list(info.partitions.values())

    def metrics(self) -> MetricValues:
        """What this producer measures, under Kafka's names: `metrics().value("record-send-total")`."""
        snapshot = self._core.metrics.snapshot
        return snapshot() if self._core.is_closed else self._call(snapshot)

    # Transactions

    def init_transactions(self, timeout: float | None = None) -> None:
        """Become the one producer with this `transactional.id`: once, before the first transaction."""
        self._run(self._core.init_transactions(None if timeout is None else timeout * 1000))

    def begin_transaction(self) -> None:
        """What is sent from here on is written when the transaction is committed, or not at all."""
        self._call(self._core.begin_transaction)

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Send what is left and commit. After a `KafkaTimeout` it is under way and can be called again."""
        self._run(self._core.commit_transaction(None if timeout is None else timeout * 1000))

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Drop what is left and abort."""
        self._run(self._core.abort_transaction(None if timeout is None else timeout * 1000))

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, Any], group_metadata: GroupMetadata | str, timeout: float | None = None
    ) -> None:
        """Commit what a consumer has read together with what was written: offsets are those of the next records."""
        self._run(
            self._core.send_offsets_to_transaction(offsets, group_metadata, None if timeout is None else timeout * 1000)
        )

    @contextmanager
    def transaction(self) -> Iterator[Producer]:
        """`with producer.transaction(): ...`: committed at the end, aborted when something is raised."""
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except FatalProducerError:
            raise
        except BaseException:
            if self._core.can_abort():
                self.abort_transaction()
            raise

    # Ending

    def close(self, timeout: float | None = None) -> None:
        """Send what is left, up to `timeout` seconds (None: as long as it takes), then end. What is not written by then
        fails with `ClientClosed`; an open transaction is aborted."""
        if self._loop.is_own_thread:
            # A callback cannot wait for the rest: Kafka ends at once as well.
            self._core.abandon()
            self._loop.close()
            return
        try:
            self._loop.run(self._core.close(None if timeout is None else timeout * 1000))
        except LoopClosed:
            return
        finally:
            self._loop.close()

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # The client's thread

    def _run(self, work: Any) -> Any:
        if self._loop.is_own_thread:
            work.close()
            raise IllegalState("a callback of the producer must not wait for the producer: it would wait for itself")
        try:
            return self._loop.run(work)
        except LoopClosed:
            work.close()
            raise ClientClosed("the producer is closed") from None

    def _call(self, work: Any) -> Any:
        if self._loop.is_own_thread:
            return work()
        try:
            return self._loop.call(work)
        except LoopClosed:
            raise ClientClosed("the producer is closed") from None

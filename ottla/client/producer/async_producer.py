"""`AsyncProducer`: a producer for asyncio, or for any other world.

`async with AsyncProducer(bootstrap_servers="localhost:9092") as producer: await producer.send_and_wait("topic", b"v")`.
`await send(...)` waits only for what `send` of Kafka's producer blocks for, metadata and memory; what it returns can be
awaited for the record's fate, or left alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ottla.client.config import ProducerConfig, read_settings
from ottla.client.errors import BufferExhausted, FatalProducerError, IllegalState, KafkaTimeout, SerializationError
from ottla.client.metrics import MetricValues
from ottla.client.network import Deadline, PartitionInfo, within
from ottla.client.producer.accumulator import ANY_PARTITION, BufferFull, Waiting
from ottla.client.producer.bulk import BulkDelivery
from ottla.client.producer.core import GroupMetadata, ProducerCore, ProducerRecord
from ottla.client.producer.delivery import Delivery, OnDelivery, RecordMetadata
from ottla.errors import KafkaError
from ottla.records import Header
from ottla.types import TopicPartition
from ottla.world import ClientWorld
from ottla.world.threads import running_world

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class AsyncProducer:
    """Writes records. Settings are Kafka's, as a mapping or as keywords; made where asyncio runs, or on `world`.

    Its methods are called on the loop it was made on.
    """

    def __init__(
        self, config: Mapping[str, object] | None = None, *, world: ClientWorld | None = None, **settings: object
    ) -> None:
        world = running_world() if world is None else world
        self._core = ProducerCore(
            world, read_settings(ProducerConfig, config, settings), check_may_block=_must_be_awaited
        )
        core = self._core
        core.accumulator.wake = lambda: world.tasks.soon(core.sender.run)
        self._topics = core.accumulator.topics
        self._fast = self._topics if core.is_plain else {}
        """The topics whose records need nothing done to them before they are appended."""
        self._append = core.accumulator.append
        self._now_ms = world.clock.now_ms

    @property
    def config(self) -> ProducerConfig:
        """The settings it runs with."""
        return self._core.config

    # Sending

    async def send(
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
        """Hand a record over; the delivery can be awaited. Raises at once what is wrong with the record itself."""
        queues = self._fast.get(topic)
        if queues is not None and partition is None and timestamp_ms is None:
            try:
                return self._append(queues, ANY_PARTITION, self._now_ms(), key, value, headers, on_delivery)
            except BufferFull:
                pass  # then wait for memory, below
            except (KafkaError, TypeError) as error:
                self._refuse(topic, error)
        try:
            return await self._send_slowly(topic, value, key, partition, timestamp_ms, headers, on_delivery)
        except KafkaError as error:
            self._refuse(topic, error)

    async def _send_slowly(
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
            queues = await core.find_topic(topic, partition)
        prepared = core.prepare(queues, value, key, partition, timestamp_ms, headers, on_delivery)
        try:
            return await self._when_there_is_memory(partial(self._append, *prepared))
        except TypeError as error:
            raise not_bytes(topic, error) from error

    async def _when_there_is_memory(self, append: Callable[[Waiting | None], T]) -> T:
        """What `append` returns, after waiting for memory up to `max.block.ms` where it needs some."""
        try:
            return append(None)
        except BufferFull as full:
            needed = full.needed
        max_block_ms = self._core.config.max_block_ms
        deadline = Deadline(self._core.world, max_block_ms)
        while True:
            async with self._memory(needed, deadline) as waiting:
                if waiting is None:
                    raise no_memory(needed, max_block_ms)
                try:
                    return append(waiting)
                except BufferFull as full:  # it needs more by now than it was granted
                    needed = full.needed

    @asynccontextmanager
    async def _memory(self, needed: int, deadline: Deadline) -> AsyncIterator[Waiting | None]:
        """Stand in line for memory; None when none came in time. What is not used of it goes back."""
        core = self._core
        promise = core.world.tasks.promise()

        def tell() -> None:
            if not promise.done():
                promise.set_result(None)

        started_ms = core.world.clock.monotonic_ms()
        waiting = core.accumulator.wait_for_memory(needed, tell)
        try:
            try:
                await within(core.world, promise, deadline.left_ms, "memory")
                granted: Waiting | None = waiting
            except KafkaTimeout:
                granted = None
            yield granted
        finally:
            core.accumulator.stop_waiting(waiting, core.world.clock.monotonic_ms() - started_ms)

    def _refuse(self, topic: str, error: KafkaError | TypeError) -> NoReturn:
        """Raise why a record was not taken, after everybody knows of it who must."""
        refusal = not_bytes(topic, error) if isinstance(error, TypeError) else error
        self._core.note_error(topic, refusal)
        raise refusal

    async def send_and_wait(
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
        return await (
            await self.send(topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers)
        )

    async def send_arrow(self, topic: str, rows: pa.RecordBatch | pa.Table) -> BulkDelivery:
        """Hand the rows of an Arrow batch or table over: columns `key`, `value`, `headers`, `timestamp`, `partition`.

        Serializers and interceptors are passed over. Awaited, the delivery tells where all of it was written.
        """
        core = self._core
        queues = self._topics.get(topic) or await core.find_topic(topic, None)
        batches = []
        try:
            for encoded in core.arrow_sections(queues, rows):
                queue = queues.queues[encoded.partition]
                append = partial(core.accumulator.append_section, queue, encoded)
                batches.append(await self._when_there_is_memory(append))
        except KafkaError as error:
            self._refuse(topic, error)
        return BulkDelivery(batches)

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything that was handed over before, and wait until the fate of all of it is known."""
        await self._core.flush(None if timeout is None else timeout * 1000)

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The topic's partitions and their leaders."""
        info = await self._core.metadata.topic(topic, self._core.config.max_block_ms)
        return list(info.partitions.values())

    def metrics(self) -> MetricValues:
        """What this producer measures, under Kafka's names: `metrics().value("record-send-total")`."""
        return self._core.metrics.snapshot()

    # Transactions

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Become the one producer with this `transactional.id`: once, before the first transaction."""
        await self._core.init_transactions(None if timeout is None else timeout * 1000)

    async def begin_transaction(self) -> None:
        """What is sent from here on is written when the transaction is committed, or not at all."""
        self._core.begin_transaction()

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Send what is left and commit. After a `KafkaTimeout` it is under way and can be called again."""
        await self._core.commit_transaction(None if timeout is None else timeout * 1000)

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Drop what is left and abort."""
        await self._core.abort_transaction(None if timeout is None else timeout * 1000)

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, Any], group_metadata: GroupMetadata | str, timeout: float | None = None
    ) -> None:
        """Commit what a consumer has read together with what was written: offsets are those of the next records."""
        await self._core.send_offsets_to_transaction(
            offsets, group_metadata, None if timeout is None else timeout * 1000
        )

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncProducer]:
        """`async with producer.transaction(): ...`: committed at the end, aborted when something is raised."""
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except FatalProducerError:
            raise
        except BaseException:
            if self._core.can_abort():
                await self.abort_transaction()
            raise

    # Ending

    async def close(self, timeout: float | None = None) -> None:
        """Send what is left, up to `timeout` seconds (None: as long as it takes), then end. What is not written by then
        fails with `ClientClosed`; an open transaction is aborted."""
        await self._core.close(None if timeout is None else timeout * 1000)

    async def __aenter__(self) -> AsyncProducer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _must_be_awaited() -> None:
    raise IllegalState("a delivery of an AsyncProducer is awaited: blocking for it would block the loop that brings it")


def check_record(partition: int | None, timestamp_ms: int | None) -> None:
    """Refuse what can be no partition and no time."""
    if partition is not None and partition < 0:
        raise ValueError(f"Invalid partition: {partition}. Partition number should always be non-negative or None.")
    if timestamp_ms is not None and timestamp_ms < 0:
        raise ValueError(f"Invalid timestamp: {timestamp_ms}. Timestamp should always be non-negative or None.")


def not_bytes(topic: str, error: TypeError) -> SerializationError:
    """What a key or a value that is no bytes gets, where no serializer makes it some."""
    return SerializationError(f"a key and a value are bytes or None where no serializer is set ({topic}): {error}")


def no_memory(needed: int, max_block_ms: int) -> BufferExhausted:
    return BufferExhausted(
        f"Failed to allocate {needed} bytes within the configured max blocking time {max_block_ms} ms."
    )

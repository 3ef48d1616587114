"""A producer without a face: everything that the blocking and the async one share, on one world.

Its coroutines and callbacks run on the client's thread. Only `prepare` and the accumulator's `append` are also called
on the caller's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ottla.client.config import ProducerConfig
from ottla.client.errors import BufferExhausted, ClientClosed, IllegalState, KafkaTimeout, SerializationError
from ottla.client.metrics import Metrics, NetworkMetrics, ProducerMetrics
from ottla.client.network import Coordinators, Deadline, Metadata, NetworkClient, within
from ottla.client.producer.accumulator import ANY_PARTITION, Accumulator, PartitionQueue, TopicQueues
from ottla.client.producer.batch import ProducerBatch
from ottla.client.producer.bulk import SECTION_BYTES_MAX, sections
from ottla.client.producer.delivery import OnDelivery, RecordMetadata
from ottla.client.producer.sender import Sender
from ottla.client.producer.transaction import State, TransactionManager
from ottla.client.producer.txn_driver import TransactionDriver
from ottla.client.producer.txn_requests import GroupIdentity, OffsetCommit, TxnResult
from ottla.errors import KafkaError
from ottla.records import Codec, Header
from ottla.types import Buffer, TopicPartition
from ottla.world import ClientWorld, Promise

if TYPE_CHECKING:
    from ottla.client.columnar import EncodedSection

log = logging.getLogger(__name__)

_LEVELS = {"gzip": "compression_gzip_level", "lz4": "compression_lz4_level", "zstd": "compression_zstd_level"}


class ProducerRecord(NamedTuple):
    """A record as an interceptor sees it, before it is serialized."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Sequence[Header] = ()


class GroupMetadata(Protocol):
    """What a consumer tells of its group, for the offsets of a transaction."""

    @property
    def group_id(self) -> str: ...

    @property
    def generation_id(self) -> int: ...

    @property
    def member_id(self) -> str: ...

    @property
    def group_instance_id(self) -> str | None: ...


class Prepared(NamedTuple):
    """A record, ready to be appended."""

    topic: TopicQueues
    partition: int
    timestamp: int
    key: Buffer | None
    value: Buffer | None
    headers: Sequence[Header]
    on_delivery: OnDelivery | None


class ProducerCore:
    """One producer. `check_may_block` says whether the calling thread may wait for a delivery."""

    def __init__(self, world: ClientWorld, config: ProducerConfig, *, check_may_block: Callable[[], None]) -> None:
        self.world = world
        self.config = config
        transactional = "" if config.transactional_id is None else f", transactionalId={config.transactional_id}"
        self.name = f"Producer clientId={config.client_id}{transactional}"
        self.metrics = Metrics(
            config.client_id,
            world.clock.monotonic_ms,
            window_ms=config.metrics_sample_window_ms,
            window_count=config.metrics_num_samples,
        )
        measured = NetworkMetrics(self.metrics, "producer")
        self.network = NetworkClient(world, config, name=self.name, measured=measured)
        self.metadata = Metadata(self.network)
        level = _LEVELS.get(config.compression_type)
        self.accumulator = Accumulator(
            batch_size=config.batch_size,
            buffer_memory=config.buffer_memory,
            request_size_max=config.max_request_size,
            linger_ms=config.linger_ms,
            codec=Codec.of_name(config.compression_type),
            level=None if level is None else getattr(config, level),
            ignore_keys=config.partitioner_ignore_keys,
            is_adaptive=config.partitioner_adaptive_partitioning_enable,
            random=world.random,
            monotonic_ms=world.clock.monotonic_ms,
            promise=world.tasks.promise,
            check_may_block=check_may_block,
        )
        accumulator = self.accumulator
        self.measured = ProducerMetrics(
            self.metrics,
            memory_max=accumulator.memory_max,
            memory_free=lambda: accumulator.memory_free,
            waiting=lambda: len(accumulator.waiting),
            in_flight=lambda: self.sender.in_flight_count,
            metadata_age_ms=lambda now_ms: now_ms - (self.metadata.updated_ms or 0),
        )
        self.manager: TransactionManager | None = None
        self.driver: TransactionDriver | None = None
        if config.enable_idempotence:
            self.manager = TransactionManager(
                transactional_id=config.transactional_id, timeout_ms=config.transaction_timeout_ms, name=self.name
            )
        self.sender = Sender(
            world,
            config,
            network=self.network,
            metadata=self.metadata,
            accumulator=self.accumulator,
            manager=self.manager,
            metrics=self.measured,
        )
        if self.manager is not None:
            self._connect_manager(self.manager)
        partitioner = config.partitioner_class
        if partitioner is not None and hasattr(partitioner, "bind"):
            partitioner.bind(world.random)
        self.is_plain = (
            partitioner is None
            and config.key_serializer is None
            and config.value_serializer is None
            and not config.interceptor_classes
        )
        """Records are bytes, and nobody looks at them: nothing has to be prepared."""
        self.is_closed = False
        self._is_abandoned = False

    def _connect_manager(self, manager: TransactionManager) -> None:
        accumulator, sender = self.accumulator, self.sender
        self.driver = TransactionDriver(self.world, self.network, Coordinators(self.network), manager, accumulator)

        def on_change() -> None:
            if not isinstance(accumulator.refusal, ClientClosed):
                accumulator.refusal = manager.refusal()

        def on_first(queue: PartitionQueue) -> None:
            sender.touched.append(queue)
            accumulator.request_wake()

        manager.on_change = on_change
        manager.on_unauthorized = sender.abort_all
        sender.on_progress = self.driver.kick
        if manager.is_transactional:
            accumulator.on_first = on_first
        on_change()

    # Sending

    def prepare(
        self,
        topic: TopicQueues,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[Header],
        on_delivery: OnDelivery | None,
    ) -> Prepared:
        """Serialize, choose a partition, and have the interceptors told: for producers that are not plain."""
        config = self.config
        name = topic.name
        if config.interceptor_classes:
            on_delivery = self._told(on_delivery)
        key_bytes, value_bytes = key, value
        if config.key_serializer is not None or config.value_serializer is not None:
            headers = list(headers)
            try:
                if config.key_serializer is not None:
                    key_bytes = config.key_serializer.serialize(name, key, headers)
                if config.value_serializer is not None:
                    value_bytes = config.value_serializer.serialize(name, value, headers)
            except KafkaError:
                raise
            except Exception as error:
                raise SerializationError(f"a record for {name} could not be serialized: {error}") from error
        if partition is None and config.partitioner_class is not None:
            cluster = self.metadata.cluster
            partition = config.partitioner_class.partition(name, key, key_bytes, value, value_bytes, cluster)
            if not 0 <= partition < topic.partition_count:
                raise ValueError(
                    f"the partitioner chose partition {partition} of {name}, which has {topic.partition_count}"
                )
        return Prepared(
            topic,
            ANY_PARTITION if partition is None else partition,
            self.world.clock.now_ms() if timestamp_ms is None else timestamp_ms,
            key_bytes,
            value_bytes,
            headers,
            on_delivery,
        )

    def intercept(self, record: ProducerRecord) -> ProducerRecord:
        """What the interceptors make of a record; one that fails is logged and passed over."""
        for interceptor in self.config.interceptor_classes:
            on_send = getattr(interceptor, "on_send", None)
            if on_send is None:
                continue
            try:
                record = on_send(record)
            except Exception as error:  # noqa: BLE001  an interceptor must not stop a record
                log.warning("[%s] Error executing interceptor on_send callback for topic %s: %s", self.name,
                            record.topic, error)  # fmt: skip
        return record

    def acknowledge(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        """Tell the interceptors what became of a record."""
        for interceptor in self.config.interceptor_classes:
            told = getattr(interceptor, "on_acknowledgement", None)
            if told is None:
                continue
            try:
                told(metadata, error)
            except Exception as failure:  # noqa: BLE001  an interceptor must not stop a producer
                log.warning("[%s] Error executing interceptor on_acknowledgement callback: %s", self.name, failure)

    def _told(self, on_delivery: OnDelivery | None) -> OnDelivery:
        def tell(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            self.acknowledge(metadata, error)
            if on_delivery is not None:
                on_delivery(metadata, error)

        return tell

    def arrow_sections(self, queues: TopicQueues, rows: Any) -> Iterator[EncodedSection]:
        """The rows of an Arrow batch or table, encoded for the topic's partitions."""
        config = self.config
        size_max = min(max(config.batch_size, SECTION_BYTES_MAX), config.max_request_size, config.buffer_memory)
        return sections(rows, queues, self.metadata.cluster, size_max=size_max, now_ms=self.world.clock.now_ms())

    async def find_topic(self, topic: str, partition: int | None) -> TopicQueues:
        """Wait for the topic to be known, up to `max.block.ms`."""
        self.check_open()
        with self._waiting("metadata-wait"):
            await self.metadata.topic(topic, self.config.max_block_ms, partition=partition)
        found = self.accumulator.topics.get(topic)
        assert found is not None, "the accumulator hears of every update"
        return found

    def note_error(self, topic: str, error: KafkaError) -> None:
        """A record was refused before it was appended: a transaction that misses one must not be committed."""
        self.measured.failed(topic, 1)
        if isinstance(error, BufferExhausted):
            self.measured.exhausted()
        if self.config.interceptor_classes:
            self.acknowledge(None, error)
        if self.manager is not None and self.manager.is_transactional and not isinstance(error, ClientClosed):
            self.manager.note_error(error)

    # Waiting

    @contextmanager
    def _waiting(self, what: str) -> Iterator[None]:
        """Count the time that a caller waits."""
        started_ms = self.world.clock.monotonic_ms()
        try:
            yield
        finally:
            self.measured.waited(what, (self.world.clock.monotonic_ms() - started_ms) * 1_000_000)

    async def flush(self, timeout_ms: float | None) -> None:
        """Send everything that was sent before this call, and wait until its fate is known."""
        accumulator = self.accumulator
        with accumulator.mutex:
            waited_for = list(accumulator.incomplete)
            accumulator.hurry()
        with self._waiting("flush"):
            await self._all_done(waited_for, timeout_ms, "flush")

    async def _all_done(self, waited_for: list[ProducerBatch], timeout_ms: float | None, what: str) -> None:
        left = len(waited_for)
        if not left:
            return
        done: Promise[None] = self.world.tasks.promise()

        def one_less() -> None:
            nonlocal left
            left -= 1
            if not left and not done.done():
                done.set_result(None)

        for batch in waited_for:
            batch.when_done(one_less)
        await within(self.world, done, timeout_ms, what)

    # Transactions

    def transactions(self) -> TransactionManager:
        """The manager; raises where there are no transactions."""
        self.check_open()
        if self.manager is None or not self.manager.is_transactional:
            raise IllegalState("transactions need a transactional.id, and this producer has none")
        return self.manager

    async def init_transactions(self, timeout_ms: float | None) -> None:
        with self._waiting("txn-init"):
            await self._finish(self.transactions().init_transactions(), timeout_ms, "init_transactions")

    def begin_transaction(self) -> None:
        self.transactions().begin_transaction()

    async def commit_transaction(self, timeout_ms: float | None) -> None:
        manager = self.transactions()
        self.sender.note_partitions()
        with self._waiting("txn-commit"):
            await self._finish(manager.begin_commit(), timeout_ms, "commit_transaction")

    async def abort_transaction(self, timeout_ms: float | None) -> None:
        with self._waiting("txn-abort"):
            await self._finish(self.transactions().begin_abort(), timeout_ms, "abort_transaction")

    def can_abort(self) -> bool:
        """Whether there is a transaction that an abort would end."""
        manager = self.manager
        return manager is not None and manager.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR)

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, Any], group: GroupMetadata | str, timeout_ms: float | None
    ) -> None:
        manager = self.transactions()
        commits = {TopicPartition(*partition): _offset_commit(offset) for partition, offset in offsets.items()}
        if isinstance(group, str):
            identity = GroupIdentity(group)
        else:
            identity = GroupIdentity(group.group_id, group.generation_id, group.member_id, group.group_instance_id)
        if not commits:
            manager.check_error()
            return
        with self._waiting("txn-send-offsets"):
            await self._finish(manager.send_offsets(commits, identity), timeout_ms, "send_offsets_to_transaction")

    async def _finish(self, result: TxnResult, timeout_ms: float | None, what: str) -> None:
        assert self.driver is not None, "transactions have a driver"
        with self.accumulator.mutex:
            self.accumulator.hurry()
        self.sender.run()
        self.driver.kick()
        done: Promise[None] = self.world.tasks.promise()

        def told() -> None:
            if not done.done():
                done.set_result(None)

        result.when_done(told)
        try:
            await within(self.world, done, self.config.max_block_ms if timeout_ms is None else timeout_ms, what)
        except KafkaTimeout as late:
            unreachable = self.network.bootstrap.unreachable
            if unreachable is None:
                raise
            raise KafkaTimeout(f"{late}; {unreachable}") from None
        result.is_seen = True
        if result.error is not None:
            raise result.error.with_traceback(None)

    # Ending

    def check_open(self) -> None:
        if self.is_closed:
            raise ClientClosed("the producer is closed")

    async def close(self, timeout_ms: float | None) -> None:
        """Send what is there, within the time; then fail what is left, and end. A second call does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        log.info("[%s] Closing the Kafka producer with timeoutMillis = %s ms.", self.name, timeout_ms)
        deadline = Deadline(self.world, timeout_ms)
        accumulator = self.accumulator
        accumulator.close()
        try:
            accumulator.stop_lingering()
            await self._all_done(accumulator.oldest(), deadline.left_ms, "close")
            await self._end_transaction(deadline)
        except KafkaTimeout:
            log.info("[%s] Proceeding to force close the producer since pending requests could not be completed within "
                     "timeout %s ms.", self.name, timeout_ms)  # fmt: skip
        finally:
            self.abandon()

    async def _end_transaction(self, deadline: Deadline) -> None:
        manager = self.manager
        if manager is None or self.driver is None or not manager.has_ongoing_transaction:
            return
        try:
            if manager.is_completing:
                ending = manager.begin_commit() if manager.state is State.COMMITTING else manager.begin_abort()
            else:
                log.info("[%s] Aborting incomplete transaction due to shutdown", self.name)
                ending = manager.begin_abort()
            await self._finish(ending, deadline.at_most(self.config.max_block_ms), "close")
        except KafkaTimeout:
            raise
        except KafkaError as error:
            log.warning("[%s] The transaction could not be ended while closing: %s", self.name, error)

    def abandon(self) -> None:
        """End at once: what is under way fails with `ClientClosed`. A second call does nothing."""
        if self._is_abandoned:
            return
        self.is_closed = self._is_abandoned = True
        closed = ClientClosed("the producer was closed before the record was written")
        self.accumulator.close()
        if self.driver is not None:
            self.driver.close()
        if self.manager is not None:
            self.manager.fail_requests(ClientClosed("the producer is closed"))
        self.sender.close(closed)
        self.metadata.close()
        self.network.close()
        config = self.config
        for part in (
            *config.interceptor_classes,
            config.key_serializer,
            config.value_serializer,
            config.partitioner_class,
        ):
            close = getattr(part, "close", None)
            if close is not None:
                try:
                    close()
                except Exception:
                    log.exception("[%s] %r could not be closed", self.name, part)


def _offset_commit(offset: Any) -> OffsetCommit:
    """From a number, or from anything with `offset`, `metadata` and `leader_epoch`."""
    if isinstance(offset, int):
        return OffsetCommit(offset)
    leader_epoch = getattr(offset, "leader_epoch", None)
    return OffsetCommit(
        offset.offset, getattr(offset, "metadata", "") or "", -1 if leader_epoch is None else leader_epoch
    )

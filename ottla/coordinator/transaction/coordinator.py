"""`TransactionCoordinator`: from a transactional id to its shard. What the handlers of the transaction APIs ask.

Besides, it aborts transactions that run out of time and forgets transactional ids that are not used any more, on the
schedule of `transaction.abort.timed.out.transaction.cleanup.interval.ms` and
`transaction.remove.expired.transaction.cleanup.interval.ms`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from ottla.config import BrokerConfig
from ottla.coordinator.partition import coordinator_partition
from ottla.coordinator.record import Producer
from ottla.coordinator.runtime import Runtime, Status
from ottla.coordinator.shard import ShardContext, ShardLog
from ottla.coordinator.transaction.completion import Completions
from ottla.coordinator.transaction.markers import MarkerSender
from ottla.coordinator.transaction.shard import EXPIRED_AT_ONCE_MAX, TransactionShard
from ottla.coordinator.transaction.transaction import Transaction
from ottla.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    InvalidProducerIdMapping,
    InvalidRequest,
    KafkaError,
    NotCoordinator,
    ProducerFenced,
)
from ottla.machine import Result
from ottla.metadata import Delta, Image
from ottla.records import NO_SEQUENCE
from ottla.types import TopicPartition
from ottla.wire.coordinator import TRANSACTION
from ottla.world import NodeWorld, Promise, Timer

log = logging.getLogger(__name__)

T = TypeVar("T")
Found = list[tuple[str, Transaction]]
"""Transactional ids, and what is known of them."""


class TransactionCoordinator:
    """All shards of this node. `take_producer_id` raises `CoordinatorLoadInProgress` while there is none to give."""

    def __init__(
        self,
        world: NodeWorld,
        node_id: int,
        config: Callable[[], BrokerConfig],
        log_of: Callable[[int], ShardLog],
        image: Image,
        *,
        markers: MarkerSender,
        take_producer_id: Callable[[], int],
    ) -> None:
        self.world = world
        self.name = f"TransactionCoordinator id={node_id}"
        self._config = config
        self._take_producer_id = take_producer_id
        self._loaded: dict[int, TransactionShard] = {}
        self.runtime: Runtime[TransactionShard] = Runtime(
            self.name,
            world,
            TRANSACTION,
            self._make,
            log_of,
            image,
            write_timeout_ms=lambda: config().request_timeout_ms,
            base_sequence=NO_SEQUENCE,
        )
        self.completions = Completions(self.name, world, self.runtime, markers)
        self._timers: list[Timer | None] = [None, None]
        self._is_closed = False

    def _make(self, context: ShardContext) -> TransactionShard:
        return TransactionShard(
            context, self.name, self._config, self._take_producer_id, self.completions.begin, self._on_life
        )

    def _on_life(self, shard: TransactionShard, is_loaded: bool) -> None:
        if is_loaded:
            self._loaded[shard.context.index] = shard
            self.completions.resume(shard)
        elif self._loaded.get(shard.context.index) is shard:
            del self._loaded[shard.context.index]

    def index_of(self, transactional_id: str) -> int:
        """The partition that a transactional id belongs to; `NotCoordinator` while the topic does not exist."""
        topic = self.runtime.image.topics.by_name.get(TRANSACTION.topic)
        if topic is None or not topic.partitions:
            raise NotCoordinator
        return coordinator_partition(transactional_id, len(topic.partitions))

    # Producers

    def init_producer_id(
        self, transactional_id: str, *, timeout_ms: int, expected: Producer | None = None
    ) -> Promise[Producer | None]:
        """The id and epoch that a producer works with from now on, which fences those before it.

        None when a live transaction had to be aborted first, which it is now: the client is told
        CONCURRENT_TRANSACTIONS, and comes again.
        """
        return self._write(
            transactional_id,
            "InitProducerId",
            lambda shard: shard.init_producer_id(transactional_id, timeout_ms=timeout_ms, expected=expected),
        )

    def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition], *, client_version: int
    ) -> Promise[None]:
        """Let partitions take part in a transaction, which the first of them begin."""
        return self._write(
            transactional_id,
            "AddPartitionsToTxn",
            lambda shard: shard.add_partitions(transactional_id, producer, partitions, client_version=client_version),
        )

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
    ) -> Promise[Mapping[TopicPartition, int]]:
        """An error code for each partition: 0 for those that take part in the transaction."""
        return self._write(
            transactional_id,
            "AddPartitionsToTxn",
            lambda shard: Result(shard.verify_partitions(transactional_id, producer, partitions)),
        )

    def end(
        self, transactional_id: str, producer: Producer, *, is_commit: bool, client_version: int
    ) -> Promise[Producer]:
        """Commit or abort. The promise gets the id and epoch to go on with when the end is decided; the markers follow.

        Before transaction version 2 they do not change, and are (-1, -1).
        """
        return self._write(
            transactional_id,
            "EndTxn",
            lambda shard: shard.end(transactional_id, producer, is_commit=is_commit, client_version=client_version),
        )

    def _write(self, transactional_id: str, name: str, decide: Callable[[TransactionShard], Result[T]]) -> Promise[T]:
        if not transactional_id:
            raise InvalidRequest
        return self.runtime.write(self.index_of(transactional_id), name, decide)

    # Looking

    def describe(self, transactional_id: str) -> Promise[Transaction]:
        """What is known of a transactional id; `TransactionalIdNotFound` when nothing is."""
        return self._write(
            transactional_id, "DescribeTransactions", lambda shard: Result(shard.describe(transactional_id))
        )

    def list(self, wanted: Callable[[str, Transaction], bool]) -> Sequence[Promise[Found]]:
        """The transactions of this node that are `wanted`, shard by shard."""
        if self.runtime.count(Status.LOADING):
            raise CoordinatorLoadInProgress

        def look(shard: TransactionShard) -> Found:
            return [one for one in shard.transactions.items() if wanted(*one)]

        # A partition whose log could not be read has nothing to tell, and is no reason not to tell of the others.
        return [self.runtime.read(index, "ListTransactions", look) for index in self.runtime.active_indexes]

    # Time

    def start(self) -> None:
        """Time-outs and expiry begin to run."""
        config = self._config()
        self._every(0, config.transaction_abort_timed_out_transaction_cleanup_interval_ms, self.abort_timed_out)
        self._every(1, config.transaction_remove_expired_transaction_cleanup_interval_ms, self.remove_expired)

    def _every(self, place: int, interval_ms: int, work: Callable[[], object]) -> None:
        def run() -> None:
            if not self._is_closed:
                work()
                self._timers[place] = self.world.tasks.later(interval_ms, run)

        self._timers[place] = self.world.tasks.later(interval_ms, run)

    def abort_timed_out(self) -> None:
        """Abort the transactions that have been open for longer than their producers said."""
        for index, shard in list(self._loaded.items()):
            for transactional_id, ongoing in shard.timed_out():
                self._abort(index, transactional_id, ongoing)

    def _abort(self, index: int, transactional_id: str, ongoing: Transaction) -> None:
        def aborted(done: Promise[Producer]) -> None:
            try:
                done.result()
            except (InvalidProducerIdMapping, ProducerFenced, ConcurrentTransactions) as error:
                log.debug("[%s] Rollback of ongoing transaction for transactionalId %s has been cancelled due to "
                          "error %s", self.name, transactional_id, error.name)  # fmt: skip
            except KafkaError as error:
                log.warning("[%s] Rollback of ongoing transaction for transactionalId %s failed due to error %s",
                            self.name, transactional_id, error.name)  # fmt: skip
            else:
                log.info("[%s] Completed rollback of ongoing transaction for transactionalId %s due to timeout",
                         self.name, transactional_id)  # fmt: skip

        promise = self.runtime.write(index, "abort", lambda shard: shard.abort(transactional_id, ongoing))
        promise.add_done_callback(aborted)

    def remove_expired(self) -> None:
        """Forget transactional ids that were not used for `transactional.id.expiration.ms`."""
        for index in list(self._loaded):
            self._expire(index)

    def _expire(self, index: int) -> None:
        def expired(done: Promise[int]) -> None:
            try:
                count = done.result()
            except KafkaError as error:
                log.warning(
                    "[%s] Failed to remove expired transactionalIds of partition %d: %s", self.name, index, error
                )
                return
            if count:
                log.info("[%s] Removed %d expired transactionalIds of partition %d", self.name, count, index)
            if count == EXPIRED_AT_ONCE_MAX:
                self._expire(index)

        self.runtime.write(index, "expire", lambda shard: shard.expire()).add_done_callback(expired)

    # What the replicas and the metadata tell

    def on_elected(self, index: int, leader_epoch: int) -> None:
        self.runtime.on_elected(index, leader_epoch)

    def on_resigned(self, index: int) -> None:
        self.runtime.on_resigned(index)

    def on_metadata(self, delta: Delta, image: Image) -> None:
        self.runtime.on_metadata(delta, image)

    def close(self) -> None:
        self._is_closed = True
        for timer in self._timers:
            if timer is not None:
                timer.cancel()
        self.runtime.close()

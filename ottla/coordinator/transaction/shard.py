"""`TransactionShard`: the transactional ids of one partition of `__transaction_state`, and what is decided about them.

A decision looks at the `Transaction` and returns the next one as a record. The end of a transaction is two records: the
first says how it ends, and is the promise; the second, once every partition has its marker, that it has. In between
the shard's `finish` is at work, and everybody else is told CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.config import BrokerConfig
from ottla.coordinator.record import CoordinatorRecord, EndMarker, Producer
from ottla.coordinator.shard import ShardContext
from ottla.coordinator.transaction.ending import Request, judge_end
from ottla.coordinator.transaction.state import TransactionState
from ottla.coordinator.transaction.transaction import (
    EPOCH_BUMP_VERSION,
    NO_PRODUCER,
    Transaction,
    is_exhausted,
)
from ottla.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdNotFound,
)
from ottla.machine import Result, UndoDict
from ottla.metadata import TRANSACTION_VERSION, Delta
from ottla.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.types import TopicPartition
from ottla.wire.coordinator.transaction import TransactionLogKey, TransactionLogValue

log = logging.getLogger(__name__)

EXPIRED_AT_ONCE_MAX = 500
"""How many transactional ids are removed by one batch, so that others have their turn."""


class TransactionShard:
    """See the module. `take_producer_id` gives an id that nobody had; `finish` is told of a prepared transaction."""

    def __init__(
        self,
        context: ShardContext,
        name: str,
        config: Callable[[], BrokerConfig],
        take_producer_id: Callable[[], int],
        finish: Callable[[TransactionShard, str], None],
        on_life: Callable[[TransactionShard, bool], None],
    ) -> None:
        self.context = context
        self._name = name
        self._config = config
        self._take_producer_id = take_producer_id
        self._finish = finish
        self._on_life = on_life
        self.transactions: UndoDict[str, Transaction] = UndoDict(context.undo)
        self.ongoing: UndoDict[str, None] = UndoDict(context.undo)
        """Those that may run out of time."""
        self._last_epochs: dict[str, int] = {}
        """The epoch that a producer had before the one it was given last: it may ask once more, not knowing (KIP-360).
        Not in the log, as in Kafka: after a reload such a producer is fenced."""
        self.is_loaded = False

    # Producers

    def init_producer_id(
        self, transactional_id: str, *, timeout_ms: int, expected: Producer | None = None
    ) -> Result[Producer | None]:
        """A producer begins: it gets an epoch that fences those before it. `expected` is what it had, if it goes on.

        None when a transaction had to be aborted first: it has to come again when that is done.
        """
        now_ms = self.context.world.clock.now_ms()
        known = self.transactions.get(transactional_id)
        if known is None:
            self._last_epochs.pop(transactional_id, None)
            return self._begun(
                transactional_id, Transaction.new(self._take_producer_id(), timeout_ms=timeout_ms, now_ms=now_ms)
            )
        if known.state.is_prepared:
            raise ConcurrentTransactions
        if expected is not None and not _may_go_on(known, expected):
            raise ProducerFenced
        if known.state is TransactionState.ONGOING:
            return self._fence(transactional_id, known)
        if known.has_exhausted_epochs and (expected is None or expected.epoch == known.producer_epoch):
            begun = known.with_producer_id(self._take_producer_id(), timeout_ms=timeout_ms, now_ms=now_ms)
            last_epoch = NO_PRODUCER_EPOCH if expected is None else known.producer_epoch
        else:
            epoch, last_epoch = self._next_epoch(transactional_id, known, expected)
            begun = known.with_epoch(epoch, timeout_ms=timeout_ms, now_ms=now_ms)
        self._last_epochs[transactional_id] = last_epoch
        return self._begun(transactional_id, begun)

    def _next_epoch(self, transactional_id: str, known: Transaction, expected: Producer | None) -> tuple[int, int]:
        """The epoch that a producer gets, and the one it had."""
        current = known.producer_epoch
        last = self._last_epochs.get(transactional_id, NO_PRODUCER_EPOCH)
        if expected is None:
            return current + 1, NO_PRODUCER_EPOCH
        if expected.epoch == current:
            return current + 1, current
        if expected.epoch == last:
            return current, last  # the answer to the same request got lost
        log.info("[%s] Expected producer epoch %d does not match current producer epoch %d or previous producer epoch "
                 "%d", self._name, expected.epoch, current, last)  # fmt: skip
        raise ProducerFenced

    def _begun(self, transactional_id: str, begun: Transaction) -> Result[Producer | None]:
        def written(error: BaseException | None) -> None:
            if error is None:
                log.info("[%s] Initialized transactionalId %s with producerId %d and producer epoch %d on partition "
                         "__transaction_state-%d", self._name, transactional_id, begun.producer_id,
                         begun.producer_epoch, self.context.index)  # fmt: skip

        return Result(begun.producer, [self._record(transactional_id, begun)], written)

    def _fence(self, transactional_id: str, ongoing: Transaction) -> Result[Producer | None]:
        """Abort what another producer has begun. Who asked comes again, and gets the next epoch then."""
        result = self._prepare(
            transactional_id, ongoing, is_commit=False, client_version=self.transaction_version, is_fence=True
        )
        return Result(None, result.records, result.then)

    # Partitions

    def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition], *, client_version: int
    ) -> Result[None]:
        """Partitions take part in a producer's transaction."""
        known = self._of(transactional_id)
        if known.state.is_prepared:
            raise ConcurrentTransactions
        _check_producer(known, producer)
        if known.state is TransactionState.ONGOING and set(partitions).issubset(known.partitions):
            return Result(None)
        grown = known.with_partitions(
            partitions, client_version=client_version, now_ms=self.context.world.clock.now_ms()
        )
        return Result(None, [self._record(transactional_id, grown)])

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Whether each partition takes part: an error code for each, 0 for those that do."""
        known = self._of(transactional_id)
        _check_producer(known, producer)
        if known.state.is_prepared:
            raise ConcurrentTransactions
        return {one: 0 if one in known.partitions else TransactionAbortable.code for one in partitions}

    # Ends

    def end(
        self, transactional_id: str, producer: Producer, *, is_commit: bool, client_version: int
    ) -> Result[Producer]:
        """A producer ends its transaction; it is told the id and epoch to go on with, as far as they change."""
        known = self._of(transactional_id)
        try:
            request = judge_end(known, producer, is_commit=is_commit, client_version=client_version)
        except InvalidTxnState as error:
            log.warning("[%s] TransactionalId: %s: %s", self._name, transactional_id, error)
            raise
        if request is Request.REPEATED:
            return Result(known.producer if client_version >= EPOCH_BUMP_VERSION else NO_PRODUCER)
        return self._prepare(transactional_id, known, is_commit=is_commit, client_version=client_version)

    def timed_out(self) -> list[tuple[str, Transaction]]:
        """The transactions that have run out of time."""
        now_ms = self.context.world.clock.now_ms()
        found = [(transactional_id, self.transactions[transactional_id]) for transactional_id in self.ongoing]
        return [(transactional_id, one) for transactional_id, one in found if one.has_timed_out(now_ms)]

    def abort(self, transactional_id: str, ongoing: Transaction) -> Result[Producer]:
        """Abort a transaction that has run out of time, and fence its producer, unless it has gone on meanwhile."""
        if self.transactions.get(transactional_id) is not ongoing:
            raise ConcurrentTransactions
        return self._prepare(
            transactional_id, ongoing, is_commit=False, client_version=self.transaction_version, is_fence=True
        )

    def complete(self, transactional_id: str, prepared: Transaction) -> Result[None]:
        """Every partition has its marker. Nothing happens if the transaction is not what it was."""
        if self.transactions.get(transactional_id) is not prepared:
            return Result(None)
        return Result(None, [self._record(transactional_id, prepared.completed(self.context.world.clock.now_ms()))])

    def _prepare(
        self, transactional_id: str, known: Transaction, *, is_commit: bool, client_version: int, is_fence: bool = False
    ) -> Result[Producer]:
        now_ms = self.context.world.clock.now_ms()
        has_epoch_bump = client_version >= EPOCH_BUMP_VERSION
        if has_epoch_bump:
            next_id = self._take_producer_id() if known.has_exhausted_epochs else NO_PRODUCER_ID
            prepared = known.prepared(
                is_commit=is_commit, client_version=client_version, next_producer_id=next_id, now_ms=now_ms
            )
            self._last_epochs[transactional_id] = known.producer_epoch
        else:
            if is_fence:
                known = known.fenced()
                self._last_epochs[transactional_id] = NO_PRODUCER_EPOCH
            prepared = known.prepared(is_commit=is_commit, client_version=0, now_ms=now_ms)
        producer = prepared.completed(now_ms).producer if has_epoch_bump else NO_PRODUCER

        def written(error: BaseException | None) -> None:
            if error is None:
                self._finish(self, transactional_id)

        return Result(producer, [self._record(transactional_id, prepared)], written)

    # The end of a transactional id

    def expire(self) -> Result[int]:
        """Forget transactional ids that were not used for long; returns how many, `EXPIRED_AT_ONCE_MAX` at most."""
        config = self._config()
        expired_from_ms = self.context.world.clock.now_ms() - config.transactional_id_expiration_ms
        room = config.message_max_bytes // 2
        expired: list[str] = []
        for transactional_id, one in self.transactions.items():
            if one.state.may_expire and one.updated_ms <= expired_from_ms:
                room -= len(transactional_id) * 4 + 32
                if len(expired) == EXPIRED_AT_ONCE_MAX or (room < 0 and expired):
                    break
                expired.append(transactional_id)
        return Result(len(expired), [CoordinatorRecord(TransactionLogKey(one)) for one in expired])

    # Looking

    def describe(self, transactional_id: str) -> Transaction:
        known = self.transactions.get(transactional_id)
        if known is None:
            raise TransactionalIdNotFound
        return known

    @property
    def transaction_version(self) -> int:
        """The cluster's `transaction.version`."""
        return self.context.image.features.get(TRANSACTION_VERSION, 0)

    def _of(self, transactional_id: str) -> Transaction:
        known = self.transactions.get(transactional_id)
        if known is None:
            raise InvalidProducerIdMapping
        return known

    def _record(self, transactional_id: str, transaction: Transaction) -> CoordinatorRecord:
        return transaction.to_record(transactional_id, transaction_version=self.transaction_version)

    # What the runtime asks

    def replay(self, record: CoordinatorRecord, producer: Producer | None) -> None:
        key, value = record.key, record.value
        assert isinstance(key, TransactionLogKey), f"{key} is no key of __transaction_state"
        transactional_id = key.transactional_id
        if value is None:
            self.transactions.pop(transactional_id, None)
            self.ongoing.pop(transactional_id, None)
            self._last_epochs.pop(transactional_id, None)
            return
        assert isinstance(value, TransactionLogValue), f"{value} is no value of __transaction_state"
        transaction = Transaction.from_record(value)
        if record.version == 0:  # which does not have the id before, and a producer may come back with it
            known = self.transactions.get(transactional_id, transaction)
            transaction = transaction._replace(previous_producer_id=known.producer_id)
        self.transactions[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            if transactional_id not in self.ongoing:
                self.ongoing[transactional_id] = None
        elif transactional_id in self.ongoing:
            del self.ongoing[transactional_id]

    def replay_marker(self, marker: EndMarker) -> None:
        """No transaction has records here. A marker can still be written by mistake, and must not keep all the others
        from being loaded."""
        log.warning("[%s] A marker in __transaction_state-%d is ignored: %s", self._name, self.context.index, marker)

    def on_loaded(self) -> None:
        self.is_loaded = True
        self._on_life(self, True)

    def on_unloaded(self) -> None:
        self.is_loaded = False
        self._on_life(self, False)

    def on_metadata(self, delta: Delta) -> None:
        """Nothing follows from it: what a transaction needs to know it asks the image when it needs it."""


def _check_producer(known: Transaction, producer: Producer) -> None:
    if known.producer_id != producer.id:
        raise InvalidProducerIdMapping
    if known.producer_epoch != producer.epoch:
        raise ProducerFenced


def _may_go_on(known: Transaction, expected: Producer) -> bool:
    """Whether a producer that says who it was may go on: it is the current one, or the one before an overflow whose
    answer it missed."""
    return expected.id == known.producer_id or (
        expected.id == known.previous_producer_id and is_exhausted(expected.epoch)
    )

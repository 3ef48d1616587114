"""`Transaction`: what is known of one transactional id, and how each step changes it.

A value that never changes: a step returns the next one. It is what the log has, so `from_record` of `to_record` is the
same again. Epochs and ids follow KIP-98, KIP-360 and, with transaction version 2, KIP-890.
Called by the shard, whose decisions choose the step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.coordinator.record import CoordinatorRecord, Producer
from ottla.coordinator.transaction.state import STATE_BY_NUMBER, TransactionState
from ottla.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.types import TopicPartition
from ottla.wire.coordinator.transaction import PartitionsSchema, TransactionLogKey, TransactionLogValue

EPOCH_MAX = 2**15 - 1
"""Of a producer; clients are never given it, so that there is always one left to fence them with."""
NO_TIMEOUT_MS = 2**31 - 1
"""The time-out of a transaction whose end an outside coordinator decides (KIP-939)."""
NO_TIME = -1
EPOCH_BUMP_VERSION = 2
"""From this transaction version on every end of a transaction raises the producer's epoch (KIP-890)."""


class Transaction(NamedTuple):
    """See the module."""

    producer_id: int
    previous_producer_id: int
    """The id before the last step, so that a producer that missed the answer to an overflow is recognised."""
    next_producer_id: int
    """While it is prepared and its epochs are used up: the id that the producer has afterwards."""
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: tuple[TopicPartition, ...]
    """Those that take part, in the order in which they came."""
    start_ms: int
    updated_ms: int
    client_version: int
    """The transaction version that the last step was taken with."""

    @classmethod
    def new(cls, producer_id: int, *, timeout_ms: int, now_ms: int) -> Transaction:
        """A transactional id that was not known before, with the first epoch."""
        return cls(
            producer_id, producer_id, NO_PRODUCER_ID, 0, timeout_ms, TransactionState.EMPTY, (), NO_TIME, now_ms, 0
        )

    # What it says

    @property
    def producer(self) -> Producer:
        return Producer(self.producer_id, self.producer_epoch)

    @property
    def has_exhausted_epochs(self) -> bool:
        return is_exhausted(self.producer_epoch)

    def has_timed_out(self, now_ms: int) -> bool:
        return (
            self.state is TransactionState.ONGOING
            and self.timeout_ms != NO_TIMEOUT_MS
            and self.start_ms + self.timeout_ms < now_ms
        )

    @property
    def has_epoch_bump(self) -> bool:
        return self.client_version >= EPOCH_BUMP_VERSION

    # Steps

    def with_epoch(self, producer_epoch: int, *, timeout_ms: int, now_ms: int) -> Transaction:
        """A producer begins anew, with that epoch of the same id."""
        return self._step(TransactionState.EMPTY, now_ms)._replace(
            producer_epoch=producer_epoch, timeout_ms=timeout_ms, partitions=(), start_ms=NO_TIME
        )

    def with_producer_id(self, producer_id: int, *, timeout_ms: int, now_ms: int) -> Transaction:
        """A producer begins anew with another id, because the epochs of this one are used up."""
        return self.with_epoch(0, timeout_ms=timeout_ms, now_ms=now_ms)._replace(producer_id=producer_id)

    def with_partitions(self, partitions: Iterable[TopicPartition], *, client_version: int, now_ms: int) -> Transaction:
        """Partitions take part from now on; the first of them begin the transaction."""
        return self._step(TransactionState.ONGOING, now_ms)._replace(
            partitions=tuple(dict.fromkeys((*self.partitions, *partitions))),
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            client_version=client_version,
        )

    def prepared(
        self, *, is_commit: bool, client_version: int, now_ms: int, next_producer_id: int = NO_PRODUCER_ID
    ) -> Transaction:
        """The end is decided. With version 2 the epoch moves on with it: what comes late is of an old epoch."""
        epoch = self.producer_epoch
        if client_version >= EPOCH_BUMP_VERSION:
            epoch = min(epoch + 1, EPOCH_MAX)  # at the highest only an abort gets here, and must get through
        state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
        return self._step(state, now_ms)._replace(
            producer_epoch=epoch,
            next_producer_id=next_producer_id,
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            client_version=client_version,
        )

    def fenced(self) -> Transaction:
        """Its producer's epoch is over, before version 2: the abort that follows is of the next one."""
        assert self.state is TransactionState.ONGOING, f"a producer is fenced in state {self.state}"
        return self._replace(producer_epoch=min(self.producer_epoch + 1, EPOCH_MAX))

    def completed(self, now_ms: int) -> Transaction:
        """Every partition has its marker."""
        done = self._step(self.state.completed, now_ms)._replace(next_producer_id=NO_PRODUCER_ID, partitions=())
        if self.has_epoch_bump and self.next_producer_id != NO_PRODUCER_ID:
            return done._replace(producer_id=self.next_producer_id, producer_epoch=0)
        return done

    def _step(self, state: TransactionState, now_ms: int) -> Transaction:
        assert state.may_follow(self.state), f"a transaction cannot go from {self.state} to {state}"
        return self._replace(state=state, previous_producer_id=self.producer_id, updated_ms=now_ms)

    # The log

    def to_record(self, transactional_id: str, *, transaction_version: int) -> CoordinatorRecord:
        """As the cluster's `transaction.version` has it written: the producers before and after since version 1."""
        version = 1 if transaction_version >= 1 else 0
        partitions = None
        if self.state is not TransactionState.EMPTY:
            by_topic: dict[str, list[int]] = {}
            for topic, index in self.partitions:
                by_topic.setdefault(topic, []).append(index)
            partitions = [PartitionsSchema(topic, indexes) for topic, indexes in by_topic.items()]
        value = TransactionLogValue(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state.number,
            transaction_partitions=partitions,
            transaction_last_update_timestamp_ms=self.updated_ms,
            transaction_start_timestamp_ms=self.start_ms,
            client_transaction_version=self.client_version,
        )
        if version >= 1:
            value.previous_producer_id = self.previous_producer_id
            value.next_producer_id = self.next_producer_id
        return CoordinatorRecord(TransactionLogKey(transactional_id), value, version)

    @classmethod
    def from_record(cls, value: TransactionLogValue) -> Transaction:
        state = STATE_BY_NUMBER[value.transaction_status]
        partitions = () if state is TransactionState.EMPTY else value.transaction_partitions or ()
        return cls(
            value.producer_id,
            value.previous_producer_id,
            value.next_producer_id,
            value.producer_epoch,
            value.transaction_timeout_ms,
            state,
            tuple(TopicPartition(one.topic, index) for one in partitions for index in one.partition_ids),
            value.transaction_start_timestamp_ms,
            value.transaction_last_update_timestamp_ms,
            value.client_transaction_version,
        )


def is_exhausted(producer_epoch: int) -> bool:
    """Whether no client may be given an epoch after this one."""
    return producer_epoch >= EPOCH_MAX - 1


NO_PRODUCER = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)

"""When a transaction may be ended, and when a request to end one has been answered before.

Before transaction version 2 the epoch stays, and a request is repeated when the state is the one it asked for. With
version 2 (KIP-890) each end raises the epoch, so a repeated request is one epoch behind, and one of the current epoch
is a new one: an abort of it is taken even where nothing was begun, because a producer may not know whether it had.
"""

from __future__ import annotations

from enum import Enum

from ottla.coordinator.record import Producer
from ottla.coordinator.transaction.state import TransactionState
from ottla.coordinator.transaction.transaction import EPOCH_BUMP_VERSION, EPOCH_MAX, Transaction
from ottla.errors import ConcurrentTransactions, InvalidProducerIdMapping, InvalidTxnState, ProducerFenced


class Request(Enum):
    """What a request to end a transaction turns out to be."""

    NEW = "new"
    REPEATED = "repeated"
    """The end that it asks for has been reached: it is answered once more."""


def judge_end(transaction: Transaction, producer: Producer, *, is_commit: bool, client_version: int) -> Request:
    """What a producer's request to end its transaction is; raises what the producer is told when it may not."""
    if client_version >= EPOCH_BUMP_VERSION:
        return _judge_with_epoch_bump(transaction, producer, is_commit=is_commit)
    if transaction.producer_id != producer.id:
        raise InvalidProducerIdMapping
    if transaction.producer_epoch != producer.epoch:
        raise ProducerFenced
    if transaction.state.is_prepared:
        raise ConcurrentTransactions
    match transaction.state:
        case TransactionState.ONGOING:
            return Request.NEW
        case TransactionState.COMPLETE_COMMIT if is_commit:
            return Request.REPEATED
        case TransactionState.COMPLETE_ABORT if not is_commit:
            return Request.REPEATED
    raise _wrong_state(transaction, is_commit=is_commit)


def _judge_with_epoch_bump(transaction: Transaction, producer: Producer, *, is_commit: bool) -> Request:
    if transaction.state.is_prepared:
        # Before anything else: over an overflow the producer may have the id already that comes with the next state.
        raise ConcurrentTransactions
    is_overflow = (
        transaction.previous_producer_id == producer.id
        and producer.epoch == EPOCH_MAX - 1
        and transaction.producer_epoch == 0
    )
    is_behind = transaction.producer_epoch == producer.epoch + 1
    if transaction.producer_id != producer.id and not is_overflow:
        raise InvalidProducerIdMapping
    is_current = transaction.producer_epoch == producer.epoch
    is_complete = transaction.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    if not (is_current or (is_complete and (is_behind or is_overflow))):
        raise ProducerFenced
    is_repeated = is_behind or is_overflow
    match transaction.state:
        case TransactionState.ONGOING:
            return Request.NEW
        case TransactionState.EMPTY if not is_commit:
            return Request.NEW
        case TransactionState.COMPLETE_COMMIT if is_commit is is_repeated:
            return Request.REPEATED if is_commit else Request.NEW
        case TransactionState.COMPLETE_ABORT if not is_commit:
            return Request.REPEATED if is_repeated else Request.NEW
    raise _wrong_state(transaction, is_commit=is_commit)


def _wrong_state(transaction: Transaction, *, is_commit: bool) -> InvalidTxnState:
    result = "COMMIT" if is_commit else "ABORT"
    return InvalidTxnState(f"its state is {transaction.state}, but received transaction marker result {result}")

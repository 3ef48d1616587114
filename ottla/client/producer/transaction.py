"""Who a producer is to the brokers, and where its transaction stands: a state machine without I/O.

It serves idempotent producers (an id, an epoch, sequences) and transactional ones (the same, and a transaction that
begins, takes partitions and offsets in, and ends). What has to be asked of a coordinator is queued as a `TxnRequest`;
the driver sends one after the other and hands each response back. Promises, as in Kafka's producer: a transition that
is not allowed raises and changes nothing; an error is either abortable (abort, then go on) or fatal (close); a batch is
numbered so that no broker takes it twice or out of order, whatever is retried (KIP-98, KIP-360); with
`transaction.version` 2 partitions are not added beforehand and every end brings a new epoch (KIP-890).
Used on the client's thread alone.
"""

from __future__ import annotations

import heapq
import itertools
import logging
from collections.abc import Callable, Mapping
from enum import Enum

from ottla.client.errors import IllegalState, as_abortable, as_fatal
from ottla.client.producer.batch import ProducerBatch
from ottla.client.producer.sequences import EPOCH_MAX, NO_PRODUCER, ProducerIdAndEpoch, Sequences
from ottla.client.producer.txn_requests import (
    AddOffsets,
    AddPartitions,
    EndTransaction,
    GroupIdentity,
    InitProducerId,
    OffsetCommit,
    TxnRequest,
    TxnResult,
)
from ottla.errors import (
    ClusterAuthorizationFailed,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    UnknownProducerId,
    UnsupportedVersion,
)
from ottla.records import increment_sequence, is_sequence_before
from ottla.types import TopicPartition

log = logging.getLogger(__name__)


class State(Enum):
    """Where the producer stands. An idempotent one knows only the first three and the last."""

    UNINITIALIZED = "UNINITIALIZED"
    INITIALIZING = "INITIALIZING"
    READY = "READY"
    IN_TRANSACTION = "IN_TRANSACTION"
    COMMITTING = "COMMITTING_TRANSACTION"
    ABORTING = "ABORTING_TRANSACTION"
    ABORTABLE_ERROR = "ABORTABLE_ERROR"
    FATAL_ERROR = "FATAL_ERROR"


_ALLOWED_FROM: dict[State, tuple[State, ...]] = {
    State.UNINITIALIZED: (State.READY, State.ABORTABLE_ERROR),
    State.INITIALIZING: (State.UNINITIALIZED, State.COMMITTING, State.ABORTING),
    State.READY: (State.INITIALIZING, State.COMMITTING, State.ABORTING),
    State.IN_TRANSACTION: (State.READY,),
    State.COMMITTING: (State.IN_TRANSACTION,),
    State.ABORTING: (State.IN_TRANSACTION, State.ABORTABLE_ERROR),
    State.ABORTABLE_ERROR: (State.IN_TRANSACTION, State.COMMITTING, State.ABORTABLE_ERROR, State.INITIALIZING),
    State.FATAL_ERROR: tuple(State),
}

_FATAL = (
    ClusterAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    ProducerFenced,
    UnsupportedVersion,
    InvalidProducerIdMapping,
)


class TransactionManager:
    """The producer's identity and transaction. `transactional_id` None makes it an idempotent producer's."""

    def __init__(self, *, transactional_id: str | None, timeout_ms: int, name: str) -> None:
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.name = name
        self.state = State.UNINITIALIZED
        self.last_error: KafkaError | None = None
        self.producer = NO_PRODUCER
        self.sequences = Sequences()
        self.on_change: Callable[[], None] = lambda: None
        """Called after every change of the state."""
        self.on_end: Callable[[], None] = lambda: None
        """Called when a transaction is about to end: the moment to look at the cluster's features (`set_features`)."""
        self.on_unauthorized: Callable[[KafkaError], None] = lambda error: None
        """Told when the producer may not have an id: what waits for one has failed."""
        self.is_version_2 = False
        """Whether the cluster's `transaction.version` is at least 2."""
        self.can_bump_epoch = False
        """Whether the coordinator can give a new epoch to a producer that goes on (KIP-360)."""
        self.is_started = False
        """The coordinator knows of the transaction, so it has to be told of its end."""
        self.new_partitions: dict[TopicPartition, None] = {}
        self.pending_partitions: dict[TopicPartition, None] = {}
        self.partitions: dict[TopicPartition, None] = {}
        """Those that the coordinator knows to be in the transaction; with version 2, those that were sent to."""
        self.needs_epoch_bump = False
        self._unresolved: dict[TopicPartition, int] = {}
        self._to_renumber: dict[TopicPartition, None] = {}
        self._introduced: set[TopicPartition] = set()
        """Partitions whose leader has written something of the producer id."""
        self._queue: list[tuple[int, int, TxnRequest]] = []
        self._numbers = itertools.count()
        self._under_way: tuple[State, str, TxnResult] | None = None
        """The call that was begun and whose end nobody has seen: after a time-out it must be made again."""

    # What it is

    @property
    def is_transactional(self) -> bool:
        return self.transactional_id is not None

    @property
    def has_fatal_error(self) -> bool:
        return self.state is State.FATAL_ERROR

    @property
    def has_abortable_error(self) -> bool:
        return self.state is State.ABORTABLE_ERROR

    @property
    def is_completing(self) -> bool:
        return self.state in (State.COMMITTING, State.ABORTING)

    @property
    def has_ongoing_transaction(self) -> bool:
        return self.state is State.IN_TRANSACTION or self.is_completing or self.has_abortable_error

    @property
    def has_pending_requests(self) -> bool:
        return bool(self._queue)

    def refusal(self) -> KafkaError | None:
        """Why no record can be sent now."""
        if self.state in (State.ABORTABLE_ERROR, State.FATAL_ERROR):
            return self._as_told()
        if self.is_transactional and self.state is not State.IN_TRANSACTION:
            if not self.producer.is_valid:
                return IllegalState("Cannot send before init_transactions() has been called")
            return IllegalState(
                f"Cannot send while no transaction is open: the producer is in state {self.state.value}"
            )
        return None

    # The calls of a transactional producer

    def init_transactions(self) -> TxnResult:
        self.check_error()

        def begin() -> TxnResult:
            self.transition(State.INITIALIZING)
            log.info("[%s] Invoking InitProducerId for the first time in order to acquire a producer ID", self.name)
            return self.enqueue(InitProducerId(self, NO_PRODUCER, is_epoch_bump=False))

        return self._begin_once(State.INITIALIZING, "init_transactions", begin)

    def begin_transaction(self) -> None:
        self._check_nothing_under_way("begin_transaction")
        self.check_error()
        self.transition(State.IN_TRANSACTION)

    def begin_commit(self) -> TxnResult:
        def begin() -> TxnResult:
            self.check_error()
            self.transition(State.COMMITTING)
            return self._begin_end(is_commit=True)

        return self._begin_once(State.COMMITTING, "commit_transaction", begin)

    def begin_abort(self) -> TxnResult:
        def begin() -> TxnResult:
            if self.state is not State.ABORTABLE_ERROR:
                self.check_error()
            self.transition(State.ABORTING)
            self.new_partitions.clear()
            return self._begin_end(is_commit=False)

        return self._begin_once(State.ABORTING, "abort_transaction", begin)

    def _begin_end(self, *, is_commit: bool) -> TxnResult:
        self._enqueue_new_partitions()
        result = self.enqueue(EndTransaction(self, is_commit=is_commit))
        self.on_end()
        if self.needs_epoch_bump:
            log.info("[%s] Invoking InitProducerId with current producer ID and epoch %s in order to bump the epoch",
                     self.name, self.producer)  # fmt: skip
            return self.enqueue(InitProducerId(self, self.producer, is_epoch_bump=True))
        return result

    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetCommit], group: GroupIdentity) -> TxnResult:
        """Commit consumed offsets with the transaction."""
        self._check_nothing_under_way("send_offsets_to_transaction")
        self.check_error()
        if self.state is not State.IN_TRANSACTION:
            raise IllegalState(
                f"Cannot send offsets if a transaction is not in progress: the producer is in state {self.state.value}"
            )
        if self.is_version_2:
            self.is_started = True
            return self.enqueue(group.commit(self, dict(offsets)))
        return self.enqueue(AddOffsets(self, dict(offsets), group))

    def add_partition(self, partition: TopicPartition) -> None:
        """A record is on its way to the partition."""
        if not self.is_transactional or partition in self.partitions:
            return
        if self.is_version_2:
            # The broker itself adds it with the first batch.
            self.partitions[partition] = None
            self.is_started = True
        elif partition not in self.pending_partitions:
            self.new_partitions[partition] = None

    def set_features(self, transaction_version: int, *, is_initial: bool) -> None:
        """What the cluster has as `transaction.version` now. The change from 1 to 2 needs a new epoch."""
        was_version_2 = self.is_version_2
        self.is_version_2 = transaction_version >= 2
        if self.is_version_2 and not was_version_2 and not is_initial:
            self.needs_epoch_bump = True

    def _begin_once(self, state: State, call: str, begin: Callable[[], TxnResult]) -> TxnResult:
        """A call that timed out goes on in the background: made again, it waits for the same end."""
        self._check_transactional()
        if self._under_way is not None:
            begun, name, result = self._under_way
            if result.is_seen:
                self._under_way = None
            elif begun is not state:
                raise IllegalState(f"{call} cannot be called: {name} timed out before it and must be called again")
            else:
                return result
        result = begin()
        self._under_way = (state, call, result)
        return result

    def _check_nothing_under_way(self, call: str) -> None:
        self._check_transactional()
        if self._under_way is not None:
            _, name, result = self._under_way
            if not result.is_seen:
                raise IllegalState(f"{call} cannot be called: {name} timed out before it and must be called again")
            self._under_way = None

    def _check_transactional(self) -> None:
        if not self.is_transactional:
            raise IllegalState("transactions need a transactional.id, and this producer has none")

    def check_error(self) -> None:
        """Raise the error that the producer is in."""
        if self.state in (State.ABORTABLE_ERROR, State.FATAL_ERROR):
            raise self._as_told()

    def _as_told(self) -> KafkaError:
        assert self.last_error is not None, "an error state has its error"
        return as_fatal(self.last_error) if self.has_fatal_error else as_abortable(self.last_error)

    # States

    def transition(self, target: State, error: KafkaError | None = None) -> None:
        if self.state not in _ALLOWED_FROM[target]:
            raise IllegalState(f"Invalid transition attempted from state {self.state.value} to state {target.value}")
        log.debug("[%s] Transition from state %s to %s", self.name, self.state.value, target.value)
        self.last_error = error
        self.state = target
        self.on_change()

    def fail_abortably(self, error: KafkaError) -> None:
        """The transaction cannot be committed any more."""
        if self.state is State.ABORTING:
            log.debug("[%s] The transaction is being aborted already: %s", self.name, error)
            return
        if self.has_fatal_error:
            return
        log.info("[%s] Transiting to abortable error state due to %s: %s", self.name, type(error).__name__, error)
        self.transition(State.ABORTABLE_ERROR, as_abortable(error))

    def fail_fatally(self, error: KafkaError) -> None:
        """Nothing can be sent any more."""
        log.info("[%s] Transiting to fatal error state due to %s: %s", self.name, type(error).__name__, error)
        self.transition(State.FATAL_ERROR, as_fatal(error))
        if self._under_way is not None:
            self._under_way[2].fail(as_fatal(error))

    def fail_abortably_if_possible(self, error: KafkaError) -> None:
        """Abortable where a new epoch can be had, which is what makes it safe to go on."""
        if self.can_bump_epoch or self.is_version_2:
            if not self.is_version_2:
                self.needs_epoch_bump = True
            self.fail_abortably(error)
        else:
            self.fail_fatally(error)

    def note_error(self, error: KafkaError) -> None:
        """A record or a batch failed with `error`: what that means for the whole producer."""
        if isinstance(error, _FATAL):
            self.fail_fatally(error)
        elif self.is_transactional and not self.has_fatal_error:
            if error.retriable or isinstance(error, InvalidTxnState):
                # Every retry was used up: the transaction cannot be completed, whatever the error alone would mean.
                aborted = TransactionAbortable(f"Transaction Request was aborted after exhausting retries: {error}")
                aborted.__cause__ = error
                error = aborted
            if self.can_bump_epoch and not self.is_version_2 and not self.is_completing:
                self.needs_epoch_bump = True
            if self.state in _ALLOWED_FROM[State.ABORTABLE_ERROR] or self.state is State.ABORTING:
                self.fail_abortably(error)

    def unauthorized(self, error: KafkaError) -> None:
        """The producer may not have an id now. It is as new, so that one can be asked for again."""
        self.fail_requests(error)
        self._under_way = None
        self.on_unauthorized(error)
        self.state = State.UNINITIALIZED
        self.last_error = None
        self.on_change()

    def set_producer(self, producer: ProducerIdAndEpoch) -> None:
        if not self.is_transactional or producer.producer_id != self.producer.producer_id:
            log.info("[%s] ProducerId set to %d with epoch %d", self.name, *producer)
        if producer.producer_id != self.producer.producer_id:
            self._introduced.clear()
        self.producer = producer

    def initialized(self, producer: ProducerIdAndEpoch, *, is_epoch_bump: bool) -> None:
        """The coordinator has given the producer its id and epoch."""
        self.set_producer(producer)
        if is_epoch_bump:
            self.reset_sequences()
        self.transition(State.READY)

    def reset_sequences(self) -> None:
        """All partitions begin at 0: nothing is under way."""
        self.sequences.clear()
        self._unresolved.clear()

    def transaction_ended(self) -> None:
        """The coordinator has it; what comes next is a new transaction."""
        self.transition(State.INITIALIZING if self.needs_epoch_bump else State.READY)
        self.needs_epoch_bump = False
        self.is_started = False
        self.new_partitions.clear()
        self.pending_partitions.clear()
        self.partitions.clear()

    # Requests

    def enqueue(self, request: TxnRequest) -> TxnResult:
        heapq.heappush(self._queue, (request.priority, next(self._numbers), request))
        return request.result

    def _enqueue_new_partitions(self) -> None:
        if self.new_partitions:
            self.pending_partitions.update(self.new_partitions)
            self.new_partitions.clear()
            self.enqueue(AddPartitions(self, list(self.pending_partitions)))

    def next_request(self, *, has_incomplete_batches: bool) -> TxnRequest | None:
        """What is to be asked now: the end of a transaction waits for its batches."""
        self._enqueue_new_partitions()
        while self._queue:
            request = self._queue[0][2]
            if request.is_end and has_incomplete_batches:
                return None
            heapq.heappop(self._queue)
            if self.state in (State.ABORTABLE_ERROR, State.FATAL_ERROR):
                request.result.fail(self._as_told())
                continue
            if request.is_end and not self.is_started:
                # Nothing was sent: there is nothing that the coordinator could end.
                request.result.succeed()
                self.transaction_ended()
                continue
            return request
        return None

    def fail_requests(self, error: KafkaError) -> None:
        """Give up everything that is to be asked: the producer closes."""
        queue, self._queue = self._queue, []
        for _, _, request in queue:
            request.result.fail(error)
        if self._under_way is not None:
            self._under_way[2].fail(error)

    # The identity of an idempotent producer

    def prepare_idempotent(self) -> None:
        """Before batches are sent: take the next epoch where one is needed, and ask for an id where there is none."""
        if self.is_transactional:
            return
        if self.needs_epoch_bump:
            self._bump_idempotent_epoch()
        if self.state is not State.INITIALIZING and not self.producer.is_valid and not self.has_fatal_error:
            self.transition(State.INITIALIZING)
            self.enqueue(InitProducerId(self, NO_PRODUCER, is_epoch_bump=False))

    def _bump_idempotent_epoch(self) -> None:
        if self.producer.epoch == EPOCH_MAX:
            log.debug("[%s] Resetting the idempotent producer: epochs are used up", self.name)
            self.set_producer(NO_PRODUCER)
            self.transition(State.UNINITIALIZED)
        else:
            self.set_producer(ProducerIdAndEpoch(self.producer.producer_id, self.producer.epoch + 1))
        for partition in self._to_renumber:
            self.sequences[partition].begin_again(self.producer)
            self._unresolved.pop(partition, None)
        self._to_renumber.clear()
        self.needs_epoch_bump = False

    def request_epoch_bump(self, partition: TopicPartition) -> None:
        """Only a new epoch makes it safe to go on with the partition."""
        self.needs_epoch_bump = True
        self._to_renumber[partition] = None

    # Batches

    def may_send(self, batch: ProducerBatch) -> bool:
        """Whether the first batch of a queue may be sent now."""
        partition = batch.partition
        if self.has_fatal_error or not self.producer.is_valid:
            return False
        if self.is_transactional and partition not in self.partitions:
            return False
        known = self.sequences[partition]
        if not batch.has_sequence:
            # What is under way under another id or epoch has to come to its end first, or this would overtake it.
            if known.in_flight and known.producer != self.producer:
                return False
            # A broker that knows nothing of the producer takes whatever comes first. Were the first batch refused and
            # the second taken, the first could never follow: so it goes alone.
            if known.in_flight and partition not in self._introduced:
                return False
            return known.has_room and partition not in self._unresolved
        # What is sent again goes out in the order of the sequence: one at a time, the first first.
        return not known.in_flight or known.in_flight[0].base_sequence == batch.base_sequence

    def number(self, batch: ProducerBatch) -> None:
        """Give a batch that is sent for the first time its place."""
        known = self.sequences[batch.partition]
        if known.producer != self.producer and not known.in_flight:
            known.begin_again(self.producer)
        known.number(batch, is_transactional=self.is_transactional)

    def batch_completed(self, batch: ProducerBatch, base_offset: int) -> None:
        known = self.sequences[batch.partition]
        known.acknowledge(batch, base_offset)
        known.remove(batch)
        if batch.producer_id == self.producer.producer_id:
            self._introduced.add(batch.partition)

    def batch_split(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        self.sequences[batch.partition].replace(batch, parts)

    def batch_failed(self, batch: ProducerBatch, error: KafkaError, *, was_refused: bool) -> None:
        """The batch is given up. `was_refused` says that the broker surely does not have it."""
        self.note_error(error)
        known = self.sequences[batch.partition]
        known.remove(batch)
        if self.has_fatal_error or not batch.has_sequence:
            return
        if isinstance(error, OutOfOrderSequenceNumber) and not self.is_transactional:
            log.error("[%s] The broker returned %s for %s with producerId %d, epoch %d, and sequence number %d",
                      self.name, error.name, batch.partition, batch.producer_id, batch.producer_epoch,
                      batch.base_sequence)  # fmt: skip
            self.request_epoch_bump(batch.partition)
        elif isinstance(error, UnknownProducerId):
            # The broker has forgotten the producer, so the next batch may begin at 0.
            del self.sequences[batch.partition]
            self._introduced.discard(batch.partition)
            self._unresolved.pop(batch.partition, None)
        elif was_refused:
            if not self.is_transactional:
                self.request_epoch_bump(batch.partition)
            elif (batch.producer_id, batch.producer_epoch) == known.producer:
                known.close_gap(batch)

    def mark_unresolved(self, batch: ProducerBatch) -> None:
        """The batch was sent, is given up, and may be written or not: nothing new until what is under way is known."""
        sequence = increment_sequence(batch.last_sequence, 1)
        known = self._unresolved.get(batch.partition)
        if known is None or is_sequence_before(known, sequence):
            self._unresolved[batch.partition] = sequence

    def resolve(self) -> None:
        """Look at partitions with an unresolved batch, once nothing of theirs is under way."""
        for partition in list(self._unresolved):
            known = self.sequences[partition]
            if known.in_flight:
                continue
            del self._unresolved[partition]
            if known.is_next(known.next_sequence):
                continue
            if self.is_transactional:
                unknown = "Some records were sent, cannot be sent again any more, and may be written or not."
                if self.state in (State.IN_TRANSACTION, State.COMMITTING, State.ABORTING, State.ABORTABLE_ERROR):
                    self.fail_abortably_if_possible(TransactionAbortable(unknown))
            else:
                log.info("[%s] No inflight batches remaining for %s, last ack'd sequence for partition is %d, next "
                         "sequence is %d. Going to bump epoch and reset sequence numbers.", self.name, partition,
                         known.last_acked_sequence, known.next_sequence)  # fmt: skip
                self.request_epoch_bump(partition)

    def can_retry(self, batch: ProducerBatch, error: KafkaError, log_start_offset: int) -> bool:
        """Whether a batch that was refused with `error` may be sent again; it may get another number for that."""
        partition = batch.partition
        known = self.sequences[partition]
        if isinstance(error, UnknownProducerId):
            # The broker has nothing of the producer any more. That is no loss where retention took it.
            if log_start_offset == -1 or batch.has_been_reset:
                return True
            if known.last_acked_offset < log_start_offset:
                if self.is_transactional:
                    known.begin_again(self.producer)
                else:
                    self.request_epoch_bump(partition)
                return True
            if not self.is_transactional:
                self.request_epoch_bump(partition)
                return True
        elif isinstance(error, OutOfOrderSequenceNumber):
            is_unresolved = partition in self._unresolved
            if not is_unresolved and (batch.has_been_reset or not known.is_next(batch.base_sequence)):
                # One before it failed, so this one had to: it will do when that one is through.
                return True
            if not self.is_transactional:
                # The first of those under way was refused: only a new epoch helps.
                if not is_unresolved or batch.base_sequence == self._unresolved[partition]:
                    self.request_epoch_bump(partition)
                return True
        return error.retriable

"""The producer's state machine alone: requests out, answers in, states and numbers in between."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.errors import AbortableError, CommitFailed, FatalProducerError, IllegalState
from ottla.client.network import Build, CoordinatorKind
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.batch import ProducerBatch
from ottla.client.producer.sequences import NO_PRODUCER, ProducerIdAndEpoch
from ottla.client.producer.transaction import State, TransactionManager
from ottla.client.producer.txn_requests import (
    AddOffsets,
    AddPartitions,
    CommitOffsets,
    EndTransaction,
    GroupIdentity,
    InitProducerId,
    OffsetCommit,
    TxnRequest,
    TxnResult,
)
from ottla.errors import (
    ClusterAuthorizationFailed,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    GroupAuthorizationFailed,
    IllegalGeneration,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    NotCoordinator,
    NotEnoughReplicas,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    RequestTimedOut,
    TopicAuthorizationFailed,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    UnknownProducerId,
)
from ottla.records import Codec
from ottla.types import TopicPartition
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
GROUP = GroupIdentity("group", 3, "member")
ACCUMULATOR = Accumulator(
    batch_size=1000, buffer_memory=10_000, request_size_max=1000, linger_ms=0, codec=Codec.NONE, level=None,
    ignore_keys=False, is_adaptive=False, random=None, monotonic_ms=lambda: 0,  # type: ignore[arg-type]
    promise=lambda: pytest.fail("nobody waits"), check_may_block=lambda: None,
)  # fmt: skip


def batch_of(count: int, partition: TopicPartition = A0) -> ProducerBatch:
    batch = ProducerBatch(ACCUMULATOR, partition, size_max=1000, charged_bytes=0, base_timestamp=0, created_ms=0)
    for _ in range(count):
        assert batch._take(0, None, b"v", ())
    batch.seal(Codec.NONE, None)
    return batch


def idempotent() -> TransactionManager:
    manager = TransactionManager(transactional_id=None, timeout_ms=1000, name="Test")
    manager.prepare_idempotent()
    answer(next_of(manager, InitProducerId), InitProducerIdResponse(producer_id=7, producer_epoch=0))
    return manager


def transactional(version: int = 2, *, can_bump: bool = True) -> TransactionManager:
    """One that has its id, in no transaction."""
    manager = TransactionManager(transactional_id="txn", timeout_ms=1000, name="Test")
    manager.init_transactions().is_seen = True
    manager.can_bump_epoch = can_bump
    manager.set_features(version, is_initial=True)
    answer(next_of(manager, InitProducerId), InitProducerIdResponse(producer_id=7, producer_epoch=3))
    assert state_of(manager) is State.READY
    return manager


def next_of(manager: TransactionManager, kind: type[TxnRequest], *, is_busy: bool = False) -> Any:
    request = manager.next_request(has_incomplete_batches=is_busy)
    assert isinstance(request, kind), request
    return request


def answer(request: TxnRequest, response: Any) -> KafkaError | None:
    return request.handle(response)


def made(build: Build, version: int) -> Any:
    return build.make(version)


def send(manager: TransactionManager, count: int = 1, partition: TopicPartition = A0) -> ProducerBatch:
    """A batch that is under way."""
    batch = batch_of(count, partition)
    assert manager.may_send(batch)
    manager.number(batch)
    return batch


def state_of(manager: TransactionManager) -> State:
    return manager.state


def needs_bump(manager: TransactionManager) -> bool:
    return manager.needs_epoch_bump


# Identity


def test_an_idempotent_producer_asks_any_broker_for_an_id_once() -> None:
    manager = TransactionManager(transactional_id=None, timeout_ms=1000, name="Test")
    assert not manager.may_send(batch_of(1))
    manager.prepare_idempotent()
    manager.prepare_idempotent()
    request = next_of(manager, InitProducerId)
    assert request.coordinator is None
    assert made(request.build(), 4) == InitProducerIdRequest(None, 0x7FFF_FFFF, -1, -1)
    assert manager.next_request(has_incomplete_batches=False) is None
    answer(request, InitProducerIdResponse(producer_id=7, producer_epoch=0))
    assert manager.producer == ProducerIdAndEpoch(7, 0)
    assert manager.refusal() is None


@pytest.mark.parametrize("error", [NotCoordinator, CoordinatorLoadInProgress, ConcurrentTransactions])
def test_what_passes_by_itself_is_asked_again(error: type[KafkaError]) -> None:
    manager = TransactionManager(transactional_id="txn", timeout_ms=1000, name="Test")
    result = manager.init_transactions()
    request = next_of(manager, InitProducerId)
    assert request.coordinator == (CoordinatorKind.TRANSACTION, "txn")
    assert isinstance(answer(request, InitProducerIdResponse(error_code=error.code)), error)
    assert state_of(manager) is State.INITIALIZING
    assert not result.is_done


def test_a_missing_permission_leaves_the_producer_as_new() -> None:
    manager = TransactionManager(transactional_id="txn", timeout_ms=1000, name="Test")
    told: list[KafkaError] = []
    manager.on_unauthorized = told.append
    result = manager.init_transactions()
    answer(
        next_of(manager, InitProducerId),
        InitProducerIdResponse(error_code=TransactionalIdAuthorizationFailed.code),
    )
    assert isinstance(result.error, TransactionalIdAuthorizationFailed)
    assert state_of(manager) is State.UNINITIALIZED
    assert len(told) == 1
    manager.init_transactions()
    answer(next_of(manager, InitProducerId), InitProducerIdResponse(producer_id=7, producer_epoch=0))
    assert state_of(manager) is State.READY


# Sequences


def test_batches_are_numbered_without_a_gap_and_retries_go_in_order() -> None:
    manager = idempotent()
    first = send(manager, 3)
    assert not manager.may_send(batch_of(1))  # the first goes alone
    manager.batch_completed(first, 0)
    second, third = send(manager, 2), send(manager, 1)
    assert [one.base_sequence for one in (first, second, third)] == [0, 3, 5]
    # Both come back: the later one must wait for the earlier.
    assert not manager.may_send(third)
    assert manager.may_send(second)
    manager.batch_completed(second, 3)
    assert manager.may_send(third)


def test_a_batch_behind_a_refused_one_is_out_of_order_and_tried_again() -> None:
    manager = idempotent()
    manager.batch_completed(send(manager), 0)
    second, third = send(manager), send(manager)
    error = OutOfOrderSequenceNumber()
    assert manager.can_retry(third, error, 0)
    assert not needs_bump(manager)
    # But when the first of them is out of order, the broker has lost what came before.
    assert manager.can_retry(second, error, 0)
    assert needs_bump(manager)
    manager.prepare_idempotent()
    assert manager.producer == ProducerIdAndEpoch(7, 1)
    assert [(one.producer_epoch, one.base_sequence) for one in (second, third)] == [(1, 0), (1, 1)]
    assert second.has_been_reset


def test_a_batch_that_was_refused_for_good_takes_a_new_epoch() -> None:
    manager = idempotent()
    manager.batch_completed(send(manager, 2), 0)
    second, third = send(manager, 2), send(manager, 2)
    manager.batch_failed(second, TopicAuthorizationFailed(), was_refused=True)
    manager.prepare_idempotent()
    assert (third.producer_epoch, third.base_sequence) == (1, 0)
    assert manager.sequences[A0].next_sequence == 2


def test_partitions_that_had_no_trouble_keep_their_epoch_until_nothing_is_under_way() -> None:
    manager = idempotent()
    other = send(manager, 1, A1)
    manager.request_epoch_bump(A0)
    manager.prepare_idempotent()
    assert (other.producer_epoch, other.base_sequence) == (0, 0)
    assert not manager.may_send(batch_of(1, A1))
    manager.batch_completed(other, 0)
    assert send(manager, 1, A1).producer_epoch == 1


def test_epochs_that_are_used_up_need_a_new_id() -> None:
    manager = idempotent()
    manager.producer = ProducerIdAndEpoch(7, 0x7FFF)
    manager.request_epoch_bump(A0)
    manager.prepare_idempotent()
    assert manager.producer == NO_PRODUCER
    answer(next_of(manager, InitProducerId), InitProducerIdResponse(producer_id=8, producer_epoch=0))
    assert manager.producer == ProducerIdAndEpoch(8, 0)


def test_an_unresolved_batch_holds_the_partition_until_all_is_known() -> None:
    manager = idempotent()
    manager.batch_completed(send(manager), 0)
    second, third = send(manager), send(manager)
    second.attempts = 1
    manager.batch_failed(second, RequestTimedOut(), was_refused=False)
    manager.mark_unresolved(second)
    assert not manager.may_send(batch_of(1))
    manager.resolve()
    assert not needs_bump(manager)
    # The one behind it was written, so it was too.
    manager.batch_completed(third, 2)
    manager.resolve()
    assert not needs_bump(manager)
    assert manager.may_send(batch_of(1))


def test_an_unresolved_batch_with_nothing_behind_it_needs_a_new_epoch() -> None:
    manager = idempotent()
    first = send(manager)
    first.attempts = 1
    manager.batch_failed(first, RequestTimedOut(), was_refused=False)
    manager.mark_unresolved(first)
    manager.resolve()
    assert needs_bump(manager)


@pytest.mark.parametrize(("log_start_offset", "is_lost"), [(100, False), (3, True)])
def test_a_broker_that_forgot_the_producer_because_of_retention_is_no_loss(
    log_start_offset: int, is_lost: bool
) -> None:
    manager = transactional()
    manager.begin_transaction()
    manager.add_partition(A0)
    manager.batch_completed(send(manager), 50)
    second = send(manager)
    assert manager.can_retry(second, UnknownProducerId(), log_start_offset) is not is_lost
    assert second.base_sequence == (1 if is_lost else 0)


def test_in_a_transaction_those_behind_a_refused_batch_move_up() -> None:
    manager = transactional()
    manager.begin_transaction()
    manager.add_partition(A0)
    manager.batch_completed(send(manager, 2), 0)
    second, third = send(manager, 3), send(manager, 2)
    manager.batch_failed(second, NotEnoughReplicas(), was_refused=True)
    assert third.base_sequence == 2
    assert manager.sequences[A0].next_sequence == 4
    assert state_of(manager) is State.ABORTABLE_ERROR


# Transactions, version 2


def test_with_version_2_nothing_is_added_and_the_end_brings_the_next_epoch() -> None:
    manager = transactional()
    manager.begin_transaction()
    assert not manager.may_send(batch_of(1))
    manager.add_partition(A0)
    batch = send(manager)
    assert (batch.producer_epoch, batch.is_transactional) == (3, True)
    result = manager.begin_commit()
    assert manager.next_request(has_incomplete_batches=True) is None
    manager.batch_completed(batch, 0)
    request = next_of(manager, EndTransaction)
    assert request.build().version_max > 4
    assert made(request.build(), 5) == EndTxnRequest("txn", 7, 3, True)
    answer(request, EndTxnResponse(producer_id=7, producer_epoch=4))
    assert result.is_done
    assert result.error is None
    assert state_of(manager) is State.READY
    assert manager.producer == ProducerIdAndEpoch(7, 4)
    result.is_seen = True
    manager.begin_transaction()
    manager.add_partition(A0)
    assert send(manager).base_sequence == 0


def test_with_version_2_offsets_are_committed_without_being_added() -> None:
    manager = transactional()
    manager.begin_transaction()
    result = manager.send_offsets({A0: OffsetCommit(5, "m", 2)}, GROUP)
    request = next_of(manager, CommitOffsets)
    assert request.coordinator == (CoordinatorKind.GROUP, "group")
    body = made(request.build(), 5)
    assert isinstance(body, TxnOffsetCommitRequest)
    assert (body.generation_id, body.member_id, body.producer_epoch) == (3, "member", 3)
    answer(request, committed(0))
    assert result.is_done
    assert manager.is_started


def test_a_transaction_of_nothing_ends_without_asking() -> None:
    manager = transactional()
    manager.begin_transaction()
    result = manager.begin_commit()
    assert manager.next_request(has_incomplete_batches=False) is None
    assert result.is_done
    assert state_of(manager) is State.READY


# Transactions, version 1


def added(*errors: int) -> AddPartitionsToTxnResponse:
    results = [AddPartitionsToTxnPartitionResult(index, code) for index, code in enumerate(errors)]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[AddPartitionsToTxnTopicResult("a", results)])


def test_with_version_1_a_partition_is_added_before_anything_is_sent_to_it() -> None:
    manager = transactional(1)
    manager.begin_transaction()
    manager.add_partition(A0)
    manager.add_partition(A1)
    assert not manager.may_send(batch_of(1))
    request = next_of(manager, AddPartitions, is_busy=True)
    body = made(request.build(), 3)
    assert isinstance(body, AddPartitionsToTxnRequest)
    assert [(one.name, one.partitions) for one in body.v3_and_below_topics] == [("a", [0, 1])]
    # The one before is still ending: that takes moments, not the whole backoff.
    assert isinstance(answer(request, added(ConcurrentTransactions.code, 0)), ConcurrentTransactions)
    assert request.retry_ms == 20
    assert answer(request, added(0, 0)) is None
    assert manager.may_send(batch_of(1))
    batch = send(manager)
    manager.batch_completed(batch, 0)
    result = manager.begin_commit()
    end = next_of(manager, EndTransaction)
    assert end.build().version_max == 4
    answer(end, EndTxnResponse())
    assert result.is_done
    assert manager.producer == ProducerIdAndEpoch(7, 3)
    result.is_seen = True
    # And the sequence goes on in the next one.
    manager.begin_transaction()
    manager.add_partition(A0)
    answer(next_of(manager, AddPartitions), added(0))
    assert send(manager).base_sequence == 1


def test_with_version_1_offsets_are_added_and_then_committed() -> None:
    manager = transactional(1)
    manager.begin_transaction()
    result = manager.send_offsets({A0: OffsetCommit(5)}, GROUP)
    answer(next_of(manager, AddOffsets), AddOffsetsToTxnResponse())
    assert not result.is_done
    request = next_of(manager, CommitOffsets)
    assert request.build().version_max == 4
    answer(request, committed(0))
    assert result.is_done


def test_with_version_1_an_abort_after_an_error_takes_a_new_epoch_from_the_coordinator() -> None:
    manager = transactional(1)
    manager.begin_transaction()
    manager.add_partition(A0)
    answer(next_of(manager, AddPartitions), added(0))
    manager.batch_failed(send(manager), RequestTimedOut(), was_refused=False)
    assert state_of(manager) is State.ABORTABLE_ERROR
    result = manager.begin_abort()
    answer(next_of(manager, EndTransaction), EndTxnResponse())
    assert state_of(manager) is State.INITIALIZING
    request = next_of(manager, InitProducerId)
    assert made(request.build(), 4) == InitProducerIdRequest("txn", 1000, 7, 3)
    answer(request, InitProducerIdResponse(producer_id=7, producer_epoch=4))
    assert result.is_done
    assert state_of(manager) is State.READY
    assert manager.producer.epoch == 4


def test_a_cluster_that_moves_to_version_2_needs_a_new_epoch_first() -> None:
    manager = transactional(1)
    manager.on_end = lambda: manager.set_features(2, is_initial=False)
    manager.begin_transaction()
    manager.add_partition(A0)
    answer(next_of(manager, AddPartitions), added(0))
    manager.begin_commit()
    end = next_of(manager, EndTransaction)
    assert end.build().version_max == 4
    answer(end, EndTxnResponse())
    answer(next_of(manager, InitProducerId), InitProducerIdResponse(producer_id=7, producer_epoch=4))
    assert state_of(manager) is State.READY
    assert manager.is_version_2


# Errors


def committed(error_code: int) -> TxnOffsetCommitResponse:
    partition = TxnOffsetCommitResponsePartition(0, error_code)
    return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic("a", [partition])])


def ending(manager: TransactionManager) -> tuple[TxnResult, EndTransaction]:
    manager.begin_transaction()
    manager.add_partition(A0)
    manager.is_started = True
    manager.new_partitions.clear()
    result = manager.begin_commit()
    return result, next_of(manager, EndTransaction)


@pytest.mark.parametrize("code", [InvalidProducerEpoch.code, ProducerFenced.code])
def test_a_fenced_producer_is_done_for(code: int) -> None:
    manager = transactional()
    result, request = ending(manager)
    answer(request, EndTxnResponse(error_code=code))
    assert isinstance(result.error, ProducerFenced)
    assert isinstance(result.error, FatalProducerError)
    assert state_of(manager) is State.FATAL_ERROR
    for call in (manager.begin_transaction, manager.begin_abort, manager.begin_commit):
        with pytest.raises(IllegalState if call == manager.begin_transaction else FatalProducerError):
            call()
        result.is_seen = True
    refusal = manager.refusal()
    assert isinstance(refusal, ProducerFenced)
    assert not refusal.retriable


@pytest.mark.parametrize(
    "error", [TransactionalIdAuthorizationFailed, InvalidTxnState, InvalidProducerIdMapping, ClusterAuthorizationFailed]
)
def test_errors_that_no_abort_mends_are_fatal(error: type[KafkaError]) -> None:
    manager = transactional()
    result, request = ending(manager)
    answer(request, EndTxnResponse(error_code=error.code))
    assert isinstance(result.error, FatalProducerError)
    assert isinstance(result.error, error)
    assert manager.has_fatal_error


def test_an_abortable_error_asks_for_an_abort_and_an_abort_that_does_is_fatal() -> None:
    manager = transactional()
    result, request = ending(manager)
    answer(request, EndTxnResponse(error_code=TransactionAbortable.code))
    assert isinstance(result.error, AbortableError)
    assert state_of(manager) is State.ABORTABLE_ERROR
    result.is_seen = True
    aborted = manager.begin_abort()
    answer(next_of(manager, EndTransaction), EndTxnResponse(error_code=TransactionAbortable.code))
    assert isinstance(aborted.error, FatalProducerError)
    assert manager.has_fatal_error


@pytest.mark.parametrize(("can_bump", "is_fatal"), [(True, False), (False, True)])
def test_an_unknown_producer_can_go_on_only_where_a_new_epoch_can_be_had(can_bump: bool, is_fatal: bool) -> None:
    manager = transactional(1, can_bump=can_bump)
    result, request = ending(manager)
    answer(request, EndTxnResponse(error_code=UnknownProducerId.code))
    assert manager.has_fatal_error is is_fatal
    assert isinstance(result.error, FatalProducerError if is_fatal else AbortableError)


@pytest.mark.parametrize(
    ("error", "told"),
    [(GroupAuthorizationFailed, GroupAuthorizationFailed), (IllegalGeneration, CommitFailed)],
)
def test_offsets_that_cannot_be_committed_fail_the_transaction(error: type[KafkaError], told: type[KafkaError]) -> None:
    manager = transactional()
    manager.begin_transaction()
    result = manager.send_offsets({A0: OffsetCommit(5)}, GROUP)
    answer(next_of(manager, CommitOffsets), committed(error.code))
    assert isinstance(result.error, told)
    assert isinstance(result.error, AbortableError)
    assert state_of(manager) is State.ABORTABLE_ERROR


def test_offsets_are_asked_again_for_the_partitions_that_were_not_taken() -> None:
    manager = transactional()
    manager.begin_transaction()
    result = manager.send_offsets({A0: OffsetCommit(5), B0: OffsetCommit(6)}, GROUP)
    request = next_of(manager, CommitOffsets)
    response = committed(0)
    response.topics.append(
        TxnOffsetCommitResponseTopic("b", [TxnOffsetCommitResponsePartition(0, CoordinatorLoadInProgress.code)])
    )
    assert isinstance(answer(request, response), CoordinatorLoadInProgress)
    assert [topic.name for topic in made(request.build(), 5).topics] == ["b"]
    assert not result.is_done


def test_partitions_without_permission_fail_the_transaction() -> None:
    manager = transactional(1)
    manager.begin_transaction()
    manager.add_partition(A0)
    answer(next_of(manager, AddPartitions), added(TopicAuthorizationFailed.code))
    assert isinstance(manager.refusal(), TopicAuthorizationFailed)
    assert isinstance(manager.refusal(), AbortableError)
    assert not manager.pending_partitions


def test_a_retriable_error_that_was_never_mended_fails_the_transaction_but_says_not_to_retry() -> None:
    manager = transactional()
    manager.begin_transaction()
    manager.add_partition(A0)
    manager.batch_failed(send(manager), NotEnoughReplicas(), was_refused=True)
    refusal = manager.refusal()
    assert isinstance(refusal, TransactionAbortable)
    assert isinstance(refusal.__cause__, NotEnoughReplicas)
    assert not refusal.retriable


def test_a_call_that_timed_out_must_be_made_again_before_another() -> None:
    manager = transactional()
    result, request = ending(manager)
    assert manager.begin_commit() is result
    with pytest.raises(IllegalState, match="commit_transaction timed out before it"):
        manager.begin_abort()
    answer(request, EndTxnResponse(producer_id=7, producer_epoch=4))
    with pytest.raises(IllegalState, match="must be called again"):
        manager.begin_transaction()
    assert manager.begin_commit() is result
    result.is_seen = True
    manager.begin_transaction()


def test_a_transition_that_is_not_allowed_changes_nothing() -> None:
    manager = transactional()
    with pytest.raises(IllegalState, match="READY to state COMMITTING_TRANSACTION"):
        manager.begin_commit()
    assert state_of(manager) is State.READY
    with pytest.raises(IllegalState, match=r"transactional\.id"):
        idempotent().begin_transaction()


def test_closing_fails_whoever_waits() -> None:
    manager = transactional()
    result, _ = ending(manager)
    manager.fail_requests(IllegalState("closed"))
    assert isinstance(result.error, IllegalState)

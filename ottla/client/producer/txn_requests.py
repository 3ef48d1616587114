"""What a producer asks of coordinators: each request, and what every answer to it means.

A `TxnRequest` builds its message for the version that the broker speaks and reads the answer: it succeeds, is asked
again, fails the transaction or fails the producer. Which error is which of these is Kafka's own table. No I/O: the
driver sends, and hands the response to `handle`. Called by `TransactionManager`, which makes them, and by the driver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.errors import CommitFailed, as_abortable, as_fatal
from ottla.client.network import Build, CoordinatorKind
from ottla.client.producer.sequences import NO_PRODUCER, ProducerIdAndEpoch
from ottla.errors import (
    ClusterAuthorizationFailed,
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupAuthorizationFailed,
    IllegalGeneration,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    NotCoordinator,
    OperationNotAttempted,
    ProducerFenced,
    RequestTimedOut,
    TopicAuthorizationFailed,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    UnknownMemberId,
    UnknownProducerId,
    UnsupportedForMessageFormat,
    UnsupportedVersion,
    error_class,
)
from ottla.types import TopicPartition
from ottla.wire import Message
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from ottla.client.producer.transaction import TransactionManager

INIT_PRODUCER_ID_KEY = 22
ADD_PARTITIONS_KEY = 24
ADD_OFFSETS_KEY = 25
END_TXN_KEY = 26
TXN_OFFSET_COMMIT_KEY = 28

ADD_PARTITIONS_VERSION_MAX = 3
"""Above it the request is one that brokers send to each other."""
VERSION_1_MAX = 4
"""The highest version of EndTxn and TxnOffsetCommit that does not claim `transaction.version` 2."""
GROUP_METADATA_VERSION_MIN = 3
ADD_PARTITIONS_RETRY_MS = 20
"""The first partition of a transaction waits for the end of the one before it, which takes no longer than this."""
INT32_MAX = 0x7FFF_FFFF

# In the order they are asked, whatever the order they were wanted.
INIT, ADD, END, BUMP = range(4)


class OffsetCommit(NamedTuple):
    """An offset to commit with a transaction."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class GroupIdentity:
    """The consumer group, and the member, for which offsets are committed."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None

    def commit(
        self, manager: TransactionManager, offsets: dict[TopicPartition, OffsetCommit], result: TxnResult | None = None
    ) -> CommitOffsets:
        return CommitOffsets(manager, offsets, self, result)


class TxnResult:
    """The end of a call: seen by who waits for it, and perhaps not before a later call asks again."""

    __slots__ = ("_told", "error", "is_done", "is_seen")

    def __init__(self) -> None:
        self.is_done = False
        self.error: KafkaError | None = None
        self.is_seen = False
        """Whoever called knows how it ended."""
        self._told: list[Callable[[], object]] = []

    def succeed(self) -> None:
        self._finish(None)

    def fail(self, error: KafkaError) -> None:
        self._finish(error)

    def _finish(self, error: KafkaError | None) -> None:
        if self.is_done:
            return
        self.is_done = True
        self.error = error
        told, self._told = self._told, []
        for tell in told:
            tell()

    def when_done(self, tell: Callable[[], object]) -> None:
        if self.is_done:
            tell()
        else:
            self._told.append(tell)


class TxnRequest:
    """One thing to ask. `coordinator` is whom: None is any broker."""

    priority = ADD
    is_end = False

    def __init__(self, manager: TransactionManager, result: TxnResult | None = None) -> None:
        self.manager = manager
        self.result = TxnResult() if result is None else result
        self.failures = 0
        """Attempts that came to nothing."""

    @property
    def coordinator(self) -> tuple[CoordinatorKind, str] | None:
        transactional_id = self.manager.transactional_id
        return None if transactional_id is None else (CoordinatorKind.TRANSACTION, transactional_id)

    @property
    def retry_ms(self) -> float | None:
        """How long to wait before it is asked again, where that is not the usual backoff."""
        return None

    def build(self) -> Build:
        raise NotImplementedError

    def handle(self, response: Any) -> KafkaError | None:
        """Read the answer; the error when it must be asked again."""
        raise NotImplementedError

    # Endings

    def fatal(self, error: KafkaError) -> None:
        self.result.fail(as_fatal(error))
        self.manager.fail_fatally(error)

    def abortable(self, error: KafkaError) -> None:
        self.result.fail(as_abortable(error))
        self.manager.fail_abortably(error)

    def abortable_if_possible(self, error: KafkaError) -> None:
        self.manager.fail_abortably_if_possible(error)
        self.result.fail(as_fatal(error) if self.manager.has_fatal_error else as_abortable(error))

    def _refuse(self, error: KafkaError) -> None:
        """What all of them have in common once an error is not one to try again."""
        if isinstance(error, InvalidProducerEpoch | ProducerFenced):
            # An older coordinator says it with the other of the two.
            self.fatal(
                ProducerFenced(f"There is a newer producer with the same transactionalId, or it timed out: {error}")
            )
        elif isinstance(error, UnknownProducerId):
            self.abortable_if_possible(error)
        elif isinstance(error, TransactionAbortable):
            self.abortable(error)
        elif isinstance(
            error, TransactionalIdAuthorizationFailed | InvalidTxnState | InvalidProducerIdMapping | UnsupportedVersion
        ):
            self.fatal(error)
        else:
            self.fatal(type(error)(f"Unexpected error in the answer to {type(self).__name__}: {error}"))


def _error(code: int) -> KafkaError | None:
    return None if code == 0 else error_class(code)()


class InitProducerId(TxnRequest):
    """Get an id and an epoch, and fence whoever had the transactional id before."""

    def __init__(self, manager: TransactionManager, producer: ProducerIdAndEpoch, *, is_epoch_bump: bool) -> None:
        super().__init__(manager)
        self._producer = producer
        self._is_epoch_bump = is_epoch_bump
        self.priority = BUMP if is_epoch_bump else INIT

    def build(self) -> Build:
        # After the end of a transaction the epoch may be another than when this was queued.
        current = self.manager.producer if self._is_epoch_bump else NO_PRODUCER
        is_transactional = self.manager.is_transactional

        def make(version: int) -> Message:
            return InitProducerIdRequest(
                transactional_id=self.manager.transactional_id,
                transaction_timeout_ms=self.manager.timeout_ms if is_transactional else INT32_MAX,
                producer_id=current.producer_id,
                producer_epoch=current.epoch,
            )

        return Build(INIT_PRODUCER_ID_KEY, make, version_min=3 if self._is_epoch_bump else 0)

    def handle(self, response: Any) -> KafkaError | None:
        error = _error(response.error_code)
        manager = self.manager
        if error is None:
            given = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
            manager.initialized(given, is_epoch_bump=self._is_epoch_bump)
            self.result.succeed()
        elif error.retriable:
            return error
        elif isinstance(error, TransactionalIdAuthorizationFailed | ClusterAuthorizationFailed):
            # Permission may be given later: the producer is as it was, and the call can be made again.
            self.result.fail(error)
            manager.unauthorized(error)
        else:
            self._refuse(error)
        return None


class AddPartitions(TxnRequest):
    """Tell the coordinator which partitions the transaction writes to, before it does (up to version 1)."""

    def __init__(self, manager: TransactionManager, partitions: list[TopicPartition]) -> None:
        super().__init__(manager)
        self._partitions = partitions
        self._is_first_waiting = False

    @property
    def retry_ms(self) -> float | None:
        return ADD_PARTITIONS_RETRY_MS if self._is_first_waiting else None

    def build(self) -> Build:
        topics: dict[str, list[int]] = {}
        for topic, partition in self._partitions:
            topics.setdefault(topic, []).append(partition)
        manager = self.manager

        def make(version: int) -> Message:
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=manager.transactional_id or "",
                v3_and_below_producer_id=manager.producer.producer_id,
                v3_and_below_producer_epoch=manager.producer.epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name, indexes) for name, indexes in topics.items()],
            )

        return Build(ADD_PARTITIONS_KEY, make, version_max=ADD_PARTITIONS_VERSION_MAX)

    def handle(self, response: Any) -> KafkaError | None:
        manager = self.manager
        self._is_first_waiting = False
        failed: dict[TopicPartition, KafkaError] = {}
        answered: list[TopicPartition] = []
        for topic in response.results_by_topic_v3_and_below:
            for one in topic.results_by_partition:
                partition = TopicPartition(topic.name, one.partition_index)
                answered.append(partition)
                error = _error(one.partition_error_code)
                if error is None:
                    continue
                if error.retriable:
                    self._is_first_waiting = isinstance(error, ConcurrentTransactions) and not manager.partitions
                    return error
                if not isinstance(error, TopicAuthorizationFailed | OperationNotAttempted):
                    self._refuse(error)
                    return None
                failed[partition] = error
        for partition in answered:
            manager.pending_partitions.pop(partition, None)
        if failed:
            self.abortable(_summary(failed))
        else:
            manager.partitions.update(dict.fromkeys(answered))
            manager.is_started = True
            self.result.succeed()
        return None


def _summary(failed: dict[TopicPartition, KafkaError]) -> KafkaError:
    unauthorized = sorted(
        {partition.topic for partition, one in failed.items() if isinstance(one, TopicAuthorizationFailed)}
    )
    if unauthorized:
        return TopicAuthorizationFailed(f"Not authorized to access topics: {unauthorized}")
    told = ", ".join(f"{partition}: {error.name}" for partition, error in failed.items())
    return OperationNotAttempted(f"Could not add partitions to transaction due to errors: {told}")


class AddOffsets(TxnRequest):
    """Tell the coordinator of a group's offsets, before they are committed (up to version 1)."""

    def __init__(
        self, manager: TransactionManager, offsets: dict[TopicPartition, OffsetCommit], group: GroupIdentity
    ) -> None:
        super().__init__(manager)
        self._offsets = offsets
        self._group = group

    def build(self) -> Build:
        manager = self.manager

        def make(version: int) -> Message:
            return AddOffsetsToTxnRequest(
                manager.transactional_id or "",
                manager.producer.producer_id,
                manager.producer.epoch,
                self._group.group_id,
            )

        return Build(ADD_OFFSETS_KEY, make)

    def handle(self, response: Any) -> KafkaError | None:
        error = _error(response.error_code)
        if error is None:
            self.manager.is_started = True
            # The call ends when the offsets are committed.
            self.manager.enqueue(self._group.commit(self.manager, self._offsets, self.result))
        elif error.retriable:
            return error
        elif isinstance(error, GroupAuthorizationFailed):
            self.abortable(GroupAuthorizationFailed(f"Not authorized to access group: {self._group.group_id}"))
        else:
            self._refuse(error)
        return None


class CommitOffsets(TxnRequest):
    """Store consumed offsets at the group's coordinator; they count when the transaction is committed."""

    def __init__(
        self,
        manager: TransactionManager,
        offsets: dict[TopicPartition, OffsetCommit],
        group: GroupIdentity,
        result: TxnResult | None,
    ) -> None:
        super().__init__(manager, result)
        self._left = offsets
        self._group = group
        self._is_version_2 = manager.is_version_2

    @property
    def coordinator(self) -> tuple[CoordinatorKind, str] | None:
        return CoordinatorKind.GROUP, self._group.group_id

    def build(self) -> Build:
        manager, group = self.manager, self._group
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), one in self._left.items():
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(partition, one.offset, one.leader_epoch, one.metadata)
            )

        def make(version: int) -> Message:
            has_member = bool(group.member_id) or group.generation_id >= 0 or group.group_instance_id is not None
            if version < GROUP_METADATA_VERSION_MIN and has_member:
                raise UnsupportedVersion("The broker does not support group metadata with the offsets of a transaction")
            return TxnOffsetCommitRequest(
                manager.transactional_id or "",
                group.group_id,
                manager.producer.producer_id,
                manager.producer.epoch,
                group.generation_id,
                group.member_id,
                group.group_instance_id,
                [TxnOffsetCommitRequestTopic(name, partitions) for name, partitions in topics.items()],
            )

        if self._is_version_2:
            return Build(TXN_OFFSET_COMMIT_KEY, make)
        return Build(TXN_OFFSET_COMMIT_KEY, make, version_max=VERSION_1_MAX)

    def handle(self, response: Any) -> KafkaError | None:
        again: KafkaError | None = None
        for topic in response.topics:
            for one in topic.partitions:
                error = _error(one.error_code)
                if error is None:
                    self._left.pop(TopicPartition(topic.name, one.partition_index), None)
                elif error.retriable:
                    if not isinstance(again, NotCoordinator | CoordinatorNotAvailable):
                        again = CoordinatorNotAvailable() if isinstance(error, RequestTimedOut) else error
                else:
                    self._refuse_commit(error)
                    return None
        if self._left:
            return again or CoordinatorNotAvailable("the coordinator's answer leaves partitions out")
        self.result.succeed()
        return None

    def _refuse_commit(self, error: KafkaError) -> None:
        if isinstance(error, GroupAuthorizationFailed):
            self.abortable(GroupAuthorizationFailed(f"Not authorized to access group: {self._group.group_id}"))
        elif isinstance(error, FencedInstanceId):
            self.abortable(error)
        elif isinstance(error, UnknownMemberId | IllegalGeneration):
            failed = CommitFailed(f"Transaction offset Commit failed due to consumer group metadata mismatch: {error}")
            failed.__cause__ = error
            self.abortable(failed)
        elif isinstance(error, UnsupportedForMessageFormat):
            self.fatal(error)
        else:
            self._refuse(error)


class EndTransaction(TxnRequest):
    """Commit or abort. With version 2 the answer brings the epoch of the next transaction."""

    priority = END
    is_end = True

    def __init__(self, manager: TransactionManager, *, is_commit: bool) -> None:
        super().__init__(manager)
        self._is_commit = is_commit
        self._is_version_2 = manager.is_version_2
        self._producer = manager.producer

    def build(self) -> Build:
        def make(version: int) -> Message:
            return EndTxnRequest(
                self.manager.transactional_id or "",
                self._producer.producer_id,
                self._producer.epoch,
                self._is_commit,
            )

        if self._is_version_2:
            return Build(END_TXN_KEY, make)
        return Build(END_TXN_KEY, make, version_max=VERSION_1_MAX)

    def handle(self, response: Any) -> KafkaError | None:
        error = _error(response.error_code)
        manager = self.manager
        if error is None:
            if response.producer_id >= 0:
                manager.set_producer(ProducerIdAndEpoch(response.producer_id, response.producer_epoch))
                manager.reset_sequences()
            manager.transaction_ended()
            self.result.succeed()
        elif error.retriable:
            return error
        elif isinstance(error, TransactionAbortable) and not self._is_commit:
            # An abort that asks for an abort would never end.
            self.fatal(TransactionAbortable(f"Failed to abort transaction: {error}"))
        else:
            self._refuse(error)
        return None

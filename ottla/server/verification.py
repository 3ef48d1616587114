"""Verification (KIP-890): a partition takes records of a transaction only if the coordinator knows that it takes part.

Without it a batch that comes late would open a transaction that nobody ends, and readers would wait for ever. Before
the first batch of a transaction in a partition the coordinator is asked; clients of transaction version 2 never told
it of the partition, so the question adds it. The guard that comes back is what the batch is appended with: it is of no
use to a transaction that began later.

`verify` is for Produce, `verify_offsets` for TxnOffsetCommit.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator import Producer
from ottla.errors import (
    NONE,
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
    TransactionAbortable,
    error_class,
)
from ottla.records import NO_SEQUENCE
from ottla.server.promises import mapped
from ottla.server.topic_creation import GROUP_TOPIC
from ottla.types import TopicPartition
from ottla.world import Promise

if TYPE_CHECKING:
    from ottla.server.broker import BrokerServices


FAILURES = "kafka.server:type=AddPartitionsToTxnManager,name=VerificationFailureRate"
TIME_MS = "kafka.server:type=AddPartitionsToTxnManager,name=VerificationTimeMs"


class Support(Enum):
    """What the client that sent the records knows of verification."""

    NONE = "none"
    """Told INVALID_TXN_STATE where the partition does not take part."""
    ABORTABLE = "abortable"
    """Told TRANSACTION_ABORTABLE then."""
    ADDS_PARTITIONS = "adds partitions"
    """Transaction version 2: the partition is added."""

    @classmethod
    def of_produce(cls, version: int) -> Support:
        return cls.ADDS_PARTITIONS if version >= 12 else cls.ABORTABLE if version >= 11 else cls.NONE

    @classmethod
    def of_txn_offset_commit(cls, version: int) -> Support:
        return cls.ADDS_PARTITIONS if version >= 5 else cls.ABORTABLE if version >= 4 else cls.NONE


class Verdict(NamedTuple):
    """What came of it, for each partition."""

    guards: Mapping[TopicPartition, object]
    """To append with. A partition without one needs none: it has records of the transaction already."""
    errors: Mapping[TopicPartition, KafkaError]
    """As the coordinator told them, or the partition itself."""


NOTHING = Verdict({}, {})


def verify(
    broker: BrokerServices,
    transactional_id: str,
    producer: Producer,
    sequences: Mapping[TopicPartition, int],
    support: Support,
) -> Promise[Verdict]:
    """Whether a producer's batches, which begin with those sequences, may be appended to these partitions.

    Where the transaction before is not quite over, it is tried again for `add.partitions.to.txn.retry.backoff.max.ms`:
    with transaction version 2 that is what a producer meets who goes on at once, and sending all of it again is dear.
    """
    return _Attempt(broker, transactional_id, producer, sequences, support).promise


def verify_offsets(
    broker: BrokerServices, transactional_id: str, producer: Producer, index: int, *, version: int
) -> Promise[object | None]:
    """The guard for a TxnOffsetCommit of that version to a partition of `__consumer_offsets`; None if none is needed.

    Fails with what the coordinator tells. Unlike a Produce request it is not tried again here: it is small.
    """
    partition = TopicPartition(GROUP_TOPIC, index)
    support = Support.of_txn_offset_commit(version)

    def guard(verdict: Verdict) -> object | None:
        error = verdict.errors.get(partition)
        if error is not None:
            raise error
        return verdict.guards.get(partition)

    asked = _ask(broker, transactional_id, producer, {partition: NO_SEQUENCE}, support)
    return mapped(broker.node.world.tasks, asked, guard)


class _Attempt:
    """Asks, and asks again while the transaction before is being ended."""

    __slots__ = ("_arguments", "_broker", "_deadline_ms", "promise")

    def __init__(
        self,
        broker: BrokerServices,
        transactional_id: str,
        producer: Producer,
        sequences: Mapping[TopicPartition, int],
        support: Support,
    ) -> None:
        self._broker = broker
        self._arguments = transactional_id, producer, sequences, support
        config = broker.node.config
        patience_ms = 0
        if support is Support.ADDS_PARTITIONS:
            patience_ms = min(config.add_partitions_to_txn_retry_backoff_max_ms, config.request_timeout_ms)
        self._deadline_ms = broker.node.world.clock.monotonic_ms() + patience_ms
        self.promise: Promise[Verdict] = broker.node.world.tasks.promise()
        self._ask()

    def _ask(self) -> None:
        asked = _ask(self._broker, *self._arguments)
        if asked.done():
            self._on_answer(asked)
        else:
            asked.add_done_callback(self._on_answer)

    def _on_answer(self, asked: Promise[Verdict]) -> None:
        try:
            verdict = asked.result()
        except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
            self.promise.set_exception(error)
            return
        is_busy = any(isinstance(error, ConcurrentTransactions) for error in verdict.errors.values())
        world = self._broker.node.world
        if is_busy and world.clock.monotonic_ms() < self._deadline_ms:
            world.tasks.later(self._broker.node.config.add_partitions_to_txn_retry_backoff_ms, self._ask)
        else:
            self.promise.set_result(verdict)


def _ask(
    broker: BrokerServices,
    transactional_id: str,
    producer: Producer,
    sequences: Mapping[TopicPartition, int],
    support: Support,
) -> Promise[Verdict]:
    guards: dict[TopicPartition, object] = {}
    errors: dict[TopicPartition, KafkaError] = {}
    adds = support is Support.ADDS_PARTITIONS
    if adds or broker.node.config.transaction_partition_verification_enable:
        now_ms = broker.node.world.clock.now_ms()
        for partition, sequence in sequences.items():
            try:
                log = broker.replicas.partition_by_name(*partition).local_log()
                guard = log.producers.start_verification(
                    producer.id,
                    sequence=sequence,
                    producer_epoch=producer.epoch,
                    supports_epoch_bump=adds,
                    now_ms=now_ms,
                )
            except KafkaError as error:
                errors[partition] = error
            else:
                if guard is not None:
                    guards[partition] = guard
    if not guards:
        kept: Promise[Verdict] = broker.node.world.tasks.promise()
        kept.set_result(Verdict(guards, errors) if errors else NOTHING)
        return kept

    started_ms = broker.node.world.clock.monotonic_ms()

    def verdict(codes: Mapping[TopicPartition, int]) -> Verdict:
        broker.node.metrics.histogram(TIME_MS).update(int(broker.node.world.clock.monotonic_ms() - started_ms))
        failed = {partition: _as_told(code, support) for partition, code in codes.items() if code != NONE}
        if failed:
            broker.node.metrics.counter(FAILURES).count += len(failed)
            errors.update(failed)
        return Verdict(guards, errors)

    from ottla.server.transaction_membership import Question  # with its messages: most producers have no transactions

    asked = broker.membership.ask(Question(transactional_id, producer, list(guards), adds))
    return mapped(broker.node.world.tasks, asked, verdict)


def _as_told(code: int, support: Support) -> KafkaError:
    """A coordinator's answer in the words that producers know."""
    if code == ProducerFenced.code:
        return InvalidProducerEpoch()
    if code == TransactionAbortable.code and support is Support.NONE:
        return InvalidTxnState()
    return error_class(code)()

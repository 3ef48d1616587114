"""Transactions and producers: list, describe, end what hangs, shut out a producer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ottla.client.admin.driver import Call, Driver, by_topic, check, failure, names_of
from ottla.client.admin.outcome import Outcomes
from ottla.client.admin.routes import CoordinatorRoute, Route
from ottla.client.network import Build, CoordinatorKind
from ottla.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    KafkaError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from ottla.types import TopicPartition
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

LIST_TRANSACTIONS_KEY = 66


class TransactionState(Enum):
    ONGOING = "Ongoing"
    PREPARE_ABORT = "PrepareAbort"
    PREPARE_COMMIT = "PrepareCommit"
    COMPLETE_ABORT = "CompleteAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    EMPTY = "Empty"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    UNKNOWN = "Unknown"

    @classmethod
    def _missing_(cls, value: object) -> TransactionState:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class TransactionListing:
    transactional_id: str
    producer_id: int
    state: TransactionState


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id: who coordinates it, who its producer is, and what its transaction has touched."""

    coordinator_id: int
    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer that a partition's leader remembers; the last two are of its open transaction there, if it has one."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    current_transaction_start_offset: int | None


@dataclass(frozen=True, slots=True)
class ProducerIdAndEpoch:
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class AbortTransactionSpec:
    """A transaction that hangs in a partition though its coordinator knows nothing of it; see `describe_producers`."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


async def list_transactions(
    driver: Driver,
    *,
    states: Iterable[TransactionState],
    producer_ids: Iterable[int],
    running_longer_than_ms: int | None,
    transactional_id_pattern: str | None,
    timeout: float | None,
) -> list[TransactionListing]:
    deadline = driver.deadline(timeout)
    wanted_states, wanted_ids = [one.value for one in states], list(producer_ids)

    def build(node_id: int, keys: list[int]) -> Build:
        def make(version: int) -> ListTransactionsRequest:
            if version < 1 and running_longer_than_ms is not None:
                raise UnsupportedVersion("The broker is too old to list transactions by their duration")
            if version < 2 and transactional_id_pattern is not None:
                raise UnsupportedVersion("The broker is too old to list transactions by a pattern")
            return ListTransactionsRequest(
                state_filters=wanted_states,
                producer_id_filters=wanted_ids,
                duration_filter=-1 if running_longer_than_ms is None else running_longer_than_ms,
                transactional_id_pattern=transactional_id_pattern,
            )

        return Build(LIST_TRANSACTIONS_KEY, make)

    def read(
        node_id: int, keys: list[int], response: ListTransactionsResponse
    ) -> Iterable[tuple[int, list[TransactionListing] | KafkaError]]:
        check(response.error_code)
        yield (
            node_id,
            [
                TransactionListing(one.transactional_id, one.producer_id, TransactionState(one.transaction_state))
                for one in response.transaction_states
            ],
        )

    route: Route[int] = driver.node_of(lambda broker: broker, CoordinatorLoadInProgress)
    brokers = await driver.brokers(deadline)
    outcomes = await driver.each(Call("ListTransactions", route, build, read), brokers, deadline)
    listed = [listing for listings in outcomes.all().values() for listing in listings]
    return sorted(listed, key=lambda listing: listing.transactional_id)


def describe_transactions(
    driver: Driver, transactional_ids: Iterable[str], *, timeout: float | None
) -> Outcomes[str, TransactionDescription]:
    def build(node_id: int, keys: list[str]) -> DescribeTransactionsRequest:
        return DescribeTransactionsRequest(transactional_ids=keys)

    def read(
        node_id: int, keys: list[str], response: DescribeTransactionsResponse
    ) -> Iterable[tuple[str, TransactionDescription | KafkaError]]:
        for one in response.transaction_states:
            error = failure(one.error_code)
            yield (
                one.transactional_id,
                error
                or TransactionDescription(
                    node_id,
                    TransactionState(one.transaction_state),
                    one.producer_id,
                    one.producer_epoch,
                    one.transaction_timeout_ms,
                    one.transaction_start_time_ms if one.transaction_start_time_ms >= 0 else None,
                    frozenset(TopicPartition(topic.topic, index) for topic in one.topics for index in topic.partitions),
                ),
            )

    call = Call("DescribeTransactions", driver.transactions, build, read)
    return driver.drive(call, names_of(transactional_ids), timeout)


def fence_producers(
    driver: Driver, transactional_ids: Iterable[str], *, timeout: float | None
) -> Outcomes[str, ProducerIdAndEpoch]:
    deadline = driver.deadline(timeout)
    # The transaction that the old producer left is aborted first; until then the coordinator asks for patience.
    route = CoordinatorRoute(driver.network, CoordinatorKind.TRANSACTION, (ConcurrentTransactions,))

    def build(node_id: int, keys: list[str]) -> InitProducerIdRequest:
        return InitProducerIdRequest(
            transactional_id=keys[0],
            transaction_timeout_ms=driver.request_ms(deadline),
            producer_id=-1,
            producer_epoch=-1,
        )

    def read(
        node_id: int, keys: list[str], response: InitProducerIdResponse
    ) -> Iterable[tuple[str, ProducerIdAndEpoch | KafkaError]]:
        check(response.error_code)
        yield keys[0], ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    call = Call("FenceProducers", route, build, read, one_by_one=True)
    return driver.start(
        call.what, names_of(transactional_ids), lambda outcomes: driver.pursue(call, outcomes, deadline)
    )


async def abort_transaction(driver: Driver, spec: AbortTransactionSpec, *, timeout: float | None) -> None:
    def build(node_id: int, keys: list[TopicPartition]) -> WriteTxnMarkersRequest:
        topic = WritableTxnMarkerTopic(name=spec.partition.topic, partition_indexes=[spec.partition.partition])
        return WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=spec.producer_id,
                    producer_epoch=spec.producer_epoch,
                    transaction_result=False,
                    topics=[topic],
                    coordinator_epoch=spec.coordinator_epoch,
                )
            ]
        )

    def read(
        node_id: int, keys: list[TopicPartition], response: WriteTxnMarkersResponse
    ) -> Iterable[tuple[TopicPartition, KafkaError | None]]:
        for marker in response.markers:
            for topic in marker.topics:
                for one in topic.partitions:
                    yield TopicPartition(topic.name, one.partition_index), failure(one.error_code)

    outcomes: Outcomes[TopicPartition, None] = await driver.each(
        Call("AbortTransaction", driver.leaders, build, read), [spec.partition], driver.deadline(timeout)
    )
    outcomes.all()


def describe_producers(
    driver: Driver, partitions: Iterable[TopicPartition], *, broker_id: int | None, timeout: float | None
) -> Outcomes[TopicPartition, list[ProducerState]]:
    def build(node_id: int, keys: list[TopicPartition]) -> DescribeProducersRequest:
        return DescribeProducersRequest(
            topics=[TopicRequest(name=topic, partition_indexes=indexes) for topic, indexes in by_topic(keys).items()]
        )

    def read(
        node_id: int, keys: list[TopicPartition], response: DescribeProducersResponse
    ) -> Iterable[tuple[TopicPartition, list[ProducerState] | KafkaError]]:
        for topic in response.topics:
            for one in topic.partitions:
                states = [
                    ProducerState(
                        each.producer_id,
                        each.producer_epoch,
                        each.last_sequence,
                        each.last_timestamp,
                        each.coordinator_epoch if each.coordinator_epoch >= 0 else None,
                        each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
                    )
                    for each in one.active_producers
                ]
                key = TopicPartition(topic.name, one.partition_index)
                yield key, failure(one.error_code, one.error_message) or states

    route: Route[TopicPartition] = driver.leaders
    if broker_id is not None:
        # A replica was named, and not the leader: that it does not lead is no reason to look elsewhere.
        route = driver.node_of(lambda key: broker_id, UnknownTopicOrPartition)
    return driver.drive(Call("DescribeProducers", route, build, read), partitions, timeout)

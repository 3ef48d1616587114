"""`TransactionMembership`: asks a transaction coordinator, wherever it is, whether partitions take part in a
transaction, or tells it that they do (KIP-890).

A coordinator on this node is called; one elsewhere gets AddPartitionsToTxn requests, which carry many transactions.
Promises: an error code for each partition that does not take part, in the words of Kafka's brokers, among them
COORDINATOR_NOT_AVAILABLE where there is no coordinator and NETWORK_EXCEPTION where it does not answer. A coordinator
too old to know such requests counts as one that has nothing against it. Called by `verification`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator import Producer
from ottla.coordinator.transaction import EPOCH_BUMP_VERSION
from ottla.errors import (
    NONE,
    BrokerNotAvailable,
    ClusterAuthorizationFailed,
    CoordinatorNotAvailable,
    InvalidTxnState,
    KafkaError,
    NetworkException,
    NotCoordinator,
    RequestTimedOut,
    UnknownServerError,
    UnsupportedVersion,
    error_class,
)
from ottla.net import Build, Request
from ottla.server.broker_requests import NO_BROKER, BrokerRequests, leader_of
from ottla.server.promises import mapped, recovered
from ottla.server.topic_creation import TRANSACTION_TOPIC
from ottla.types import TopicPartition
from ottla.wire import Message
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.world import Promise

if TYPE_CHECKING:
    from ottla.server.broker import BrokerServices

log = logging.getLogger(__name__)

API_KEY = 24
BROKER_VERSION = 4
"""From here on the request is one of brokers, and has many transactions."""

Codes = Mapping[TopicPartition, int]


class Question(NamedTuple):
    """May these partitions have records of the transaction? With `adds` they are to take part from now on."""

    transactional_id: str
    producer: Producer
    partitions: Sequence[TopicPartition]
    adds: bool


class TransactionMembership:
    """See the module."""

    def __init__(self, broker: BrokerServices) -> None:
        self._broker = broker
        self._tasks = broker.node.world.tasks
        self._requests: BrokerRequests[Question, Codes] = BrokerRequests(
            broker.peers,
            self._tasks,
            lane="transaction-verification",
            timeout_ms=lambda: broker.node.config.request_timeout_ms,
            subject=lambda question: question.transactional_id,
            request=_request,
            answers=_answers,
        )

    def ask(self, question: Question) -> Promise[Codes]:
        """The error codes of the partitions that may have no records; it is no error not to be among them. The promise
        does not fail."""
        partitions = question.partitions
        return recovered(self._tasks, lambda: self._ask(question), lambda error: _failed(partitions, error))

    def _ask(self, question: Question) -> Promise[Codes]:
        node = self._broker.node
        coordinator = self._coordinator(question.transactional_id)
        if coordinator != node.node_id:
            return self._requests.ask(coordinator, question)
        transactions = self._broker.transactions
        transactional_id, producer, partitions, adds = question
        if not adds:
            return transactions.verify_partitions(transactional_id, producer, partitions)
        added = transactions.add_partitions(transactional_id, producer, partitions, client_version=EPOCH_BUMP_VERSION)
        return mapped(self._tasks, added, lambda _: {})

    def _coordinator(self, transactional_id: str) -> int:
        """The broker that coordinates it; `CoordinatorNotAvailable` where there is none."""
        try:
            index = self._broker.transactions.index_of(transactional_id)
        except NotCoordinator:
            raise CoordinatorNotAvailable from None
        coordinator = leader_of(self._broker.node.image, TRANSACTION_TOPIC, index)
        if coordinator == NO_BROKER:
            raise CoordinatorNotAvailable
        return coordinator


def _failed(partitions: Sequence[TopicPartition], error: KafkaError) -> Codes:
    """What it means for the partitions that the coordinator was not asked, or has refused the request."""
    match error:
        case UnsupportedVersion():
            log.warning("[TransactionMembership] The coordinator does not know verification: going on without it")
            return {}
        case ClusterAuthorizationFailed():
            # Nothing that a client should hear of: the verification was not carried out.
            return dict.fromkeys(partitions, InvalidTxnState.code)
        case RequestTimedOut():
            return dict.fromkeys(partitions, NetworkException.code)
        case BrokerNotAvailable():
            return dict.fromkeys(partitions, CoordinatorNotAvailable.code)
        case _:
            return dict.fromkeys(partitions, error.code)


def _request(questions: Sequence[Question]) -> Request:
    request = AddPartitionsToTxnRequest(transactions=[_transaction(*question) for question in questions])
    return Build(API_KEY, lambda version: request, version_min=BROKER_VERSION)


def _transaction(
    transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition], adds: bool
) -> AddPartitionsToTxnTransaction:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        verify_only=not adds,
        topics=[AddPartitionsToTxnTopic(topic, indexes) for topic, indexes in by_topic.items()],
    )


def _answers(questions: Sequence[Question], response: Message) -> list[Codes]:
    """By transactional id: each is asked about once. A partition without an answer has failed for reasons unknown."""
    assert isinstance(response, AddPartitionsToTxnResponse), response
    if response.error_code != NONE:
        raise error_class(response.error_code)
    told: dict[str, dict[TopicPartition, int]] = {}
    for result in response.results_by_transaction:
        codes = told.setdefault(result.transactional_id, {})
        for topic in result.topic_results:
            for one in topic.results_by_partition:
                codes[TopicPartition(topic.name, one.partition_index)] = one.partition_error_code
    return [
        {
            one: code
            for one in question.partitions
            if (code := told.get(question.transactional_id, {}).get(one, UnknownServerError.code)) != NONE
        }
        for question in questions
    ]

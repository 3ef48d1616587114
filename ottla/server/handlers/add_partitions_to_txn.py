"""AddPartitionsToTxn (key 24): partitions take part in a transaction, or it is asked whether they do.

Clients send versions up to 3, one transaction each; brokers send 4 and above, many at once, on behalf of producers
whose records they are about to append (KIP-890). Promises: of one transaction all partitions are added or none; each
transaction has an answer of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.coordinator import Producer
from ottla.coordinator.transaction import EPOCH_BUMP_VERSION
from ottla.errors import (
    NONE,
    InvalidProducerEpoch,
    KafkaError,
    OperationNotAttempted,
    ProducerFenced,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from ottla.metadata import INTERNAL_TOPICS, Image
from ottla.server.context import BrokerContext
from ottla.server.promises import gathered, mapped, recovered
from ottla.types import TopicPartition
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ottla.world import Promise

API_KEY = 24
BROKER_VERSION = 4
"""From here on brokers ask, and the request has many transactions."""
FENCED_VERSION = 2
"""Clients of older versions know a fenced producer as INVALID_PRODUCER_EPOCH."""

Codes = Mapping[TopicPartition, int]


def handle(context: BrokerContext, request: AddPartitionsToTxnRequest) -> Promise[AddPartitionsToTxnResponse]:
    tasks = context.node.world.tasks
    transactions = _transactions(request, context.version)
    answers = [_answer(context, one) for one in transactions]

    def response(found: list[Codes]) -> AddPartitionsToTxnResponse:
        results = [_topic_results(codes) for codes in found]
        if context.version < BROKER_VERSION:
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0])
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(one.transactional_id, result)
                for one, result in zip(transactions, results, strict=True)
            ]
        )

    return mapped(tasks, gathered(tasks, answers), response)


def failed(request: AddPartitionsToTxnRequest, error: KafkaError, version: int) -> AddPartitionsToTxnResponse:
    """The error for every partition; brokers are told once."""
    if version >= BROKER_VERSION:
        return AddPartitionsToTxnResponse(error_code=error.code)
    codes = dict.fromkeys(_partitions(request.v3_and_below_topics), error.code)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topic_results(codes))


def _transactions(request: AddPartitionsToTxnRequest, version: int) -> list[AddPartitionsToTxnTransaction]:
    if version >= BROKER_VERSION:
        return request.transactions
    return [
        AddPartitionsToTxnTransaction(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            False,
            request.v3_and_below_topics,
        )
    ]


def _answer(context: BrokerContext, transaction: AddPartitionsToTxnTransaction) -> Promise[Codes]:
    broker = context.broker
    tasks = broker.node.world.tasks
    is_client = context.version < BROKER_VERSION
    partitions = list(_partitions(transaction.topics))
    refused = _refused(broker.node.image, partitions, is_client=is_client)
    if refused:
        done: Promise[Codes] = tasks.promise()
        done.set_result({one: refused.get(one, OperationNotAttempted.code) for one in partitions})
        return done
    producer = Producer(transaction.producer_id, transaction.producer_epoch)

    def fail(error: KafkaError) -> Codes:
        is_old = context.version < FENCED_VERSION and error.code == ProducerFenced.code
        return dict.fromkeys(partitions, InvalidProducerEpoch.code if is_old else error.code)

    def begin() -> Promise[Codes]:
        if transaction.verify_only:
            return broker.transactions.verify_partitions(transaction.transactional_id, producer, partitions)
        added = broker.transactions.add_partitions(
            transaction.transactional_id,
            producer,
            partitions,
            client_version=0 if is_client else EPOCH_BUMP_VERSION,
        )
        return mapped(tasks, added, lambda _: dict.fromkeys(partitions, NONE))

    return recovered(tasks, begin, fail)


def _refused(image: Image, partitions: Iterable[TopicPartition], *, is_client: bool) -> dict[TopicPartition, int]:
    """Partitions that cannot take part: Kafka's own topics are not a client's to write to, others may not exist."""
    found: dict[TopicPartition, int] = {}
    for one in partitions:
        topic = image.topics.by_name.get(one.topic)
        if is_client and one.topic in INTERNAL_TOPICS:
            found[one] = TopicAuthorizationFailed.code
        elif topic is None or one.partition not in topic.partitions:
            found[one] = UnknownTopicOrPartition.code
    return found


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> dict[TopicPartition, None]:
    return {TopicPartition(topic.name, index): None for topic in topics for index in topic.partitions}


def _topic_results(codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    by_topic: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, index), code in codes.items():
        by_topic.setdefault(topic, []).append(AddPartitionsToTxnPartitionResult(index, code))
    return [AddPartitionsToTxnTopicResult(topic, results) for topic, results in by_topic.items()]

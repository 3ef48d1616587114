"""InitProducerId (key 22): an id for an idempotent producer, or an id and an epoch for a transactional one.

Without a transactional id any broker answers, from the block of ids that the controller gave it. With one the
transaction coordinator does: it fences the producers before, and aborts what they left open.
"""

from __future__ import annotations

from typing import TypeAlias

from ottla.coordinator import Producer
from ottla.coordinator.transaction import NO_TIMEOUT_MS
from ottla.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidRequest,
    InvalidTransactionTimeout,
    KafkaError,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
    UnsupportedVersion,
)
from ottla.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.server.broker import BrokerServices
from ottla.server.context import BrokerContext
from ottla.server.producer_ids import take_producer_id, when_there_are_ids
from ottla.server.promises import chained, mapped, recovered
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.world import Promise

API_KEY = 22
FENCED_VERSION = 4
"""Clients of older versions know a fenced producer as INVALID_PRODUCER_EPOCH."""

Answer: TypeAlias = InitProducerIdResponse | Promise[InitProducerIdResponse]


def handle(context: BrokerContext, request: InitProducerIdRequest) -> Answer:
    """Answer at once while the block of ids lasts; the next one is asked for before it is used up."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise InvalidRequest("Producer id and epoch must be given together.")
    broker = context.broker
    if request.transactional_id is not None:
        _check_transactional(broker, request)
    waiting = when_there_are_ids(broker)
    if waiting is None:
        return _begin(broker, request)
    # If no block comes, a transactional id that has its producer needs none, and others are told to come again: an
    # error of the controller's would be fatal to a client.
    tasks = broker.node.world.tasks
    settled = recovered(tasks, lambda: waiting, lambda error: None)
    return chained(tasks, settled, lambda _: _begin(broker, request))


def failed(request: InitProducerIdRequest, error: KafkaError, version: int) -> InitProducerIdResponse:
    code = error.code
    if version < FENCED_VERSION and code == ProducerFenced.code:
        code = InvalidProducerEpoch.code
    return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)


def _check_transactional(broker: BrokerServices, request: InitProducerIdRequest) -> None:
    config = broker.node.config
    if not request.transactional_id:
        raise InvalidRequest("The transactional id must not be empty.")
    if request.enable2_pc and not config.transaction_two_phase_commit_enable:
        raise TransactionalIdAuthorizationFailed
    if request.keep_prepared_txn:
        raise UnsupportedVersion
    if not 0 < request.transaction_timeout_ms <= config.transaction_max_timeout_ms and not request.enable2_pc:
        raise InvalidTransactionTimeout


def _begin(broker: BrokerServices, request: InitProducerIdRequest) -> Answer:
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=take_producer_id(broker), producer_epoch=0)
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = Producer(request.producer_id, request.producer_epoch)
    begun = broker.transactions.init_producer_id(
        request.transactional_id,
        timeout_ms=NO_TIMEOUT_MS if request.enable2_pc else request.transaction_timeout_ms,
        expected=expected,
    )
    return mapped(broker.node.world.tasks, begun, _response)


def _response(producer: Producer | None) -> InitProducerIdResponse:
    if producer is None:
        raise ConcurrentTransactions
    return InitProducerIdResponse(producer_id=producer.id, producer_epoch=producer.epoch)

"""EndTxn (key 26): commit or abort a transaction. The answer comes when the end is decided; the markers follow."""

from __future__ import annotations

from ottla.coordinator import Producer
from ottla.coordinator.transaction import EPOCH_BUMP_VERSION
from ottla.errors import InvalidProducerEpoch, KafkaError, ProducerFenced
from ottla.server.context import BrokerContext
from ottla.server.promises import mapped
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.world import Promise

API_KEY = 26
FENCED_VERSION = 2
"""Clients of older versions know a fenced producer as INVALID_PRODUCER_EPOCH."""
TRANSACTION_VERSION_2 = 5
"""From here on the client works with transaction version 2, and goes on with the epoch that it is told."""


def handle(context: BrokerContext, request: EndTxnRequest) -> Promise[EndTxnResponse]:
    ended = context.broker.transactions.end(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        is_commit=request.committed,
        client_version=EPOCH_BUMP_VERSION if context.version >= TRANSACTION_VERSION_2 else 0,
    )
    return mapped(
        context.node.world.tasks,
        ended,
        lambda producer: EndTxnResponse(producer_id=producer.id, producer_epoch=producer.epoch),
    )


def failed(request: EndTxnRequest, error: KafkaError, version: int) -> EndTxnResponse:
    is_old = version < FENCED_VERSION and error.code == ProducerFenced.code
    return EndTxnResponse(error_code=InvalidProducerEpoch.code if is_old else error.code)

"""InitProducerId (key 22): an id for an idempotent producer, from the block that the controller gave this broker.

Ottla has no transaction coordinator yet: a transactional id is refused as Kafka refuses it while none can be reached.
"""

from __future__ import annotations

from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidRequest,
    InvalidTransactionTimeout,
    KafkaError,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
    UnsupportedVersion,
    error_class,
)
from ottla.replica import ProducerIds, ReplicaManager
from ottla.server.broker import Broker
from ottla.server.context import RequestContext
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.world import Promise

API_KEY = 22
NO_PRODUCER = -1
FENCED_VERSION = 4
"""Clients of older versions know a fenced producer as INVALID_PRODUCER_EPOCH."""


def handle(
    context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Promise[InitProducerIdResponse]:
    """Answer at once while the block lasts; the next one is asked for before it is used up."""
    if (request.producer_id == NO_PRODUCER) != (request.producer_epoch == NO_PRODUCER):
        raise InvalidRequest("Producer id and epoch must be given together.")
    if request.transactional_id is not None:
        _refuse_transactional(context, request)
    replicas: ReplicaManager = context.broker.replicas
    ids = replicas.producer_ids
    taken = ids.take()
    if ids.wants_block and ids.fetching is None:
        _fetch_block(context.broker, ids)
    if taken is not None:
        return InitProducerIdResponse(producer_id=taken, producer_epoch=0)
    return _wait(context.broker, ids)


def failed(request: InitProducerIdRequest, error: KafkaError, version: int) -> InitProducerIdResponse:
    code = error.code
    if version < FENCED_VERSION and code == ProducerFenced.code:
        code = InvalidProducerEpoch.code
    return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER)


def _refuse_transactional(context: RequestContext, request: InitProducerIdRequest) -> None:
    config = context.broker.config
    if not request.transactional_id:
        raise InvalidRequest("The transactional id must not be empty.")
    if request.enable2_pc and not config.transaction_two_phase_commit_enable:
        raise TransactionalIdAuthorizationFailed
    if request.keep_prepared_txn:
        raise UnsupportedVersion
    if not 0 < request.transaction_timeout_ms <= config.transaction_max_timeout_ms and not request.enable2_pc:
        raise InvalidTransactionTimeout
    raise CoordinatorNotAvailable


def _fetch_block(broker: Broker, ids: ProducerIds) -> None:
    """Ask the controller for the next block; one question at a time, however many producers wait."""
    ids.fetching = fetching = broker.world.tasks.promise()
    image = broker.image
    registration = image.brokers.get(broker.node_id)
    request = AllocateProducerIdsRequest(broker.node_id, -1 if registration is None else registration.epoch)

    async def fetch() -> None:
        try:
            response = await broker.controller.send(request, version=0)
            assert isinstance(response, AllocateProducerIdsResponse), f"the controller answered with {response}"
            if response.error_code:
                raise error_class(response.error_code)
            ids.add(response.producer_id_start, response.producer_id_len)
            fetching.set_result(None)
        except KafkaError as error:
            fetching.set_exception(error)
        finally:
            ids.fetching = None

    fetching.add_done_callback(_heard)
    broker.world.tasks.spawn(fetch(), "producer-id-block")


def _heard(fetching: Promise[None]) -> None:
    """Nobody may be waiting for a block that was asked for early; its failure is then told by the next question."""
    try:
        fetching.result()
    except KafkaError:
        return


def _wait(broker: Broker, ids: ProducerIds) -> Promise[InitProducerIdResponse]:
    promise = broker.world.tasks.promise()
    fetching = ids.fetching
    assert fetching is not None, "without ids a block has been asked for"

    def answer(fetched: Promise[None]) -> None:
        try:
            fetched.result()
        except KafkaError as error:
            promise.set_exception(error)
            return
        taken = ids.take()
        if taken is not None:
            promise.set_result(InitProducerIdResponse(producer_id=taken, producer_epoch=0))
        else:
            # More producers waited than the block had ids; a client asks again.
            promise.set_exception(CoordinatorLoadInProgress("The block of producer ids is used up."))

    fetching.add_done_callback(answer)
    return promise

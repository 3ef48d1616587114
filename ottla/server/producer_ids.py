"""Producer ids from the controller's blocks: asked for by producers without transactions, and by transactions' own.

Promises: an id is given once; one question at a time goes to the controller, however many wait for its answer.
Called by InitProducerId and by the transaction coordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import CoordinatorLoadInProgress, KafkaError, error_class
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.world import Promise

if TYPE_CHECKING:
    from ottla.replica import ProducerIds
    from ottla.server.broker import BrokerServices


def take_producer_id(broker: BrokerServices) -> int:
    """An id that nobody had. Without a block it raises what Kafka tells: the client asks again while one comes."""
    ids = broker.replicas.producer_ids
    taken = ids.take()
    if ids.wants_block and ids.fetching is None:
        _fetch_block(broker, ids)
    if taken is None:
        raise CoordinatorLoadInProgress("Producer ID block is full. Waiting for next block")
    return taken


def when_there_are_ids(broker: BrokerServices) -> Promise[None] | None:
    """Resolved when the block that is on its way has come, or will not come; None where there are ids."""
    ids = broker.replicas.producer_ids
    if ids.has_any:
        return None
    if ids.fetching is None:
        _fetch_block(broker, ids)
    return ids.fetching


def _fetch_block(broker: BrokerServices, ids: ProducerIds) -> None:
    """Ask the controller for the next block."""
    ids.fetching = fetching = broker.node.world.tasks.promise()
    registration = broker.node.image.brokers.get(broker.node.node_id)
    request = AllocateProducerIdsRequest(broker.node.node_id, -1 if registration is None else registration.epoch)

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
    broker.node.world.tasks.spawn(fetch(), "producer-id-block")


def _heard(fetching: Promise[None]) -> None:
    """Nobody may be waiting for a block that was asked for early; its failure is then told by the next question."""
    try:
        fetching.result()
    except KafkaError:
        return

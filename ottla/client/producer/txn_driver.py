"""Asks coordinators what the transaction manager wants asked: one request at a time, again after what passes by itself.

Promises: the manager sees every answer on the client's thread and in the order of the requests; a request that could
not be answered is asked again until it is, or the producer closes, because the caller's time-out is not its end.
"""

from __future__ import annotations

import logging
from typing import Any

from ottla.client.errors import ClientClosed, as_kafka_error
from ottla.client.network import COORDINATOR, CoordinatorKind, Coordinators, NetworkClient
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.transaction import TransactionManager
from ottla.client.producer.txn_requests import INIT_PRODUCER_ID_KEY, InitProducerId, TxnRequest
from ottla.errors import GroupAuthorizationFailed, KafkaError, TransactionAbortable
from ottla.world import ClientWorld, Task

log = logging.getLogger(__name__)

EPOCH_BUMP_VERSION = 3
"""From here on InitProducerId can give a producer that goes on a new epoch (KIP-360)."""
FEATURE = "transaction.version"


class TransactionDriver:
    """Runs while there is something to ask; `kick` it when there may be."""

    def __init__(
        self,
        world: ClientWorld,
        network: NetworkClient,
        coordinators: Coordinators,
        manager: TransactionManager,
        accumulator: Accumulator,
    ) -> None:
        self._world = world
        self._network = network
        self._coordinators = coordinators
        self._manager = manager
        self._accumulator = accumulator
        self._task: Task[None] | None = None
        self._is_closed = False
        manager.on_end = lambda: self._look_at_features(is_initial=False)

    @property
    def is_running(self) -> bool:
        return self._task is not None

    def kick(self) -> None:
        """Ask what there is to ask."""
        if self._task is not None or self._is_closed:
            return
        request = self._next()
        if request is not None:
            self._task = self._world.tasks.spawn(self._run(request), f"{self._network.name} transaction requests")

    def close(self) -> None:
        """Ask nothing more."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _next(self) -> TxnRequest | None:
        return self._manager.next_request(has_incomplete_batches=bool(self._accumulator.incomplete))

    async def _run(self, request: TxnRequest | None) -> None:
        try:
            while request is not None:
                again = await self._ask(request)
                if again is not None:
                    log.debug("[%s] %s is asked again: %s", self._network.name, type(request).__name__, again)
                    delay_ms = request.retry_ms or self._network.retry_backoff.delay_ms(request.failures)
                    request.failures += 1
                    await self._world.tasks.sleep_ms(delay_ms)
                    self._manager.enqueue(request)
                request = self._next()
        finally:
            self._task = None
        # What an answer has changed may let batches go, and an end may have become possible meanwhile.
        self._accumulator.wake()

    async def _ask(self, request: TxnRequest) -> KafkaError | None:
        """Ask once; the error when it is to be asked again."""
        whom = request.coordinator
        try:
            if whom is None:
                response: Any = await self._network.send(self._network.least_loaded(), request.build())
            else:
                response = await self._coordinators.send(*whom, request.build(), None)
        except ClientClosed as closed:
            request.result.fail(closed)
            return None
        except Exception as raised:  # noqa: BLE001  it is told to whoever waits for the request
            error = as_kafka_error(raised, f"{type(request).__name__} could not be asked")
            if error.retriable:
                return error
            if isinstance(error, GroupAuthorizationFailed | TransactionAbortable):
                request.abortable(error)
            else:
                request.fatal(error)
            return None
        if whom is not None and whom[0] is CoordinatorKind.TRANSACTION:
            versions = self._coordinator_versions()
            if versions is not None:
                self._manager.can_bump_epoch = versions.usable(INIT_PRODUCER_ID_KEY, EPOCH_BUMP_VERSION) is not None
            if isinstance(request, InitProducerId):
                self._look_at_features(is_initial=True)
        try:
            again = request.handle(response)
        except Exception as raised:  # noqa: BLE001  it is told to whoever waits for the request
            # The program has done something meanwhile that does not fit (`IllegalState`), or the answer could not be
            # read: nothing can be said of the transaction.
            request.fatal(as_kafka_error(raised, f"The response to {type(request).__name__} could not be read"))
            return None
        if again is not None and whom is not None:
            self._coordinators.note(*whom, again.code)
        return again

    def _coordinator_versions(self) -> Any:
        transactional_id = self._manager.transactional_id
        if transactional_id is None:
            return None
        node_id = self._coordinators.known(CoordinatorKind.TRANSACTION, transactional_id)
        return None if node_id is None else self._network.versions(node_id, COORDINATOR)

    def _look_at_features(self, *, is_initial: bool) -> None:
        versions = self._coordinator_versions()
        if versions is not None:
            self._manager.set_features(versions.features.get(FEATURE, 0), is_initial=is_initial)

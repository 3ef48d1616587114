"""Which broker coordinates a group, a transactional id or a share partition: asked once, remembered until it is wrong.

Promises: `find` waits through what passes by itself (a coordinator that is moving or loading, a broker that is away) up
to its time-out, and raises what does not (no permission, a key that is not valid); several who ask for one key share
the request; requests to a coordinator go out on a lane of their own, so that they never wait behind a fetch.
"""

from __future__ import annotations

import logging
from enum import IntEnum
from typing import Any

from ottla.client.errors import KafkaTimeout
from ottla.client.network.cluster import Node
from ottla.client.network.network_client import COORDINATOR, NetworkClient
from ottla.client.network.waiting import Deadline, within
from ottla.errors import CoordinatorNotAvailable, KafkaError, NotCoordinator, UnsupportedVersion, error_class
from ottla.net import Build, Request
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.world import Promise

log = logging.getLogger(__name__)

FIND_COORDINATOR_KEY = 10
BATCHED_VERSION = 4
"""From here on one request can ask for many keys."""


class CoordinatorKind(IntEnum):
    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class Coordinators:
    """The coordinators that one client has to do with."""

    def __init__(self, network: NetworkClient) -> None:
        self._network = network
        self._world = network.world
        self._known: dict[tuple[CoordinatorKind, str], int] = {}
        self._asked: dict[tuple[CoordinatorKind, str], Promise[int]] = {}

    def known(self, kind: CoordinatorKind, key: str) -> int | None:
        """The coordinator's node id, if it is known and its connection has not been lost since."""
        return self._known.get((kind, key))

    def forget(self, kind: CoordinatorKind, key: str, why: KafkaError) -> None:
        """It is not the coordinator any more, or cannot be reached: the next `find` asks again."""
        node_id = self._known.pop((kind, key), None)
        if node_id is not None:
            log.info("[%s] The coordinator of %s %s, node %d, is unavailable or invalid: %s. Looking for it again",
                     self._network.name, kind.name.lower(), key, node_id, why)  # fmt: skip

    async def find(self, kind: CoordinatorKind, key: str, timeout_ms: float | None) -> int:
        """The coordinator's node id."""
        deadline = Deadline(self._world, timeout_ms)
        failures = 0
        while True:
            node_id = self._known.get((kind, key))
            if node_id is not None:
                return node_id
            try:
                return await self._ask(kind, key, deadline)
            except KafkaError as error:
                if not error.retriable and not isinstance(error, CoordinatorNotAvailable):
                    raise
                delay_ms = self._network.retry_backoff.delay_ms(failures)
                left_ms = deadline.left_ms
                if left_ms is not None and left_ms <= delay_ms:
                    what = f"The coordinator of {kind.name.lower()} {key}"
                    raise KafkaTimeout(f"{what} was not found within {timeout_ms:.0f} ms: {error}") from error
                if failures & (failures + 1) == 0:
                    log.info("[%s] The coordinator of %s %s is not available yet (attempt %d): %s", self._network.name,
                             kind.name.lower(), key, failures + 1, error)  # fmt: skip
                failures += 1
                await self._world.tasks.sleep_ms(delay_ms)

    async def _ask(self, kind: CoordinatorKind, key: str, deadline: Deadline) -> int:
        asked = self._asked.get((kind, key))
        if asked is None:
            asked = self._asked[kind, key] = self._world.tasks.promise()
            # Should nobody wait for it any more when it fails, that is no news.
            asked.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._send(kind, key, asked, deadline.at_most(self._network.config.request_timeout_ms))
        return await within(self._world, asked, None, "the coordinator")

    def _send(self, kind: CoordinatorKind, key: str, asked: Promise[int], timeout_ms: float) -> None:
        def make(version: int) -> FindCoordinatorRequest:
            if version >= BATCHED_VERSION:
                return FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            if version == 0 and kind is not CoordinatorKind.GROUP:
                raise UnsupportedVersion("The broker is too old for transactions")
            return FindCoordinatorRequest(key=key, key_type=kind)

        def answered(response: Any, error: KafkaError | None) -> None:
            self._asked.pop((kind, key), None)
            if error is None:
                told = response.coordinators[0] if response.coordinators else response
                if told.error_code:
                    error = error_class(told.error_code)(told.error_message or "")
                else:
                    self._network.add_node(Node(told.node_id, told.host, told.port))
                    self._known[kind, key] = told.node_id
                    log.info("[%s] Discovered the coordinator of %s %s: %s:%d (id: %d)", self._network.name,
                             kind.name.lower(), key, told.host, told.port, told.node_id)  # fmt: skip
                    asked.set_result(told.node_id)
                    return
            if not asked.done():
                asked.set_exception(error)

        try:
            node_id = self._network.least_loaded()
        except KafkaError as error:
            answered(None, error)
            return
        build = Build(FIND_COORDINATOR_KEY, make, version_min=6 if kind is CoordinatorKind.SHARE else 0)
        self._network.send_then(node_id, build, answered, timeout_ms=timeout_ms)

    async def send(self, kind: CoordinatorKind, key: str, request: Request, timeout_ms: float | None) -> Any:
        """The coordinator's response to `request`, sent once. A lost connection makes the coordinator be looked for
        again the next time; error codes in the response are the caller's to see (`note`)."""
        deadline = Deadline(self._world, timeout_ms)
        node_id = await self.find(kind, key, timeout_ms)
        try:
            return await self._network.send(
                node_id, request, timeout_ms=deadline.at_most(self._network.config.request_timeout_ms), lane=COORDINATOR
            )
        except KafkaError as error:
            if error.retriable:
                self.forget(kind, key, error)
            raise

    def note(self, kind: CoordinatorKind, key: str, error_code: int) -> None:
        """A response of the coordinator had this error: whether it means that there is another coordinator now."""
        if error_code in (NotCoordinator.code, CoordinatorNotAvailable.code):
            self.forget(kind, key, error_class(error_code)())

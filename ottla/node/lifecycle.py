"""A broker's membership: registered at start, alive by heartbeats, gone in an orderly way.

Promises: the node serves as a broker only while it is registered and unfenced; a heartbeat that finds the registration
gone registers anew; `shut_down` lets the controller move what this node leads before it goes. Called by `node`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from ottla.config import BrokerConfig
from ottla.errors import BrokerIdNotRegistered, KafkaError, NotController, StaleBrokerEpoch, error_class
from ottla.metadata import SUPPORTED_FEATURES, Endpoint, random_uuid
from ottla.server import ControllerLink
from ottla.types import Uuid
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from ottla.world import NodeWorld, Task

log = logging.getLogger(__name__)

REGISTRATION_VERSION = 4
HEARTBEAT_VERSION = 2
RETRY_MS = 100


class BrokerLifecycle:
    def __init__(
        self,
        world: NodeWorld,
        config: BrokerConfig,
        controller: ControllerLink,
        *,
        cluster_id: str,
        endpoints: Sequence[Endpoint],
        log_dirs: Sequence[Uuid],
        metadata_offset: Callable[[], int],
        offline_log_dirs: Callable[[], list[Uuid]],
        previous_broker_epoch: int = -1,
    ) -> None:
        """`previous_broker_epoch` is that of the last life, if it ended in order."""
        self._world = world
        self._config = config
        self._controller = controller
        self._cluster_id = cluster_id
        self._endpoints = endpoints
        self._log_dirs = list(log_dirs)
        self._metadata_offset = metadata_offset
        self._offline_log_dirs = offline_log_dirs
        self._incarnation_id = random_uuid(world)
        self._previous_epoch = previous_broker_epoch
        self.broker_epoch = -1
        self.is_fenced = True
        self._heartbeats: Task[None] | None = None

    async def register(self) -> None:
        """Be registered; tries again while there is no controller, for `initial.broker.registration.timeout.ms`."""
        deadline = self._world.clock.monotonic_ms() + self._config.initial_broker_registration_timeout_ms
        while True:
            try:
                await self._register_once()
                return
            except NotController:
                if self._world.clock.monotonic_ms() >= deadline:
                    raise
            await self._world.tasks.sleep_ms(RETRY_MS)

    async def _register_once(self) -> None:
        response = await self._controller.send(
            BrokerRegistrationRequest(
                broker_id=self._config.node_id,
                cluster_id=self._cluster_id,
                incarnation_id=self._incarnation_id,
                listeners=[Listener(*endpoint) for endpoint in self._endpoints],
                features=[Feature(name, low, high) for name, (low, high) in sorted(SUPPORTED_FEATURES.items())],
                rack=self._config.broker_rack,
                log_dirs=sorted(self._log_dirs),
                previous_broker_epoch=self._previous_epoch,
            ),
            version=REGISTRATION_VERSION,
        )
        assert isinstance(response, BrokerRegistrationResponse), response
        if response.error_code:
            raise error_class(response.error_code)(f"the controller refused to register broker {self._config.node_id}")
        self.broker_epoch = self._previous_epoch = response.broker_epoch
        log.info(
            "[BrokerLifecycle id=%d] Successfully registered broker with broker epoch %d",
            self._config.node_id, self.broker_epoch,
        )  # fmt: skip

    async def unfence(self) -> None:
        """Beat until the controller lets this broker serve, then go on beating by itself."""
        while self.is_fenced:
            await self._beat()
            if self.is_fenced:
                await self._world.tasks.sleep_ms(min(RETRY_MS, self._config.broker_heartbeat_interval_ms))
        self._heartbeats = self._world.tasks.spawn(self._keep_beating(), "broker-heartbeats")

    async def _keep_beating(self) -> None:
        interval_ms = self._config.broker_heartbeat_interval_ms
        delay_ms = interval_ms
        while True:
            await self._world.tasks.sleep_ms(delay_ms)
            delay_ms = interval_ms
            try:
                await self._beat()
            except (StaleBrokerEpoch, BrokerIdNotRegistered) as error:
                # Registered anew by now, and fenced until the next heartbeat: nobody is served before that.
                log.warning("[BrokerLifecycle id=%d] The registration was gone: %s", self._config.node_id, error)
                delay_ms = min(RETRY_MS, interval_ms)
            except KafkaError as error:
                log.warning("[BrokerLifecycle id=%d] A heartbeat failed: %s", self._config.node_id, error)

    async def _beat(self, *, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
        """One heartbeat. When the controller does not know this registration, it is made anew, and the error raised."""
        try:
            return await self._beat_once(want_shut_down)
        except (StaleBrokerEpoch, BrokerIdNotRegistered):
            await self._register_once()
            raise

    async def _beat_once(self, want_shut_down: bool) -> BrokerHeartbeatResponse:
        response = await self._controller.send(
            BrokerHeartbeatRequest(
                broker_id=self._config.node_id,
                broker_epoch=self.broker_epoch,
                current_metadata_offset=self._metadata_offset(),
                want_fence=False,
                want_shut_down=want_shut_down,
                offline_log_dirs=self._offline_log_dirs(),
                cordoned_log_dirs=[],
            ),
            version=HEARTBEAT_VERSION,
        )
        assert isinstance(response, BrokerHeartbeatResponse), response
        if response.error_code:
            raise error_class(response.error_code)()
        if response.is_fenced is not self.is_fenced:
            log.info(
                "[BrokerLifecycle id=%d] The broker has been %s", self._config.node_id,
                "fenced" if response.is_fenced else "unfenced",
            )  # fmt: skip
        self.is_fenced = response.is_fenced
        return response

    async def shut_down(self) -> None:
        """Ask the controller to let this broker go, and wait until it says so or its patience ends.

        Without `controlled.shutdown.enable` the broker just goes; the controller misses its heartbeats later.
        """
        if self._heartbeats is not None:
            self._heartbeats.cancel()
        if self.broker_epoch < 0 or not self._config.controlled_shutdown_enable:
            return
        deadline = self._world.clock.monotonic_ms() + self._config.broker_session_timeout_ms
        while self._world.clock.monotonic_ms() < deadline:
            try:
                if (await self._beat(want_shut_down=True)).should_shut_down:
                    return
            except KafkaError as error:
                log.warning("[BrokerLifecycle id=%d] Controlled shutdown goes on without the controller: %s",
                            self._config.node_id, error)  # fmt: skip
                return
            await self._world.tasks.sleep_ms(RETRY_MS)

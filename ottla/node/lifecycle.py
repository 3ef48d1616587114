"""A broker's membership: registered at start, alive by heartbeats, gone in an orderly way.

Promises: the node serves as a broker only while it is registered and unfenced. It registers again and again while
there is no controller, or while the session of the process that had its id before is not over; a heartbeat that finds
the registration gone registers anew. `shut_down` lets the controller move what this node leads before it goes, whoever
the controller is by then; it ends when the controller says so or when waiting is of no use. Called by `broker_role`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from ottla.config import BrokerConfig
from ottla.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    KafkaError,
    RetriableError,
    StaleBrokerEpoch,
    error_class,
)
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
from ottla.world import NodeWorld, Promise, Task

log = logging.getLogger(__name__)

REGISTRATION_VERSION = 4
HEARTBEAT_VERSION = 2
RETRY_MS = 100
"""How soon what failed is tried again; twice that the next time, up to `RETRY_MS_MAX` or the heartbeats' interval."""
RETRY_MS_MAX = 500
CATCH_UP_MS = 10
"""How soon the next heartbeat follows while the broker has not replayed its own registration."""
SHUTDOWN_MS_MAX = 5 * 60 * 1000
"""How long a controller may keep a broker that wants to stop; Kafka's own limit."""

# What a registration is tried again for: the process that had this id before was killed, and its session goes on.
_TRANSIENT = (RetriableError, DuplicateBrokerRegistration)
_GONE = (StaleBrokerEpoch, BrokerIdNotRegistered)


class BrokerLifecycle:
    """One process's membership, from its registration to its end."""

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
        cordoned_log_dirs: Callable[[], list[Uuid]] = list,
        has_no_quorum: Callable[[], bool] = lambda: False,
        previous_broker_epoch: int = -1,
    ) -> None:
        """`previous_broker_epoch` is that of the last life, if it ended in order; `has_no_quorum` says when this node
        is a controller too and knows that there is no active one."""
        self._world = world
        self._config = config
        self._controller = controller
        self._cluster_id = cluster_id
        self._endpoints = endpoints
        self._log_dirs = list(log_dirs)
        self._metadata_offset = metadata_offset
        self._offline_log_dirs = offline_log_dirs
        self._cordoned_log_dirs = cordoned_log_dirs
        self._has_no_quorum = has_no_quorum
        self.told_offline: frozenset[Uuid] = frozenset()
        """The failed log directories that the controller has heard of."""
        self._incarnation_id = random_uuid(world)
        self._previous_epoch = previous_broker_epoch
        self._subject = f"[BrokerLifecycle id={config.node_id}]"
        self.broker_epoch = -1
        self.is_fenced = True
        self._is_caught_up = False
        self._wants_to_serve = False
        self._has_news = False
        self._heartbeats: Task[None] | None = None
        self._pause: Promise[None] | None = None
        self._caught_up: Promise[None] | None = None
        self._unfenced: Promise[None] | None = None
        self._has_gone = False

    async def register(self) -> None:
        """Be registered, within `initial.broker.registration.timeout.ms`, and keep the session up from then on.

        The broker stays fenced until `unfence`: it may have logs to recover, and metadata to catch up with.
        """
        clock = self._world.clock
        deadline = clock.monotonic_ms() + self._config.initial_broker_registration_timeout_ms
        failure_count = 0
        while True:
            try:
                await self._register_once()
                break
            except _TRANSIENT as error:
                if clock.monotonic_ms() >= deadline:
                    raise
                log.info("%s Unable to register yet: %s", self._subject, error)
            await self._world.tasks.sleep_ms(_retry_ms(failure_count, RETRY_MS_MAX))
            failure_count += 1
        self._heartbeats = self._world.tasks.spawn(self._keep_beating(), "broker-heartbeats")

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
        self.broker_epoch = response.broker_epoch
        self._is_caught_up = False
        log.info("%s Successfully registered broker with broker epoch %d", self._subject, self.broker_epoch)

    async def catch_up(self) -> None:
        """Return when the controller says that this node's metadata has come as far as its registration."""
        if not self._is_caught_up:
            self._caught_up = self._world.tasks.promise()
            await self._caught_up

    async def unfence(self) -> None:
        """Everything is ready: ask to serve, and return when the controller allows it."""
        self._wants_to_serve = True
        self._unfenced = self._world.tasks.promise()
        self.beat_soon()
        await self._unfenced

    def beat_soon(self) -> None:
        """There is something to tell the controller: the next heartbeat does not wait for its time, nor for the one
        that is under way to have been the last."""
        self._has_news = True
        if self._pause is not None and not self._pause.done():
            self._pause.set_result(None)

    async def _keep_beating(self) -> None:
        failure_count = 0
        while True:
            self._has_news = False
            try:
                await self._beat()
            except KafkaError as error:
                log.warning("%s A heartbeat failed: %s", self._subject, error)
                delay_ms = _retry_ms(failure_count, self._config.broker_heartbeat_interval_ms)
                failure_count += 1
            else:
                failure_count = 0
                delay_ms = self._delay_ms()
            if not self._has_news:
                await self._wait(delay_ms)

    def _delay_ms(self) -> float:
        """Until the next heartbeat after one that was answered."""
        interval_ms = self._config.broker_heartbeat_interval_ms
        if not self._is_caught_up:
            return min(CATCH_UP_MS, interval_ms)
        return min(RETRY_MS, interval_ms) if self.is_fenced and self._wants_to_serve else interval_ms

    async def _wait(self, delay_ms: float) -> None:
        pause: Promise[None] = self._world.tasks.promise()
        self._pause = pause
        timer = self._world.tasks.later(delay_ms, self.beat_soon)
        try:
            await pause
        finally:
            timer.cancel()
            self._pause = None

    async def _beat(self, *, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
        """One heartbeat. When the controller does not know this registration, it is made anew first."""
        try:
            return await self._beat_once(want_shut_down)
        except _GONE as error:
            if want_shut_down:
                raise
            # Fenced until the next heartbeat: nobody is served before that.
            log.warning("%s The registration was gone: %s", self._subject, error)
            await self._register_once()
            return await self._beat_once(want_shut_down)

    async def _beat_once(self, want_shut_down: bool) -> BrokerHeartbeatResponse:
        offline = self._offline_log_dirs()
        response = await self._controller.send(
            BrokerHeartbeatRequest(
                broker_id=self._config.node_id,
                broker_epoch=self.broker_epoch,
                current_metadata_offset=self._metadata_offset(),
                want_fence=not self._wants_to_serve,
                want_shut_down=want_shut_down,
                offline_log_dirs=offline,
                cordoned_log_dirs=self._cordoned_log_dirs(),
            ),
            version=HEARTBEAT_VERSION,
        )
        assert isinstance(response, BrokerHeartbeatResponse), response
        if response.error_code:
            raise error_class(response.error_code)()
        self.told_offline = frozenset(offline)
        if response.is_fenced is not self.is_fenced:
            log.info("%s The broker has been %s", self._subject, "fenced" if response.is_fenced else "unfenced")
        self.is_fenced = response.is_fenced
        self._is_caught_up = response.is_caught_up
        if self._is_caught_up and self._caught_up is not None and not self._caught_up.done():
            self._caught_up.set_result(None)
        if not self.is_fenced and self._unfenced is not None and not self._unfenced.done():
            self._unfenced.set_result(None)
        return response

    async def shut_down(self) -> None:
        """Ask the controller to let this broker go, and wait until it says so, or until nobody has said anything for a
        whole session: then there is no controller that could move what this broker leads. A controller that can reach
        no other voter knows so at once; the last of a cluster that is stopped as a whole need not wait.

        Without `controlled.shutdown.enable` the broker just goes; the controller misses its heartbeats later. Once is
        enough.
        """
        if self._heartbeats is not None:
            self._heartbeats.cancel()
        has_gone, self._has_gone = self._has_gone, True
        if has_gone or self.broker_epoch < 0 or not self._config.controlled_shutdown_enable:
            return
        clock = self._world.clock
        deadline = clock.monotonic_ms() + SHUTDOWN_MS_MAX
        last_answer_ms = clock.monotonic_ms()
        while True:
            try:
                if (await self._beat(want_shut_down=True)).should_shut_down:
                    return
                last_answer_ms = clock.monotonic_ms()
            except _GONE as error:
                log.warning("%s The registration is gone, and nothing is left to give up: %s", self._subject, error)
                return
            except KafkaError as error:
                log.info("%s The controller cannot let this broker go yet: %s", self._subject, error)
                if self._has_no_quorum():
                    log.warning("%s There is no quorum that could approve controlled shutdown", self._subject)
                    return
            await self._world.tasks.sleep_ms(RETRY_MS)
            now_ms = clock.monotonic_ms()
            if now_ms >= min(deadline, last_answer_ms + self._config.broker_session_timeout_ms):
                log.warning("%s Timed out waiting for the controller to approve controlled shutdown", self._subject)
                return


def _retry_ms(failure_count: int, max_ms: float) -> float:
    return min(RETRY_MS * (1 << min(failure_count, 16)), max_ms)

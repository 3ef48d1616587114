"""The controller role: the controller that decides while this node leads the quorum, and its listeners.

Promises: the listeners take connections before the quorum has a leader; a controller that does not lead says so. Once
the quorum has one, the cluster is told where this controller is and what it can run with. Made by `node`.
"""

from __future__ import annotations

import logging

from ottla.errors import KafkaError, error_class
from ottla.metadata import (
    SUPPORTED_FEATURES,
    Controller,
    ElectionCounts,
    Endpoint,
    Gauge,
    bootstrap_records,
    random_uuid,
)
from ottla.node.probes import BrokerProbes
from ottla.node.shared import Shared
from ottla.raft import read_bootstrap
from ottla.server import ControllerServices, Dispatcher
from ottla.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    Feature,
    Listener,
)

log = logging.getLogger(__name__)

REGISTRATION_VERSION = 0
REGISTRATION_RETRY_MS = 1_000


class ControllerRole:
    """See the module."""

    def __init__(self, shared: Shared) -> None:
        config, world = shared.config, shared.world
        self._shared = shared
        probes = BrokerProbes(world, node_id=config.node_id, listener_name=config.inter_broker_listener)
        self.controller = Controller(
            world,
            shared.raft,
            config,
            cluster_id=shared.directories.cluster_id,
            bootstrap=read_bootstrap(world, config.metadata_dir) or bootstrap_records(),
            probes=probes,
        )
        shared.raft.subscribe(self.controller)
        self._elections = ElectionCounts()
        shared.loader.add_publisher(self._elections)
        shared.loader.add_publisher(probes)
        services = ControllerServices(shared.context, self.controller, shared.raft)
        self.dispatcher = shared.controller_dispatcher = Dispatcher(services)

    def gauges(self) -> list[Gauge]:
        """What this controller shows now."""
        shared, counts = self._shared, self._elections
        is_active = self.controller.is_active
        lag_ms = 0 if is_active else shared.world.clock.now_ms() - shared.loader.image.timestamp_ms
        stats = "kafka.controller:type=ControllerStats,name="
        return [
            *self.controller.gauges(),
            Gauge("LastAppliedRecordLagMs", lag_ms),
            Gauge(f"{stats}UncleanLeaderElectionsPerSec", counts.unclean_count, kind="counter"),
            Gauge(f"{stats}ElectionFromEligibleLeaderReplicasPerSec", counts.from_elr_count, kind="counter"),
        ]

    @property
    def endpoints(self) -> list[Endpoint]:
        return self._shared.listeners.endpoints(self._shared.listeners.of_controller)

    def listen(self) -> None:
        """Take connections: candidates and brokers may come before there is a leader."""
        for spec in self._shared.listeners.of_controller:
            self._shared.listeners.open(self._shared.sockets, spec, self.dispatcher)
        # Before these listeners close: the next leader may need this node's vote.
        self._shared.closing.append(self._shared.raft.hand_over)

    def begin_registration(self) -> None:
        """Have the cluster told of this controller, beside the start and for as long as it takes."""
        registering = self._shared.world.tasks.spawn(self._register(), "controller-registration")

        def stop() -> None:
            registering.cancel()

        self._shared.closing.append(stop)

    async def _register(self) -> None:
        shared = self._shared
        channel = shared.channel("registration")
        request = ControllerRegistrationRequest(
            controller_id=shared.config.node_id,
            incarnation_id=random_uuid(shared.world),
            listeners=[Listener(*endpoint) for endpoint in self.endpoints],
            features=[Feature(name, low, high) for name, (low, high) in sorted(SUPPORTED_FEATURES.items())],
        )
        while True:
            try:
                response = await channel.send(request, version=REGISTRATION_VERSION)
                assert isinstance(response, ControllerRegistrationResponse), response
                if response.error_code:
                    raise error_class(response.error_code)(response.error_message or "")
                return
            except KafkaError as error:
                log.warning("[ControllerRegistrationManager id=%d] Cannot register yet: %s",
                            shared.config.node_id, error)  # fmt: skip
            await shared.world.tasks.sleep_ms(REGISTRATION_RETRY_MS)

"""`Node`: one Kafka node, put together from its roles and run in a `NodeWorld`.

The order of `start` is the promise: directories are checked and locked before anything is written; controllers'
listeners take connections before the quorum has a leader; then the metadata log is followed, and a broker starts on it
(`broker_role`). `stop` goes the other way, the metadata log last. The simulator and the real process run the same code.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ottla.config import BrokerConfig, start_warnings, unserved_security
from ottla.errors import TopicAlreadyExists, error_class
from ottla.metadata import Controller, Gauge, ImageLoader
from ottla.node.broker_role import BrokerRole
from ottla.node.controller_role import ControllerRole
from ottla.node.directories import CannotStart, format_new
from ottla.node.shared import Shared
from ottla.node.unenforced import unenforced_metadata
from ottla.raft import RaftNode
from ottla.replica import ReplicaManager
from ottla.server import BrokerServices, NodeContext, SocketServer
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.world import Address, NodeWorld

log = logging.getLogger(__name__)

CREATE_TOPICS_VERSION = 7


def build(config: BrokerConfig, world: NodeWorld, *, metrics_address: Address | None = None) -> Node:
    """A node, not started yet. With `metrics_address` it also answers `GET /metrics` there."""
    return Node(config, world, metrics_address=metrics_address)


class Node:
    """See the module. What it is made of is there once it is started, as far as its roles have it."""

    def __init__(self, config: BrokerConfig, world: NodeWorld, *, metrics_address: Address | None = None) -> None:
        unserved = unserved_security(config)
        if unserved is not None:
            raise CannotStart(unserved)
        self.config = config
        self.world = world
        self.bootstrap_address = Address("", 0)
        """Where clients begin: the first listener of the broker, or else of the controller, as it is advertised."""
        self.metrics_address = metrics_address
        self.shared = Shared(config, world)
        self.broker_role: BrokerRole | None = None
        self.controller_role: ControllerRole | None = None

    # What it is made of

    @property
    def cluster_id(self) -> str:
        return self.shared.directories.cluster_id

    @property
    def raft(self) -> RaftNode:
        return self.shared.raft

    @property
    def loader(self) -> ImageLoader:
        return self.shared.loader

    @property
    def context(self) -> NodeContext:
        return self.shared.context

    @property
    def sockets(self) -> SocketServer:
        return self.shared.sockets

    @property
    def controller(self) -> Controller:
        assert self.controller_role is not None, "this node is no controller"
        return self.controller_role.controller

    @property
    def broker(self) -> BrokerServices:
        assert self.broker_role is not None, "this node is no broker"
        return self.broker_role.services

    @property
    def replicas(self) -> ReplicaManager:
        assert self.broker_role is not None, "this node is no broker"
        return self.broker_role.replicas

    @property
    def broker_epoch(self) -> int:
        return -1 if self.broker_role is None else self.broker_role.broker_epoch

    # Life

    def format_if_new(self, cluster_id: str | None = None) -> None:
        """Format directories that never were, for this cluster or one of their own; what is there stays as it is."""
        format_new(self.world, self.config, cluster_id)

    async def start(self) -> None:
        """Return when clients are served. `CannotStart` says in one line why not; nothing is left open then."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        config, shared = self.config, self.shared
        for line in start_warnings(config):
            log.warning("[Node %d] %s", config.node_id, line)
        shared.check()
        if config.is_broker:
            self.broker_role = BrokerRole(shared)
        await shared.prepare()
        if config.is_controller:
            self.controller_role = ControllerRole(shared)
            self.controller_role.listen()
        await shared.start_raft()
        if self.controller_role is not None:
            self.controller_role.begin_registration()
        if self.broker_role is not None:
            await self.broker_role.start()
        self._serve_metrics()
        if self.broker_role is not None:
            self.broker_role.serve()
        for line in unenforced_metadata(self.loader.image, config.node_id):
            log.warning("[Node %d] %s", config.node_id, line)
        role = self.broker_role or self.controller_role
        assert role is not None, "a node has a role"
        self.bootstrap_address = Address(role.endpoints[0].host, role.endpoints[0].port)
        log.info("[Node %d] Kafka-compatible server started at %s", config.node_id, self.bootstrap_address)

    async def until_failed(self) -> str:
        """Return when this node cannot go on, with the reason: its disks are gone, or its metadata log."""
        return await self.shared.until_failed()

    async def stop(self) -> None:
        """A controlled shutdown: the next start needs no recovery. What was not started yet is left out."""
        if self.shared.closing:
            log.info("[Node %d] Shutting down", self.config.node_id)
        await self.shared.stop()
        log.info("[Node %d] Shut down completed", self.config.node_id)

    def _serve_metrics(self) -> None:
        if self.metrics_address is None:
            return
        from ottla.server import MetricsServer

        services = None if self.broker_role is None else self.broker_role.services
        server = MetricsServer.of(self.context, services, self.collect_gauges)
        try:
            server.listen(self.metrics_address.host, self.metrics_address.port)
        except OSError as error:
            raise CannotStart(f"Cannot serve metrics on {self.metrics_address}: {error.strerror}") from None
        self.shared.closing.append(server.close)

    def collect_gauges(self) -> list[Gauge]:
        """What the quorum, and the controller if this node has one, show now."""
        from ottla.node.raft_gauges import raft_gauges

        own = [] if self.controller_role is None else self.controller_role.gauges()
        if self.broker_role is not None:
            own += self.broker_role.gauges()
        return [*own, *raft_gauges(self.raft, self.world.clock.monotonic_ms())]

    async def create_topics(self, topics: Sequence[tuple[str, int]]) -> None:
        """Make topics unless they exist: what `ottla up --topic` asks for."""
        if not topics:
            return
        wanted = [CreatableTopic(name=name, num_partitions=count, replication_factor=-1) for name, count in topics]
        response = await self.broker.controller.send(
            CreateTopicsRequest(topics=wanted, timeout_ms=30_000), version=CREATE_TOPICS_VERSION
        )
        assert isinstance(response, CreateTopicsResponse), response
        for topic in response.topics:
            if topic.error_code not in (0, TopicAlreadyExists.code):
                raise error_class(topic.error_code)(f"Cannot create topic {topic.name}: {topic.error_message}")

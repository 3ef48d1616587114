"""`Node`: one Kafka node, put together from the layers and run in a `NodeWorld`.

The order of `start` is the promise: directories are checked and locked before anything is written; the metadata log is
caught up before a log is opened; listeners take connections only when there is something to answer with; the broker is
registered and unfenced before `start` returns. `stop` goes the other way: the controller lets the broker go, no more
connections, logs closed, the metadata log last. The simulator and the real process run the same code.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from ottla.config import BrokerConfig, ListenerSpec, start_warnings, unserved_security
from ottla.coordinator.group import GroupCoordinator
from ottla.coordinator.transaction import TransactionCoordinator
from ottla.errors import NetworkException, TopicAlreadyExists, error_class
from ottla.metadata import (
    SUPPORTED_FEATURES,
    Controller,
    Endpoint,
    Gauge,
    ImageLoader,
    SnapshotGenerator,
    bootstrap_records,
    random_uuid,
)
from ottla.node.assignments import Assignments
from ottla.node.controller_channel import FORWARDING_RETRY_MS, ControllerChannel, Link
from ottla.node.directories import CannotStart, check_directories, epoch_of_clean_shutdown, format_new
from ottla.node.lifecycle import BrokerLifecycle
from ottla.node.raft_gauges import raft_gauges
from ottla.node.unenforced import unenforced_metadata
from ottla.raft import RaftNode, VoterSet, read_bootstrap
from ottla.replica import LogDriver, PartitionLog, ReplicaManager
from ottla.server import (
    GROUP_TOPIC,
    TRANSACTION_TOPIC,
    BrokerServices,
    ControllerLink,
    ControllerServices,
    Dispatcher,
    FetchSessions,
    LocalMarkers,
    MetricsServer,
    NodeContext,
    SocketServer,
    take_producer_id,
)
from ottla.types import Uuid
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.messages.controller_registration import Feature as ControllerFeature
from ottla.wire.messages.controller_registration import Listener as ControllerListener
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.world import Address, NodeWorld

log = logging.getLogger(__name__)

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
CREATE_TOPICS_VERSION = 7
OWN_NAME_MS_MAX = 2_000
"""How long a start waits for the resolver to tell the name of this host."""


def build(config: BrokerConfig, world: NodeWorld, *, metrics_address: Address | None = None) -> Node:
    """A node, not started yet. With `metrics_address` it also answers `GET /metrics` there."""
    return Node(config, world, metrics_address=metrics_address)


class Node:
    """See the module."""

    def __init__(self, config: BrokerConfig, world: NodeWorld, *, metrics_address: Address | None = None) -> None:
        if config.roles != {"broker", "controller"}:
            roles = ",".join(sorted(config.roles))
            raise CannotStart(f"process.roles={roles} is not supported yet: set process.roles=broker,controller")
        unserved = unserved_security(config)
        if unserved is not None:
            raise CannotStart(unserved)
        self.config = config
        self.world = world
        self._advertised = {
            one.name: one for one in [*config.advertised_listener_list, *config.advertised_controller_listener_list]
        }
        self._own_name = ""
        """What is advertised where no host is given; looked up only then."""
        self.cluster_id = ""
        self.bootstrap_address = Address("", 0)
        """Where clients begin: the first broker listener, as it is advertised."""
        self._directory_ids: dict[str, Uuid] = {}
        self.raft: RaftNode
        self.controller: Controller
        self.loader: ImageLoader
        self.replicas: ReplicaManager
        self.context: NodeContext
        self.broker: BrokerServices
        self._dispatchers: dict[str, Dispatcher] = {}
        self.sockets: SocketServer
        self.lifecycle: BrokerLifecycle | None = None
        self.metrics_address = metrics_address
        self._metrics: MetricsServer | None = None
        self._closing: list[Callable[[], Awaitable[None] | None]] = []
        """How to undo what `start` has done, the last first."""

    def format_if_new(self, cluster_id: str | None = None) -> None:
        """Format directories that never were, for this cluster or a new one; what is there stays as it is."""
        format_new(self.world, self.config, cluster_id)

    async def start(self) -> None:
        """Return when clients are served. `CannotStart` says in one line why not; nothing is left open then."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        config, world = self.config, self.world
        for line in start_warnings(config):
            log.warning("[Node %d] %s", config.node_id, line)
        directories = check_directories(world, config)
        self.cluster_id = directories.cluster_id
        self._directory_ids = directories.ids
        assignments = Assignments(world, config.node_id, lambda: self.broker_epoch)
        self.replicas = ReplicaManager.create(
            world, config, config.node_id, directory_ids=directories.ids, on_assigned=assignments.assign
        )
        self.replicas.logs.lock()
        self._closing.append(self.replicas.logs.unlock)
        previous_broker_epoch = epoch_of_clean_shutdown(world, config)
        self.loader = ImageLoader(directories.cluster_id)
        self._own_name = await self._look_up_own_name()
        self.raft = self._make_raft()
        self.controller = Controller(
            world,
            self.raft,
            config,
            cluster_id=directories.cluster_id,
            bootstrap=read_bootstrap(world, config.metadata_dir) or bootstrap_records(),
        )
        # The image is newer than what the controller has answered: whoever asks for what was just made finds it.
        self.raft.subscribe(self.loader)
        self.raft.subscribe(self.controller)
        self._closing.append(self.raft.stop)
        await self.raft.start()
        self.context = NodeContext(
            config=config,
            world=world,
            node_id=config.node_id,
            cluster_id=directories.cluster_id,
            image=self.loader.image,
            quorum=self.raft,
        )
        services = ControllerServices(self.context, self.controller, self.raft)  # type: ignore[arg-type]  # no `handle` yet
        self._dispatchers["controller"] = Dispatcher(services)
        link = self._channel("forwarding")
        groups = GroupCoordinator(
            world,
            config.node_id,
            self._current_config,
            lambda index: PartitionLog.of(self.replicas, GROUP_TOPIC, index),
            self.loader.image,
        )
        transactions = TransactionCoordinator(
            world,
            config.node_id,
            self._current_config,
            lambda index: PartitionLog.of(self.replicas, TRANSACTION_TOPIC, index),
            self.loader.image,
            markers=LocalMarkers(lambda: self.broker),
            take_producer_id=lambda: take_producer_id(self.broker),
        )
        self.broker = BrokerServices(
            node=self.context,
            replicas=self.replicas,
            controller=link,
            fetch_sessions=FetchSessions(world, config.max_incremental_fetch_session_cache_slots),
            groups=groups,
            transactions=transactions,
        )
        self._dispatchers["broker"] = Dispatcher(self.broker)
        self.replicas.watch(GROUP_TOPIC, groups)
        self.replicas.watch(TRANSACTION_TOPIC, transactions)
        # The logs are there before a client can learn of a partition, and the coordinators before they are asked.
        self.loader.add_publisher(self.replicas)
        self.loader.add_publisher(groups)
        self.loader.add_publisher(transactions)
        self.loader.add_publisher(self.context)
        self.loader.add_publisher(self.broker)
        self.loader.add_publisher(SnapshotGenerator(world.tasks, self.raft))
        driver = LogDriver(world, self.replicas, config)
        driver.start()
        self._closing.append(lambda: driver.stop(broker_epoch=self.broker_epoch))
        transactions.start()
        self._closing.append(transactions.close)
        self._closing.append(self.broker.close)
        self.sockets = SocketServer(self.context)
        self._closing.append(self._close_sockets)
        endpoints, controller_endpoints = self._listen()
        world.tasks.spawn(self._register_controller(link, controller_endpoints), "controller-registration")
        self.lifecycle = BrokerLifecycle(
            world,
            config,
            link,
            cluster_id=directories.cluster_id,
            endpoints=endpoints,
            log_dirs=list(directories.ids.values()),
            metadata_offset=lambda: self.loader.image.offset,
            offline_log_dirs=self._offline_log_dirs,
            previous_broker_epoch=previous_broker_epoch,
        )
        self._closing.append(self.lifecycle.shut_down)
        await self.lifecycle.register()
        await self.lifecycle.unfence()
        assignments.start(link)
        for line in unenforced_metadata(self.loader.image, config.node_id):
            log.warning("[Node %d] %s", config.node_id, line)
        # Only now: a client that asks a fenced node learns of a cluster without brokers, and librdkafka 2.16 then has
        # nobody left to ask.
        self.sockets.release()
        log.info("[Node %d] Kafka-compatible server started at %s", config.node_id, self.bootstrap_address)

    def _current_config(self) -> BrokerConfig:
        """The settings in effect."""
        return self.context.config

    def _make_raft(self) -> RaftNode:
        config = self.config
        name = config.controller_listener_names[0]
        voters = VoterSet.static(name, {voter.id: Address(voter.host, voter.port) for voter in config.quorum_voters})
        return RaftNode(
            self.world,
            config,
            config.metadata_dir,
            node_id=config.node_id,
            directory_id=self._directory_ids[config.metadata_dir],
            voters=voters,
            listeners={
                one.name: Address(one.host or self._own_name, one.port)
                for one in config.advertised_controller_listener_list
            },
            on_failure=self._on_raft_failure,
        )

    def _channel(self, name: str, *, retry_ms: int = FORWARDING_RETRY_MS) -> ControllerChannel:
        """A way to the active controller with connections of its own."""
        config = self.config
        channel = ControllerChannel(
            self.world,
            self.raft,
            name=name,
            node_id=config.node_id,
            listener_name=config.controller_listener_names[0],
            connect=self._connect,
            local=self._dispatchers.get("controller"),
            retry_ms=retry_ms,
        )
        self._closing.append(channel.close)
        return channel

    def _connect(self, node_id: int, address: Address) -> Link:
        raise NetworkException(f"Node {node_id} at {address} cannot be reached: Ottla has quorums of one node only")

    def _on_raft_failure(self, error: BaseException) -> None:
        log.critical("[Node %d] The metadata log has failed, and nothing can be changed any more: %s",
                     self.config.node_id, error)  # fmt: skip

    def _listen(self) -> tuple[list[Endpoint], list[Endpoint]]:
        """Open every listener; returns the broker's and the controller's, as others are told to reach them."""
        endpoints: list[Endpoint] = []
        controller_endpoints: list[Endpoint] = []
        for spec in self.config.listener_list:
            is_controller = spec.name in self.config.controller_listener_names
            try:
                listener = self.sockets.listen(
                    spec.name,
                    spec.host,
                    spec.port,
                    self._dispatchers["controller" if is_controller else "broker"],
                    is_held=not is_controller,
                )
            except OSError as error:
                raise CannotStart(f"Cannot listen on {spec.name}://{spec.host}:{spec.port}: {error.strerror}") from None
            if spec.name in self._advertised:
                kind = controller_endpoints if is_controller else endpoints
                kind.append(self._endpoint(spec, listener.address))
        if self.metrics_address is not None:
            try:
                self._metrics = MetricsServer.of(self.context, self.broker, self.collect_gauges)
                self._metrics.listen(self.metrics_address.host, self.metrics_address.port)
            except OSError as error:
                raise CannotStart(f"Cannot serve metrics on {self.metrics_address}: {error.strerror}") from None
        self.bootstrap_address = Address(endpoints[0].host, endpoints[0].port)
        return endpoints, controller_endpoints

    def collect_gauges(self) -> list[Gauge]:
        """What the controller and the quorum show now."""
        return [*self.controller.gauges(), *raft_gauges(self.raft)]

    def _close_sockets(self) -> None:
        self.sockets.close()
        if self._metrics is not None:
            self._metrics.close()

    async def _register_controller(self, link: ControllerLink, endpoints: Sequence[Endpoint]) -> None:
        """Tell the cluster where this controller is and what it can run with."""
        await link.send(
            ControllerRegistrationRequest(
                controller_id=self.config.node_id,
                incarnation_id=random_uuid(self.world),
                listeners=[ControllerListener(*endpoint) for endpoint in endpoints],
                features=[
                    ControllerFeature(name, low, high) for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
                ],
            ),
            version=0,
        )

    def _endpoint(self, spec: ListenerSpec, bound: Address) -> Endpoint:
        """What is advertised: the setting's address, with this host's name and the chosen port where it gives none."""
        advertised = self._advertised[spec.name]
        host, port = advertised.host or self._own_name, advertised.port or bound.port
        return Endpoint(spec.name, host, port, SECURITY_PROTOCOLS[spec.security_protocol])

    async def _look_up_own_name(self) -> str:
        """The canonical name of this host, if it is advertised; Kafka does not start where there is none."""
        nameless = [one.name for one in self._advertised.values() if not one.host]
        if not nameless:
            return ""
        try:
            found = await self.world.network.own_name(OWN_NAME_MS_MAX)
        except OSError as error:
            log.warning(
                "[Node %d] Cannot find the name of this host (%s). Advertising localhost for %s, which only clients on "
                "this host can reach: set advertised.listeners", self.config.node_id, error, ", ".join(nameless),
            )  # fmt: skip
            return "localhost"
        log.info("[Node %d] Advertising this host as %s for %s", self.config.node_id, found, ", ".join(nameless))
        return found

    def _offline_log_dirs(self) -> list[Uuid]:
        return [
            self._directory_ids[one.path]
            for one in self.replicas.logs.directories
            if one.is_offline and one.path in self._directory_ids
        ]

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

    async def stop(self) -> None:
        """A controlled shutdown: the next start needs no recovery. What was not started yet is left out."""
        if self._closing:
            log.info("[Node %d] Shutting down", self.config.node_id)
        while self._closing:
            ended = self._closing.pop()()
            if ended is not None:
                await ended
        log.info("[Node %d] Shut down completed", self.config.node_id)

    @property
    def broker_epoch(self) -> int:
        return self.lifecycle.broker_epoch if self.lifecycle is not None else -1

"""The broker role: replicas, coordinators, the listeners of clients, and the broker's membership of the cluster.

The order of `start` is the promise: the broker is registered; its metadata is caught up before a log is opened; logs
are opened while it beats, fenced; listeners take connections only when there is something to answer with; it is
unfenced before clients are served. What is started leaves `shared` what undoes it: the controller lets the broker go,
no more connections, logs closed. Made by `node`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.coordinator.group import GroupCoordinator
from ottla.coordinator.transaction import TransactionCoordinator
from ottla.metadata import Endpoint, Gauge
from ottla.node.assignments import Assignments
from ottla.node.directories import epoch_of_clean_shutdown
from ottla.node.lifecycle import BrokerLifecycle
from ottla.node.shared import Shared
from ottla.replica import IsrChanges, LogDriver, PartitionLog, ReplicaManager
from ottla.server import (
    GROUP_TOPIC,
    TRANSACTION_TOPIC,
    BrokerServices,
    Dispatcher,
    FetchSessions,
    Peers,
    RoutedMarkers,
    take_producer_id,
)
from ottla.storage import LogDir
from ottla.types import Uuid

if TYPE_CHECKING:
    from ottla.replica import FetcherManager

log = logging.getLogger(__name__)


class BrokerRole:
    """See the module."""

    def __init__(self, shared: Shared) -> None:
        """Lock the log directories, before anything is written."""
        config, world = shared.config, shared.world
        self._shared = shared
        self._assignments = Assignments(world, config.node_id, lambda: self.broker_epoch)
        self.replicas = ReplicaManager.create(
            world,
            config,
            config.node_id,
            directory_ids=shared.directories.ids,
            on_assigned=self._assignments.assign,
            on_directory_failed=self._on_directory_failed,
            on_cordoned=self._beat_soon,
        )
        self.replicas.logs.lock()
        shared.closing.append(self.replicas.logs.unlock)
        self._previous_broker_epoch = epoch_of_clean_shutdown(world, config)
        self.groups: GroupCoordinator
        self.transactions: TransactionCoordinator
        self.services: BrokerServices
        self.peers: Peers
        self.dispatcher: Dispatcher
        self.lifecycle: BrokerLifecycle | None = None

    @property
    def broker_epoch(self) -> int:
        return self.lifecycle.broker_epoch if self.lifecycle is not None else -1

    @property
    def endpoints(self) -> list[Endpoint]:
        return self._shared.listeners.endpoints(self._shared.listeners.of_broker)

    def gauges(self) -> list[Gauge]:
        """What this broker's way to the controller shows now."""
        image = self._shared.loader.image
        loaded = "kafka.server:type=broker-metadata-metrics,name=last-applied-record-"
        return [
            Gauge(f"{loaded}offset", image.offset),
            Gauge(f"{loaded}timestamp", image.timestamp_ms),
            Gauge(f"{loaded}lag-ms", self._shared.world.clock.now_ms() - image.timestamp_ms),
            Gauge("kafka.server:type=AssignmentsManager,name=QueuedReplicaToDirAssignments", len(self._assignments)),
        ]

    def compose(self) -> None:
        """Put the services together; nothing is opened yet."""
        shared = self._shared
        config, world, context = shared.config, shared.world, shared.context
        self.groups = GroupCoordinator(
            world,
            config.node_id,
            lambda: context.config,
            lambda index: PartitionLog.of(self.replicas, GROUP_TOPIC, index),
            shared.loader.image,
        )
        self.transactions = TransactionCoordinator(
            world,
            config.node_id,
            lambda: context.config,
            lambda index: PartitionLog.of(self.replicas, TRANSACTION_TOPIC, index),
            shared.loader.image,
            markers=RoutedMarkers(lambda: self.services),
            take_producer_id=lambda: take_producer_id(self.services),
        )
        self.peers = Peers(context)
        shared.closing.append(self.peers.close)
        self.services = BrokerServices(
            node=context,
            replicas=self.replicas,
            controller=shared.channel("forwarding"),
            peers=self.peers,
            fetch_sessions=FetchSessions(world, config.max_incremental_fetch_session_cache_slots),
            groups=self.groups,
            transactions=self.transactions,
        )
        self.dispatcher = Dispatcher(self.services)
        self.replicas.isr_changes = isr_changes = IsrChanges(
            world, shared.channel("alter-partition"), config.node_id, lambda: self.broker_epoch
        )
        shared.closing.append(isr_changes.stop)
        self.replicas.make_fetchers = self._make_fetchers
        self.replicas.watch(GROUP_TOPIC, self.groups)
        self.replicas.watch(TRANSACTION_TOPIC, self.transactions)

    def _make_fetchers(self) -> FetcherManager:
        from ottla.replica import FetcherManager, FetcherSettings  # a broker alone has no use for them

        config = self._shared.config
        return FetcherManager(
            self._shared.world,
            self.replicas,
            self.peers,
            FetcherSettings.of(config),
            broker_epoch=lambda: self.broker_epoch,
            fetcher_count=self.replicas.topic_configs.broker.num_replica_fetchers,
            timeout_ms=config.replica_socket_timeout_ms,
        )

    async def start(self) -> None:
        """Return when clients can be served."""
        shared = self._shared
        self.compose()
        self._listen(only_chosen_ports=True)
        self.lifecycle = lifecycle = self._make_lifecycle()
        shared.closing.append(lifecycle.shut_down)
        await lifecycle.register()
        await lifecycle.catch_up()
        await self._open_logs()
        shared.closing.append(shared.sockets.close)  # before the logs are, which requests need
        self._listen()
        await lifecycle.unfence()
        self._assignments.start(shared.channel("directory-assignments"))
        shared.closing.append(lifecycle.shut_down)  # again, and now the first: the others must be able to take over

    def serve(self) -> None:
        """Let clients in.

        Only now: one that asks a fenced node learns of a cluster without brokers, and librdkafka 2.16 then has nobody
        left to ask.
        """
        self._shared.sockets.release()

    def _make_lifecycle(self) -> BrokerLifecycle:
        shared = self._shared
        config = shared.config
        return BrokerLifecycle(
            shared.world,
            config,
            # Beats must not wait behind other requests, and one that is late is of no use.
            shared.channel("heartbeat", retry_ms=config.broker_heartbeat_interval_ms),
            cluster_id=shared.directories.cluster_id,
            endpoints=self.endpoints,
            log_dirs=[shared.directories.ids[path] for path in self._log_dirs],
            metadata_offset=lambda: shared.loader.image.offset,
            offline_log_dirs=self._offline_log_dirs,
            cordoned_log_dirs=self._cordoned_log_dirs,
            has_no_quorum=lambda: shared.raft.is_deserted,
            previous_broker_epoch=self._previous_broker_epoch,
        )

    async def _open_logs(self) -> None:
        """Open what is on the disks, then let the metadata say what becomes of it."""
        shared = self._shared
        loader = shared.loader
        shared.closing.append(self.replicas.logs.stop_loading)
        await self.replicas.open_logs(loader.image)
        # The logs are there before a client can learn of a partition, and the coordinators before they are asked. Other
        # brokers are where this image says before anything is asked of them.
        publishers = (self.peers, self.replicas, self.groups, self.transactions, self.services)
        for publisher in publishers:
            loader.add_publisher(publisher)
        driver = LogDriver(shared.world, self.replicas, shared.config)
        driver.start()

        async def close_logs() -> None:
            await driver.stop(broker_epoch=self.broker_epoch)

        def hold_still() -> None:
            """End whoever changes the logs or has them read: the metadata, by new leaders, and the fetchers."""
            for publisher in publishers:
                loader.remove_publisher(publisher)
            self.replicas.make_fetchers = None
            if self.replicas.fetchers is not None:
                self.replicas.fetchers.stop()

        shared.closing.append(close_logs)
        self.transactions.start()
        shared.closing.append(self.transactions.close)
        shared.closing.append(self.services.close)
        # Before the coordinators end, too: nodes that stop together make each other leaders, and a coordinator that is
        # named after its end would load from a log that is being closed.
        shared.closing.append(hold_still)

    def _listen(self, *, only_chosen_ports: bool = False) -> None:
        """Open the listeners: those without a port of their own before the controller is told of them, the others when
        there is something to answer with, as clients are better refused than left waiting."""
        shared = self._shared
        for spec in shared.listeners.of_broker:
            if not (only_chosen_ports and spec.port):
                shared.listeners.open(shared.sockets, spec, self.dispatcher, is_held=True)

    @property
    def _log_dirs(self) -> list[str]:
        return [path for path in self._shared.directories.ids if path in self._shared.config.log_dir_list]

    def _offline_log_dirs(self) -> list[Uuid]:
        return self._ids_of(one for one in self.replicas.logs.directories if one.is_offline)

    def _cordoned_log_dirs(self) -> list[Uuid]:
        return self._ids_of(one for one in self.replicas.logs.directories if one.path in self.replicas.cordoned)

    def _ids_of(self, directories: Iterable[LogDir]) -> list[Uuid]:
        ids = self._shared.directories.ids
        return [ids[one.path] for one in directories if one.path in ids]

    def _beat_soon(self) -> None:
        if self.lifecycle is not None:
            self.lifecycle.beat_soon()

    def _on_directory_failed(self, directory: LogDir) -> None:
        """The controller moves what was led there, when it hears of it. A broker that cannot tell must not go on as the
        leader of what it has lost."""
        shared, logs = self._shared, self.replicas.logs
        if not logs.live_directories:
            shared.fail(f"All log directories have failed: {', '.join(one.path for one in logs.directories)}")
        elif directory.path == shared.config.metadata_dir:
            shared.fail(f"The directory of the metadata log has failed: {directory.path}")
        elif directory.path in shared.directories.ids:
            self._beat_soon()
            timeout_ms = shared.config.log_dir_failure_timeout_ms
            timer = shared.world.tasks.later(timeout_ms, lambda: self._check_told(directory))
            shared.closing.append(timer.cancel)

    def _check_told(self, directory: LogDir) -> None:
        told = frozenset() if self.lifecycle is None else self.lifecycle.told_offline
        if self._shared.directories.ids[directory.path] not in told:
            self._shared.fail(f"The controller could not be told in time that {directory.path} has failed")

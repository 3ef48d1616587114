"""`Shared`: what every node has, whatever its roles: directories, the metadata log, the image, sockets, metrics.

Promises: the directories are checked before anything is written; a metadata directory that no log manager locks is
locked here. Leadership and `kraft.version` are read from raft when they are needed. What was started is undone by
`stop`, the last first. Made by `node`; the roles stand on it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from ottla.config import BrokerConfig
from ottla.metadata import ImageLoader, SnapshotGenerator
from ottla.net import ReceiveBuffer
from ottla.node.controller_channel import FORWARDING_RETRY_MS, ControllerChannel, LeaderLink
from ottla.node.directories import CannotStart, Directories, check_directories
from ottla.node.listeners import Listeners
from ottla.raft import LinkChannel, RaftNode, VoterSet
from ottla.server import Dispatcher, NodeContext, SocketServer
from ottla.world import Address, NodeWorld, Promise

log = logging.getLogger(__name__)

LOCK = ".lock"
RECONNECT_MS = 50
"""How long a controller that could not be reached is left alone; Kafka's for these connections."""


class Shared:
    """See the module."""

    def __init__(self, config: BrokerConfig, world: NodeWorld) -> None:
        self.config = config
        self.world = world
        self.listeners = Listeners(config)
        self.directories: Directories
        self.loader: ImageLoader
        self.raft: RaftNode
        self.context: NodeContext
        self.sockets: SocketServer
        self.controller_dispatcher: Dispatcher | None = None
        """What this node's controller serves, if it has one."""
        self._receive_buffer: ReceiveBuffer | None = None
        self.closing: list[Callable[[], Awaitable[None] | None]] = []
        """How to undo what was started, the last first."""
        self.failure: str | None = None
        """Why this node cannot go on; see `fail`."""
        self._failed: Promise[None] | None = None

    def check(self) -> None:
        """Read what the directories say; `CannotStart` unless they agree with each other and with the settings."""
        self.directories = check_directories(self.world, self.config)
        if not self.config.is_broker or self.config.metadata_dir not in self.config.log_dir_list:
            self._lock_metadata_dir()

    async def prepare(self) -> None:
        """Put together what needs no other node: nothing is read of the metadata log yet."""
        config, world = self.config, self.world
        await self.listeners.look_up_own_name(world)
        self.loader = ImageLoader(self.directories.cluster_id)
        self.raft = self._make_raft()
        self.context = NodeContext(
            config=config,
            world=world,
            node_id=config.node_id,
            cluster_id=self.directories.cluster_id,
            image=self.loader.image,
            quorum=self.raft,
        )
        self.loader.add_publisher(self.context)
        # The image is newer than what the controller has answered: whoever asks for what was just made finds it.
        self.raft.subscribe(self.loader)
        self.closing.append(self.raft.stop)
        self.sockets = SocketServer(self.context)
        self.closing.append(self.sockets.close)

    async def start_raft(self) -> None:
        """Follow the metadata log from here on; return when this node has all that is committed."""
        await self.raft.start()
        await self.raft.until_caught_up()
        self.loader.add_publisher(SnapshotGenerator(self.world.tasks, self.raft))

    def channel(self, name: str, *, retry_ms: int = FORWARDING_RETRY_MS) -> ControllerChannel:
        """A way to the active controller, with connections of its own."""
        config = self.config
        channel = ControllerChannel(
            self.world,
            self.raft,
            name=name,
            node_id=config.node_id,
            listener_name=config.controller_listener_names[0],
            connect=self._connect,
            local=self.controller_dispatcher,
            retry_ms=retry_ms,
            request_timeout_ms=config.controller_socket_timeout_ms,
        )
        self.closing.append(channel.close)
        return channel

    async def stop(self) -> None:
        """Undo what was started."""
        while self.closing:
            ended = self.closing.pop()()
            if ended is not None:
                await ended

    def fail(self, reason: str) -> None:
        """This node cannot be what it is any more: whoever runs it has to end it."""
        if self.failure is None:
            self.failure = reason
            log.critical("[Node %d] This node cannot go on. %s", self.config.node_id, reason)
            if self._failed is not None and not self._failed.done():
                self._failed.set_result(None)

    async def until_failed(self) -> str:
        """Return when `fail` is called, with the reason."""
        while self.failure is None:
            self._failed = self.world.tasks.promise()
            await self._failed
        return self.failure

    def _connect(self, node_id: int, address: Address) -> LeaderLink:
        from ottla.net import Link, LinkSettings  # a node whose own controller leads has no use for them

        if self._receive_buffer is None:
            self._receive_buffer = ReceiveBuffer(hands_over=True)
        settings = LinkSettings(
            str(self.config.node_id),
            connect_timeout_ms=self.config.socket_connection_setup_timeout_ms,
            connect_timeout_max_ms=self.config.socket_connection_setup_timeout_max_ms,
            reconnect_backoff_ms=RECONNECT_MS,
            reconnect_backoff_max_ms=RECONNECT_MS,
            idle_ms=-1,
        )
        return Link(
            self.world,
            address,
            settings,
            subject=f"NodeToControllerChannelManager id={self.config.node_id}",
            node_id=node_id,
            receive_buffer=self._receive_buffer,
        )

    def _lock_metadata_dir(self) -> None:
        path = f"{self.config.metadata_dir}/{LOCK}"
        try:
            lock = self.world.disk.lock(path)
        except BlockingIOError:
            message = f"Failed to acquire lock on file {path}. Another process is using this directory."
            raise CannotStart(message) from None
        self.closing.append(lock.release)

    def _make_raft(self) -> RaftNode:
        config = self.config
        name = config.controller_listener_names[0]
        voters = VoterSet.static(name, {voter.id: Address(voter.host, voter.port) for voter in config.quorum_voters})
        channel = LinkChannel(
            self.world, node_id=config.node_id, connect_timeout_ms=config.controller_quorum_request_timeout_ms
        )
        self.closing.append(channel.close)  # after raft has stopped
        return RaftNode(
            self.world,
            config,
            config.metadata_dir,
            node_id=config.node_id,
            directory_id=self.directories.ids[config.metadata_dir],
            voters=voters,
            listeners=self.listeners.voter_addresses,
            cluster_id=self.directories.cluster_id,
            listener_name=name,
            bootstrap=[Address(*one) for one in config.quorum_bootstrap],
            channel=channel,
            can_become_voter=config.is_controller,
            on_failure=self._on_raft_failure,
        )

    def _on_raft_failure(self, error: BaseException) -> None:
        self.fail(f"The metadata log has failed: {error}")

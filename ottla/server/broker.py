"""`BrokerServices`: what the handlers of a broker's listeners work with, gathered by the composition root."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol

from ottla.coordinator.group import GroupCoordinator
from ottla.coordinator.transaction import TransactionCoordinator
from ottla.metadata import Delta, Image
from ottla.replica import ReplicaManager
from ottla.server.broker_requests import PeerLink
from ottla.server.fetch_session import FetchSessions
from ottla.server.node_context import NodeContext
from ottla.server.topic_creation import SHARE_TOPIC, TopicCreation
from ottla.wire import Message

if TYPE_CHECKING:
    from ottla.server.context import RequestContext
    from ottla.server.share import ShareService
    from ottla.server.transaction_membership import TransactionMembership


class ControllerLink(Protocol):
    """The way to the active controller, in this process or elsewhere."""

    def send(self, request: Message, *, version: int) -> Awaitable[Message]:
        """The controller's answer to a request of this node itself; `KafkaError` when there is none in time."""
        ...

    def forward(self, context: RequestContext, request: Message) -> Awaitable[Message]:
        """The controller's answer to a client's request, in the client's name and version (KIP-590)."""
        ...


class BrokerServices:
    """The services of the broker role. What it shares with the controller role is in `node`."""

    __slots__ = (
        "_membership", "_share", "controller", "fetch_sessions", "groups", "node", "peers", "replicas",
        "topic_creation", "transactions",
    )  # fmt: skip

    def __init__(
        self,
        node: NodeContext,
        replicas: ReplicaManager,
        controller: ControllerLink,
        peers: PeerLink,
        fetch_sessions: FetchSessions,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
    ) -> None:
        self.node = node
        self.replicas = replicas
        self.controller = controller
        self.peers = peers
        self.fetch_sessions = fetch_sessions
        self.groups = groups
        self.transactions = transactions
        self.topic_creation = TopicCreation(self)
        self._share: ShareService | None = None
        self._membership: TransactionMembership | None = None

    @property
    def share(self) -> ShareService:
        """What share groups need, made when it is first asked for: most nodes have none."""
        if self._share is None:
            from ottla.server.share import ShareService  # it would make every start slower

            self._share = ShareService(self)
        return self._share

    @property
    def membership(self) -> TransactionMembership:
        """The way to transaction coordinators, made when it is first asked for: most producers have no transactions."""
        if self._membership is None:
            from ottla.server.transaction_membership import TransactionMembership

            self._membership = TransactionMembership(self)
        return self._membership

    def close(self) -> None:
        """End what was made along the way; the composition root ends what it has made itself."""
        if self._share is not None:
            self._share.close()

    def on_metadata(self, delta: Delta, image: Image) -> None:
        """A metadata publisher: share groups begin when their topic is there."""
        if self._share is not None or SHARE_TOPIC in image.topics.by_name:
            self.share.on_metadata(delta, image)

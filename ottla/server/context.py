"""What a handler is told besides the request: who asks, over which connection, and in which version."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.server.principal import ANONYMOUS, Principal
from ottla.world import Address

if TYPE_CHECKING:
    from ottla.server.broker import BrokerServices
    from ottla.server.controller_services import ControllerServices
    from ottla.server.dispatch import Dispatcher
    from ottla.server.node_context import NodeContext


class CloseConnection(Exception):
    """Raised by a handler to end the connection instead of answering: an error of a request that wants no answer."""


class Connection:
    """What is known of one connection for as long as it lives."""

    __slots__ = (
        "_when_closed",
        "dispatcher",
        "is_closed",
        "listener_name",
        "peer",
        "principal",
        "software_name",
        "software_version",
    )

    def __init__(
        self, dispatcher: Dispatcher, listener_name: str, peer: Address, principal: Principal = ANONYMOUS
    ) -> None:
        self.dispatcher = dispatcher
        """What the listener serves."""
        self.listener_name = listener_name
        self.peer = peer
        self.principal = principal
        self.software_name = "unknown"
        """Told by the client in ApiVersions (KIP-511), as is the version."""
        self.software_version = "unknown"
        self.is_closed = False
        self._when_closed: dict[Callable[[], object], None] = {}

    def when_closed(self, call: Callable[[], object]) -> None:
        """Call once when the connection is gone: a request that waits may be given up then."""
        self._when_closed[call] = None

    def forget(self, call: Callable[[], object]) -> None:
        """Take `when_closed` back; nothing happens when it was not asked for."""
        self._when_closed.pop(call, None)

    def close(self) -> None:
        """Told by the session, once."""
        self.is_closed = True
        calls, self._when_closed = self._when_closed, {}
        for call in calls:
            call()


class RequestContext:
    """One request's circumstances, whichever role serves it. It may be kept for as long as the request is."""

    __slots__ = ("client_id", "connection", "correlation_id", "node", "version")

    version: int
    correlation_id: int
    client_id: str | None
    connection: Connection
    node: NodeContext

    @property
    def listener_name(self) -> str:
        return self.connection.listener_name

    @property
    def peer(self) -> Address:
        return self.connection.peer

    @property
    def principal(self) -> Principal:
        """Who asks: of a forwarded request the client, not the broker that passed it on."""
        return self.connection.principal


class BrokerContext(RequestContext):
    """A request at a broker's listener, with the services of the broker role."""

    __slots__ = ("broker",)

    def __init__(
        self,
        version: int,
        correlation_id: int,
        client_id: str | None,
        connection: Connection,
        node: NodeContext,
        broker: BrokerServices,
    ) -> None:
        # Each role's is written out: a call of a common one would be paid by every request.
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.connection = connection
        self.node = node
        self.broker = broker


class ControllerContext(RequestContext):
    """A request at a controller's listener, or forwarded to one, with the services of the controller role."""

    __slots__ = ("controller",)

    def __init__(
        self,
        version: int,
        correlation_id: int,
        client_id: str | None,
        connection: Connection,
        node: NodeContext,
        controller: ControllerServices,
    ) -> None:
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.connection = connection
        self.node = node
        self.controller = controller

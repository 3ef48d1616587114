"""What a handler is told besides the request: who asks, over which connection, in which version, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.world import Address

if TYPE_CHECKING:
    from ottla.server.broker import Broker

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a connection that need not say who it is."""


class CloseConnection(Exception):
    """Raised by a handler to end the connection instead of answering: an error of a request that wants no answer."""


class Connection:
    """What is known of one connection for as long as it lives."""

    __slots__ = (
        "_when_closed",
        "is_closed",
        "listener_name",
        "peer",
        "principal",
        "role",
        "software_name",
        "software_version",
    )

    def __init__(self, role: str, listener_name: str, peer: Address, principal: str = ANONYMOUS) -> None:
        self.role = role
        """Of the listener: `broker` or `controller`."""
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
    """One request's circumstances. It may be kept for as long as the request is."""

    __slots__ = ("api_key", "broker", "client_id", "connection", "correlation_id", "now_ms", "version")

    def __init__(
        self,
        api_key: int,
        version: int,
        correlation_id: int,
        client_id: str | None,
        connection: Connection,
        broker: Broker,
        now_ms: int,
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.connection = connection
        self.broker = broker
        self.now_ms = now_ms
        """Wall-clock time of the wake-up that brought the request."""

    @property
    def listener_name(self) -> str:
        return self.connection.listener_name

    @property
    def peer(self) -> Address:
        return self.connection.peer

    @property
    def principal(self) -> str:
        return self.connection.principal

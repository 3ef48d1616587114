"""How requests of the quorum reach other nodes: over `ottla.net.Link`s, or in tests as tests like it.

Promises of `LinkChannel`: a node has one connection for what is asked of it at once, votes and epochs, and one for
fetches, which may be kept waiting: a connection is served in turn, and an election must not wait for a fetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.wire import Message
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest
from ottla.world import Address, NodeWorld, Promise

if TYPE_CHECKING:
    from ottla.net import Link

RECONNECT_BACKOFF_MS = 50
RECONNECT_BACKOFF_MS_MAX = 500
"""Kafka's for the connections of its quorum: a node that comes back is found soon."""


class RaftChannel(Protocol):
    """Sends a request in the newest version that both sides know.

    The promise gets the response, or an exception when none will come: `UnsupportedVersion` where the other knows no
    version that the request can be sent in, any other for a connection that failed or was too slow.
    """

    def send(self, node_id: int, address: Address, request: Message, timeout_ms: float) -> Promise[Message]:
        """`node_id` is below -1 for a bootstrap server, whose id is not known."""
        ...


class LinkChannel:
    """A `RaftChannel`; see the module."""

    def __init__(self, world: NodeWorld, *, node_id: int, connect_timeout_ms: int) -> None:
        self._world = world
        self._own_id = node_id
        self._connect_timeout_ms = connect_timeout_ms
        self._links: dict[tuple[int, bool], Link] = {}
        """By node, and whether it is for fetches. At most two for each voter and bootstrap server."""

    def send(self, node_id: int, address: Address, request: Message, timeout_ms: float) -> Promise[Message]:
        key = (node_id, isinstance(request, FetchRequest | FetchSnapshotRequest))
        link = self._links.get(key)
        if link is None or link.address != address:
            if link is not None:
                link.close()
            link = self._links[key] = self._link(node_id, address)
        return link.send(request, timeout_ms=timeout_ms)

    def close(self) -> None:
        """Disconnect from everybody; who waits is told."""
        links, self._links = self._links, {}
        for link in links.values():
            link.close()

    def _link(self, node_id: int, address: Address) -> Link:
        from ottla.net import Link, LinkSettings  # a quorum of one has no use for them

        settings = LinkSettings(
            f"raft-client-{self._own_id}",
            connect_timeout_ms=self._connect_timeout_ms,
            connect_timeout_max_ms=self._connect_timeout_ms,
            reconnect_backoff_ms=RECONNECT_BACKOFF_MS,
            reconnect_backoff_max_ms=RECONNECT_BACKOFF_MS_MAX,
        )
        return Link(self._world, address, settings, subject=f"RaftManager id={self._own_id}", node_id=node_id)

"""How requests of the quorum reach other nodes."""

from __future__ import annotations

from typing import Protocol

from ottla.wire import Message
from ottla.world import Address, Promise


class RaftChannel(Protocol):
    """Sends a request in the newest version that both sides know.

    The promise gets the response, or an exception when none will come: `UnsupportedVersion` where the other knows no
    version that the request can be sent in, any other for a connection that failed or was too slow.
    """

    def send(self, node_id: int, address: Address, request: Message, timeout_ms: float) -> Promise[Message]:
        """`node_id` is below -1 for a bootstrap server, whose id is not known."""
        ...

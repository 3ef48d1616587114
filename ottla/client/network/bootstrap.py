"""Whether the addresses in `bootstrap.servers` can be reached, as long as nobody ever was.

A client that cannot reach its first broker waits, as Kafka's clients do, because a broker may be about to start. Here
is what it says meanwhile: which addresses were tried, and what became of each. With `bootstrap.connect.timeout.ms` it
also says when to stop waiting. Promises: nothing here matters any more once any broker was reached, so a cluster that
restarts under a client that knew it is waited for. Called by `network_client`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.client.errors import BootstrapFailed
from ottla.client.network.cluster import Node
from ottla.errors import KafkaError, NetworkException


class Bootstrap:
    """The first contact of one client with its cluster."""

    def __init__(self, nodes: Mapping[int, Node], timeout_ms: int, now_ms: Callable[[], int]) -> None:
        self.nodes = dict(nodes)
        """The addresses, under ids below 0."""
        self._timeout_ms = timeout_ms
        self._now_ms = now_ms
        self._begun_ms: int | None = None
        self._reasons: dict[int, str] = {}
        self._is_reached = False

    def begin(self) -> None:
        """A connection is about to be tried."""
        if self._begun_ms is None:
            self._begun_ms = self._now_ms()

    def reached(self) -> None:
        """A broker has answered, be it one of these or another."""
        self._is_reached = True
        self._reasons.clear()

    def failed(self, node_id: int, reason: str, error: NetworkException) -> KafkaError:
        """An attempt to connect to `node_id` has come to nothing; what to tell those who wait for it."""
        if self._is_reached or node_id not in self.nodes:
            return error
        self._reasons[node_id] = reason
        unreachable = self.unreachable
        if unreachable is None:
            return error
        waited_ms = self._now_ms() - (self._begun_ms or 0)
        if 0 <= self._timeout_ms <= waited_ms:
            return BootstrapFailed(f"{waited_ms / 1000:.0f} s passed; {unreachable}")
        return NetworkException(unreachable)

    @property
    def unreachable(self) -> str | None:
        """Which addresses were tried in vain, and why; None while one of them is untried, or once any was reached."""
        if self._is_reached or len(self._reasons) < len(self.nodes):
            return None
        tried = (f"{node.host}:{node.port}: {self._reasons[node_id]}" for node_id, node in self.nodes.items())
        return f"no bootstrap broker could be reached: {', '.join(tried)}"

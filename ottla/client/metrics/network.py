"""The network's metrics of one client: connections, requests, bytes, for all brokers and for each."""

from __future__ import annotations

from ottla.client.metrics.metrics import Metrics
from ottla.client.metrics.series import Series

NODES_MAX = 1000
"""How many brokers have metrics of their own; a client that meets more of them forgets the first."""


class NetworkMetrics:
    """Told by the connections. `kind` is `producer`, `consumer` or `admin-client`."""

    def __init__(self, metrics: Metrics, kind: str) -> None:
        self._metrics = metrics
        self._node_group = f"{kind}-node-metrics"
        self._opened = metrics.series()
        self._closed = metrics.series()
        self._io = metrics.series()
        self._sent = metrics.series()
        self._received = metrics.series()
        self._nodes: dict[int, _NodeMetrics] = {}
        group = f"{kind}-metrics"
        metrics.add(group, "connection-count", lambda now_ms: self._opened.count - self._closed.count)
        metrics.add_counter(self._opened, group, "connection-creation")
        metrics.add_counter(self._closed, group, "connection-close")
        metrics.add_counter(self._io, group, "network-io")
        metrics.add_meter(self._sent, group, "outgoing-byte")
        metrics.add_counter(self._sent, group, "request")
        metrics.add_average(self._sent, group, "request-size")
        metrics.add_meter(self._received, group, "incoming-byte")
        metrics.add_counter(self._received, group, "response")

    def opened(self) -> None:
        """A connection was made."""
        self._opened.record(1, self._metrics.clock_ms())

    def closed(self) -> None:
        """A connection that was made has ended."""
        self._closed.record(1, self._metrics.clock_ms())

    def sent(self, node_id: int, size: int) -> None:
        """A request of this many bytes was sent."""
        now_ms = self._metrics.clock_ms()
        self._sent.record(size, now_ms)
        self._io.record(1, now_ms)
        self._node(node_id).sent.record(size, now_ms)

    def received(self, node_id: int, size: int, latency_ms: float) -> None:
        """A response of this many bytes came, so long after its request."""
        now_ms = self._metrics.clock_ms()
        self._received.record(size, now_ms)
        self._io.record(1, now_ms)
        node = self._node(node_id)
        node.received.record(size, now_ms)
        node.latency.record(latency_ms, now_ms)

    def _node(self, node_id: int) -> _NodeMetrics:
        node = self._nodes.get(node_id)
        if node is None:
            while len(self._nodes) >= NODES_MAX:
                gone = next(iter(self._nodes))
                del self._nodes[gone]
                self._metrics.remove(self._node_group, {"node-id": f"node-{gone}"})
            node = self._nodes[node_id] = _NodeMetrics(self._metrics, self._node_group, node_id)
        return node


class _NodeMetrics:
    """The same of one broker, and how long its answers take."""

    __slots__ = ("latency", "received", "sent")

    def __init__(self, metrics: Metrics, group: str, node_id: int) -> None:
        self.sent: Series = metrics.series()
        self.received: Series = metrics.series()
        self.latency: Series = metrics.series()
        tags = {"node-id": f"node-{node_id}"}
        metrics.add_meter(self.sent, group, "outgoing-byte", tags)
        metrics.add_counter(self.sent, group, "request", tags)
        metrics.add_average(self.sent, group, "request-size", tags)
        metrics.add_meter(self.received, group, "incoming-byte", tags)
        metrics.add_counter(self.received, group, "response", tags)
        metrics.add_average(self.latency, group, "request-latency", tags)

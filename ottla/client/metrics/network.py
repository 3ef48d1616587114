"""The network's metrics of one client: connections, requests, bytes, for all brokers and for each.

What a connection sees is added up where it is seen, in a few numbers of its broker, and goes into the series once in
`SLOT_MS` and before anybody looks: a request and its response cost less than a microsecond together, where seven series
for each would cost three. Promises: counts, sums and maxima are exact; rates and averages are Kafka's, with every event
at the time its slot began. Told by `ottla.client.network`.
"""

from __future__ import annotations

from math import inf

from ottla.client.metrics.metrics import Metrics

NODES_MAX = 1000
"""How many brokers have metrics of their own; a client that meets more forgets one that it is not connected to."""
SLOT_MS = 1000
COORDINATOR_BASE = 0x7FFF_FFFF
"""Kafka's consumers have a second connection to the broker that coordinates their group, under this less its id."""


class NetworkMetrics:
    """All connections of a client. `kind` is `producer`, `consumer` or `admin-client`."""

    def __init__(self, metrics: Metrics, kind: str) -> None:
        self.metrics = metrics
        self.node_group = f"{kind}-node-metrics"
        self.opened = metrics.series()
        self.closed = metrics.series()
        self.slot_end_ms = -inf
        """An event at this time or later begins a slot."""
        self._slot_ms = -inf
        self._has_coordinator_nodes = kind == "consumer"
        self._io = metrics.series()
        self._sent = metrics.series()
        self._received = metrics.series()
        self._nodes: dict[int, NodeMetrics] = {}
        group = f"{kind}-metrics"
        metrics.add(group, "connection-count", lambda now_ms: self.opened.count - self.closed.count)
        metrics.add_counter(self.opened, group, "connection-creation")
        metrics.add_counter(self.closed, group, "connection-close")
        metrics.add_counter(self._io, group, "network-io")
        metrics.add_meter(self._sent, group, "outgoing-byte")
        metrics.add_counter(self._sent, group, "request")
        metrics.add_average(self._sent, group, "request-size")
        metrics.add_meter(self._received, group, "incoming-byte")
        metrics.add_counter(self._received, group, "response")
        metrics.before_snapshot.append(self._end_slot)

    def node(self, node_id: int, *, is_coordinator: bool = False) -> NodeMetrics:
        """What connections to one broker tell."""
        if is_coordinator and self._has_coordinator_nodes:
            node_id = COORDINATOR_BASE - node_id
        node = self._nodes.get(node_id)
        if node is None:
            if len(self._nodes) >= NODES_MAX:
                self._forget_one()
            node = self._nodes[node_id] = NodeMetrics(self, node_id)
        return node

    def _forget_one(self) -> None:
        for node_id, node in self._nodes.items():
            if not node.connection_count:
                self._end_slot()
                del self._nodes[node_id]
                self.metrics.remove(self.node_group, node.tags)
                return

    def begin_slot(self, now_ms: float) -> None:
        self._end_slot()
        self._slot_ms = now_ms
        self.slot_end_ms = now_ms + SLOT_MS

    def _end_slot(self) -> None:
        """Have everything in the series that was seen since the slot began."""
        self.slot_end_ms = -inf
        at_ms = self._slot_ms
        for node in self._nodes.values():
            if node.requests:
                for series in (self._sent, node.sent):
                    series.record_many(node.requests, node.request_bytes, node.request_largest, at_ms)
            if node.responses:
                for series in (self._received, node.received):
                    series.record_many(node.responses, node.response_bytes, node.response_largest, at_ms)
                node.latency.record_many(node.responses, node.latency_ms, node.latency_largest, at_ms)
            if node.requests or node.responses:
                self._io.record_many(node.requests + node.responses, 0, 0, at_ms)
                node.clear()


class NodeMetrics:
    """One broker: told by the connections to it, which are more than one where lanes are."""

    __slots__ = (
        "_all",
        "_clock_ms",
        "connection_count",
        "latency",
        "latency_largest",
        "latency_ms",
        "received",
        "request_bytes",
        "request_largest",
        "requests",
        "response_bytes",
        "response_largest",
        "responses",
        "sent",
        "tags",
    )

    def __init__(self, all_nodes: NetworkMetrics, node_id: int) -> None:
        self._all = all_nodes
        metrics = all_nodes.metrics
        self._clock_ms = metrics.clock_ms
        self.connection_count = 0
        self.sent = metrics.series()
        self.received = metrics.series()
        self.latency = metrics.series()
        self.clear()
        group = all_nodes.node_group
        tags = self.tags = {"node-id": f"node-{node_id}"}
        metrics.add_meter(self.sent, group, "outgoing-byte", tags)
        metrics.add_counter(self.sent, group, "request", tags)
        metrics.add_average(self.sent, group, "request-size", tags)
        metrics.add_meter(self.received, group, "incoming-byte", tags)
        metrics.add_counter(self.received, group, "response", tags)
        metrics.add_average(self.latency, group, "request-latency", tags)

    def clear(self) -> None:
        """Begin again to add up."""
        self.requests = self.request_bytes = self.request_largest = 0
        self.responses = self.response_bytes = self.response_largest = 0
        self.latency_ms = self.latency_largest = 0.0

    def opened(self) -> None:
        """A connection was made."""
        self.connection_count += 1
        self._all.opened.record(1, self._clock_ms())

    def closed(self) -> None:
        """A connection that was made has ended."""
        self.connection_count -= 1
        self._all.closed.record(1, self._clock_ms())

    def sent_request(self, size: int, now_ms: float) -> None:
        """A request of this many bytes goes out."""
        if now_ms >= self._all.slot_end_ms:
            self._all.begin_slot(now_ms)
        self.requests += 1
        self.request_bytes += size
        if size > self.request_largest:
            self.request_largest = size

    def received_response(self, size: int, sent_ms: float, now_ms: float) -> None:
        """A response of this many bytes came to a request of that time."""
        if now_ms >= self._all.slot_end_ms:
            self._all.begin_slot(now_ms)
        self.responses += 1
        self.response_bytes += size
        if size > self.response_largest:
            self.response_largest = size
        latency_ms = now_ms - sent_ms
        self.latency_ms += latency_ms
        if latency_ms > self.latency_largest:
            self.latency_largest = latency_ms

"""The connections of an admin: each request is tried on the wire's codec before it is sent, and counted.

Promises: a value that the wire cannot carry, such as a number for a name, is the call's error and not the connection's;
`metrics` has Kafka's names.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ottla.client.config import AdminConfig
from ottla.client.metrics import Metrics, Series
from ottla.client.network import MAIN, Build, NetworkClient, Request
from ottla.errors import InvalidRequest
from ottla.wire import EncodeError, Message, encode
from ottla.world import ClientWorld, Promise

GROUP = "admin-client-metrics"
NODE_GROUP = "admin-client-node-metrics"


class AdminNetwork(NetworkClient):
    """A `NetworkClient` that checks and counts."""

    def __init__(self, world: ClientWorld, config: AdminConfig, *, name: str) -> None:
        super().__init__(world, config, name=name)
        self.metrics = Metrics(
            config.client_id,
            world.clock.monotonic_ms,
            window_ms=config.metrics_sample_window_ms,
            window_count=config.metrics_num_samples,
        )
        self._sent, self._received = self.metrics.series(), self.metrics.series()
        self._latencies: dict[int, Series] = {}
        self.metrics.add(GROUP, "connection-count", lambda now_ms: sum(map(self.is_ready, self.nodes)))
        self.metrics.add_counter(self._sent, GROUP, "request")
        self.metrics.add_counter(self._received, GROUP, "response")

    def send(
        self, node_id: int, request: Request, *, timeout_ms: float | None = None, lane: str = MAIN
    ) -> Promise[Any]:
        clock = self.world.clock
        sent_ms = clock.monotonic_ms()
        self._sent.record(1, sent_ms)
        promise = super().send(node_id, _checked(request), timeout_ms=timeout_ms, lane=lane)

        def answered(done: Any) -> None:
            if done.cancelled() or done.exception() is not None:
                return
            now_ms = clock.monotonic_ms()
            self._received.record(1, now_ms)
            self._latency(node_id).record(now_ms - sent_ms, now_ms)

        promise.add_done_callback(answered)
        return promise

    def _latency(self, node_id: int) -> Series:
        """Of one node; a cluster has few enough of them to keep all."""
        series = self._latencies.get(node_id)
        if series is None:
            series = self._latencies[node_id] = self.metrics.series()
            tags = {"node-id": f"node-{node_id}"}
            self.metrics.add_average(series, NODE_GROUP, "request-latency", tags)
            self.metrics.add_counter(series, NODE_GROUP, "response", tags)
        return series


def _checked(request: Request) -> Build:
    """The same request, refused with `InvalidRequest` if it cannot be written in the version that is chosen for it."""
    if not isinstance(request, Build):
        key = request.schema.api_key
        assert key is not None, "a request has an API"
        request = Build(key, partial(_same, request))
    make = request.make

    def checked(version: int) -> Message:
        made = make(version)
        try:
            encode(made, version)
        except EncodeError as error:
            raise InvalidRequest(str(error)) from None
        return made

    return request._replace(make=checked)


def _same(request: Message, version: int) -> Message:
    return request

"""`GET /metrics`: the metrics on a port of choice, over as little HTTP as Prometheus needs.

Promises: a request is read up to `REQUEST_MAX` bytes and within `PATIENCE_MS`, answered, and the connection closed;
at most `CONNECTIONS_MAX` at a time. It shares the loop with the broker, so a page is made only when it is asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla.server.broker import BrokerServices
from ottla.server.gauges import publish_gauges
from ottla.server.node_context import NodeContext
from ottla.world import Listener, NodeWorld, Stream, Timer

if TYPE_CHECKING:
    from ottla.metadata import Gauge

log = logging.getLogger(__name__)

REQUEST_MAX = 8 * 1024
CONNECTIONS_MAX = 32
PATIENCE_MS = 10_000
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricsServer:
    """A listener for scrapers. `page` makes the text."""

    def __init__(self, world: NodeWorld, page: Callable[[], str]) -> None:
        self._world = world
        self._page = page
        self._listener: Listener | None = None
        self._open: dict[_Scrape, None] = {}

    @classmethod
    def of(
        cls,
        node: NodeContext,
        broker: BrokerServices | None = None,
        collect: Callable[[], Iterable[Gauge]] | None = None,
    ) -> MetricsServer:
        """The metrics of a node, with all that it can tell about itself (see `publish_gauges`)."""
        publish_gauges(node, broker, collect)
        return cls(node.world, node.metrics.exposition)

    def listen(self, host: str, port: int) -> Listener:
        """Open the port; `OSError` when it cannot be had."""
        self._listener = self._world.network.listen(host, port, self._accept)
        log.info("[Metrics] http://%s/metrics", self._listener.address)
        return self._listener

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for scrape in list(self._open):
            scrape.stream.abort()

    def _accept(self, stream: Stream) -> _Scrape | None:
        if len(self._open) >= CONNECTIONS_MAX:
            return None
        scrape = _Scrape(self, stream)
        self._open[scrape] = None
        return scrape

    def later(self, call: Callable[[], object]) -> Timer:
        return self._world.tasks.later(PATIENCE_MS, call)

    def forget(self, scrape: _Scrape) -> None:
        self._open.pop(scrape, None)

    def answer(self, request: bytes) -> bytes:
        """The whole response to a request's head."""
        line = request.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(line) != 3 or not line[2].startswith("HTTP/1."):
            return _response("400 Bad Request", "not an HTTP/1 request\n")
        method, target, _ = line
        if target.partition("?")[0] not in ("/metrics", "/"):
            return _response("404 Not Found", "the metrics are at /metrics\n")
        if method not in ("GET", "HEAD"):
            return _response("405 Method Not Allowed", "the metrics can only be read\n")
        return _response("200 OK", self._page(), with_body=method == "GET")


def _response(status: str, text: str, *, with_body: bool = True) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")


class _Scrape:
    """One connection of a scraper: a request's head in, a page out."""

    __slots__ = ("_buffer", "_is_answered", "_received", "_server", "_timer", "stream")

    def __init__(self, server: MetricsServer, stream: Stream) -> None:
        self._server = server
        self.stream = stream
        self._buffer = bytearray(REQUEST_MAX)
        self._received = 0
        self._is_answered = False
        self._timer = server.later(stream.abort)

    def get_buffer(self) -> memoryview:
        return memoryview(self._buffer)[self._received :]

    def on_received(self, count: int) -> None:
        if self._is_answered:
            return
        self._received += count
        request = bytes(self._buffer[: self._received])
        if b"\r\n\r\n" not in request:
            if self._received < REQUEST_MAX:
                return
            response = _response("431 Request Header Fields Too Large", "the request is too long\n")
        else:
            response = self._server.answer(request)
        self._is_answered = True
        self.stream.send([response])
        self.stream.close()

    def on_drained(self) -> None:
        """Closing waits for that by itself."""

    def on_closed(self, error: OSError | None) -> None:
        self._timer.cancel()
        self._server.forget(self)

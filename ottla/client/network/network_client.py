"""The brokers, as a client reaches them: who there is, whom to ask, and a link to each that is asked.

Promises: those of `net.Link` for every request to every broker, so `send` answers within its time-out, whatever happens
to the broker, the network or the name. Long polls and what must not wait behind them use different `lane`s, which are
different links, because a broker serves the requests of one connection in turn.

Errors are the link's, and `BootstrapFailed` when `bootstrap.connect.timeout.ms` has passed and no broker was ever
reached, `NoBroker` for a broker that is not known, and `ClientClosed`.
Everything runs on the one thread of the world's tasks. Called by everything in `ottla.client` that asks brokers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from ottla.client.config.common import CommonConfig
from ottla.client.errors import ClientClosed, NoBroker
from ottla.client.metrics import Metrics, NetworkMetrics, NodeMetrics
from ottla.client.network.bootstrap import Bootstrap
from ottla.client.network.cluster import Node
from ottla.errors import InvalidConfig, KafkaError, NetworkException
from ottla.net import (
    ApiVersions,
    Backoff,
    Link,
    LinkObserver,
    LinkSettings,
    OnAnswer,
    ReceiveBuffer,
    Request,
    settling,
)
from ottla.world import Address, ClientWorld, Promise

log = logging.getLogger(__name__)

MAIN = ""
COORDINATOR = "coordinator"
"""The lane of what must not wait behind a fetch: heartbeats, commits, transactions."""
IN_FLIGHT_MAX = 10_000
"""On one connection. Producers and fetchers keep to bounds of their own, which are settings and far below this one."""


class NetworkClient:
    """All connections of one client."""

    def __init__(
        self, world: ClientWorld, config: CommonConfig, *, name: str, measured: NetworkMetrics | None = None
    ) -> None:
        """`name` is the subject of its log lines, such as `Producer clientId=a`; `measured` is told of all traffic."""
        self.world = world
        self.config = config
        self.name = name
        self.measured = measured or NetworkMetrics(Metrics(config.client_id, world.clock.monotonic_ms), "client")
        self.bootstrap = Bootstrap(
            bootstrap_nodes(config.bootstrap_servers), config.bootstrap_connect_timeout_ms, world.clock.monotonic_ms
        )
        self.nodes: dict[int, Node] = dict(self.bootstrap.nodes)
        """Everybody who can be sent to: bootstrap addresses under negative ids, and the brokers that are known."""
        self._link_settings = LinkSettings(
            client_id=config.client_id,
            connect_timeout_ms=config.socket_connection_setup_timeout_ms,
            connect_timeout_max_ms=config.socket_connection_setup_timeout_max_ms,
            reconnect_backoff_ms=config.reconnect_backoff_ms,
            reconnect_backoff_max_ms=config.reconnect_backoff_max_ms,
            idle_ms=config.connections_max_idle_ms,
            in_flight_max=IN_FLIGHT_MAX,
        )
        self.retry_backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, world)
        self._receive_buffer = ReceiveBuffer(hands_over=True)
        self.on_disconnected: list[Callable[[int], None]] = []
        """Told the id of every broker that a connection of the main lane was lost to, or not to be had from."""
        self._links: dict[tuple[int, str], Link] = {}
        self._is_closed = False

    # Who there is

    def set_nodes(self, nodes: Mapping[int, Node]) -> None:
        """The cluster has told its brokers; bootstrap addresses stay, for when none of these answers."""
        for key, link in list(self._links.items()):
            known = nodes.get(key[0])
            if key[0] >= 0 and known is not None and (known.host, known.port) != link.address:
                # It has moved. What is under way fails and is sent again to where it is now.
                del self._links[key]
                link.close(NetworkException(f"node {key[0]} has moved to {known.host}:{known.port}"))
        self.nodes = {**self.bootstrap.nodes, **nodes}

    def add_node(self, node: Node) -> None:
        """A broker that something other than Metadata told of: a coordinator, the leader after a move."""
        if self.nodes.get(node.node_id) != node:
            self.set_nodes({**{key: one for key, one in self.nodes.items() if key >= 0}, node.node_id: node})

    def forget_nodes(self) -> None:
        """Begin again with the bootstrap addresses."""
        self.nodes = dict(self.bootstrap.nodes)

    def set_bootstrap(self, nodes: Mapping[int, Node]) -> None:
        """Begin with these instead of `bootstrap.servers`, before anything is sent."""
        self.bootstrap.nodes = dict(nodes)
        self.nodes = dict(nodes)

    def versions(self, node_id: int, lane: str = MAIN) -> ApiVersions | None:
        """What the broker speaks, if it has told on this lane."""
        link = self._links.get((node_id, lane))
        return None if link is None else link.versions

    def is_ready(self, node_id: int, lane: str = MAIN) -> bool:
        """Whether a request would go out at once."""
        link = self._links.get((node_id, lane))
        return link is not None and link.is_ready

    def is_backing_off(self, node_id: int, lane: str = MAIN) -> bool:
        """Whether the broker could not be reached and is not to be tried yet."""
        link = self._links.get((node_id, lane))
        return link is not None and link.retry_in_ms() > 0

    def in_flight_count(self, node_id: int, lane: str = MAIN) -> int:
        """How many requests wait for an answer, or for the connection."""
        link = self._links.get((node_id, lane))
        return 0 if link is None else link.load

    def least_loaded(self) -> int:
        """The broker to ask what any can answer: one that is connected and has least to do, else the most promising.

        Bootstrap addresses are asked only while no broker is known, or when none of those that are can be reached.
        """
        known = [node_id for node_id in self.nodes if node_id >= 0]
        if not known or all(self._has_failed(node_id) for node_id in known):
            known = list(self.nodes)
        if not known:
            raise NoBroker("no broker is known")
        start = self.world.random.randrange(len(known))
        return min(known[start:] + known[:start], key=self._cost)

    def _has_failed(self, node_id: int) -> bool:
        link = self._links.get((node_id, MAIN))
        return link is not None and (link.failures > 0 or link.is_slow) and not link.is_ready

    def _cost(self, node_id: int) -> tuple[int, float]:
        link = self._links.get((node_id, MAIN))
        if link is None:
            return (2, 0)
        if link.is_ready:
            return (0, link.load)
        if link.is_slow:
            return (4, link.load)  # somebody has waited for it in vain
        if link.is_connecting:
            return (1, link.load)
        return (3, link.retry_in_ms()) if link.retry_in_ms() > 0 else (2, link.failures)

    # Asking

    def send(
        self, node_id: int, request: Request, *, timeout_ms: float | None = None, lane: str = MAIN
    ) -> Promise[Any]:
        """Ask a broker; the promise is its response, or fails with the `KafkaError` that kept it from coming."""
        promise = self.world.tasks.promise()
        self.send_then(node_id, request, settling(promise), timeout_ms=timeout_ms, lane=lane)
        return promise

    def send_then(
        self,
        node_id: int,
        request: Request,
        on_answer: OnAnswer,
        *,
        timeout_ms: float | None = None,
        lane: str = MAIN,
    ) -> None:
        """The same with a callback, for what happens thousands of times a second. It may be called before this returns
        when nothing could be sent."""
        if self._is_closed:
            on_answer(None, ClientClosed(f"[{self.name}] the client is closed"))
            return
        node = self.nodes.get(node_id)
        if node is None:
            on_answer(None, NoBroker(f"broker {node_id} is not known"))
            return
        link = self._links.get((node_id, lane))
        if link is None:
            link = self._link_to(node, lane)
        link.send_then(request, self.config.request_timeout_ms if timeout_ms is None else timeout_ms, on_answer)

    def _link_to(self, node: Node, lane: str) -> Link:
        link = self._links[node.node_id, lane] = Link(
            self.world,
            Address(node.host, node.port),
            self._link_settings,
            subject=self.name,
            node_id=node.node_id,
            receive_buffer=self._receive_buffer,
            observer=_NodeObserver(self, node.node_id, lane),
            log=log,
        )
        return link

    def send_only(self, node_id: int, request: Request) -> KafkaError | None:
        """Send a request that is not answered (Produce with acks=0), if there is a connection; why it was not sent."""
        link = self._links.get((node_id, MAIN))
        return NetworkException("not connected") if link is None else link.send_only(request)

    def connect(self, node_id: int, lane: str = MAIN) -> None:
        """Begin to connect, so that a connection is there when it is needed."""
        node = self.nodes.get(node_id)
        if node is not None and not self._is_closed:
            link = self._links.get((node_id, lane))
            if link is None:
                link = self._link_to(node, lane)
            link.connect()

    def disconnect(self, node_id: int, reason: KafkaError, lane: str = MAIN) -> None:
        """Give up the connection to a broker that cannot be trusted to answer; what waits for it fails."""
        link = self._links.pop((node_id, lane), None)
        if link is not None:
            link.close(reason)

    def close(self) -> None:
        """End all connections; what waits fails with `ClientClosed`. A second call does nothing."""
        self._is_closed = True
        links, self._links = self._links, {}
        for link in links.values():
            link.close(ClientClosed(f"[{self.name}] the client is closed"))


class _NodeObserver(LinkObserver):
    """What a link to one broker tells: its traffic to the metrics, the rest to the client."""

    def __init__(self, client: NetworkClient, node_id: int, lane: str) -> None:
        self._client = client
        self._node_id = node_id
        self._lane = lane
        self._measured: NodeMetrics | None = None
        """None until there was a connection: an attempt is not measured."""

    def connecting(self) -> None:
        self._client.bootstrap.begin()

    def opened(self) -> None:
        self._measured = self._client.measured.node(self._node_id, is_coordinator=self._lane == COORDINATOR)
        self._measured.opened()

    def ready(self) -> None:
        self._client.bootstrap.reached()

    def sent(self, size: int, now_ms: float) -> None:
        assert self._measured is not None, "only a connection that was opened is sent on"
        self._measured.sent_request(size, now_ms)

    def received(self, size: int, sent_ms: float, now_ms: float) -> None:
        assert self._measured is not None, "only a connection that was opened receives"
        self._measured.received_response(size, sent_ms, now_ms)

    def closed(self, error: KafkaError) -> None:
        assert self._measured is not None, "only a connection that was opened is closed"
        self._measured.closed()

    def failed(self, error: NetworkException, reason: str) -> KafkaError:
        return self._client.bootstrap.failed(self._node_id, reason, error)

    def lost(self) -> None:
        if self._lane == MAIN:
            for told in list(self._client.on_disconnected):
                told(self._node_id)


def bootstrap_nodes(servers: tuple[str, ...]) -> dict[int, Node]:
    """The addresses of `bootstrap.servers` under ids below 0, as Kafka numbers them."""
    nodes = {}
    for index, server in enumerate(servers):
        text = server.rpartition("://")[2]
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65_536:
            raise InvalidConfig(f"Invalid url in bootstrap.servers: {server}: it must be host:port, as localhost:9092")
        nodes[-1 - index] = Node(-1 - index, host, int(port))
    return nodes

"""The brokers, as a client reaches them: a connection to each on demand, kept, made again with a growing backoff.

Promises: `send` answers within its time-out, whatever happens to the broker, the network or the name; the request goes
out in the highest version that both sides know; a broker that cannot be reached is not tried more often than its
backoff allows; a connection that nobody uses is closed. Long polls and what must not wait behind them use different
`lane`s, which are different connections, because a broker serves the requests of one connection in turn.

Errors are Kafka's: `NetworkException` when the connection could not be made or broke (the request may or may not have
been carried out), `RequestTimedOut`, `UnsupportedVersion` when the broker does not know the API, `BootstrapFailed` when
`bootstrap.connect.timeout.ms` has passed and no broker was ever reached, `ClientClosed`, and `InternalError` for
whatever else is raised while a request is built, encoded or sent, or its response is handled.
Everything runs on the one thread of the world's tasks. Called by everything in `ottla.client` that asks brokers.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from ottla.client.config.common import CommonConfig
from ottla.client.errors import ClientClosed, NoBroker, as_kafka_error
from ottla.client.metrics import Metrics, NetworkMetrics
from ottla.client.network.backoff import Backoff
from ottla.client.network.bootstrap import Bootstrap
from ottla.client.network.cluster import Node
from ottla.client.network.connection import ApiVersions, Connection, OnAnswer, tell
from ottla.errors import (
    InvalidConfig,
    InvalidRequest,
    KafkaError,
    NetworkException,
    RequestTimedOut,
    UnsupportedVersion,
)
from ottla.net import ReceiveBuffer
from ottla.wire import APIS, EncodeError, Message
from ottla.world import ClientWorld, Promise, Stream, StreamHandler, Timer, connect_failure

log = logging.getLogger(__name__)

MAIN = ""
COORDINATOR = "coordinator"
"""The lane of what must not wait behind a fetch: heartbeats, commits, transactions."""
VERSION_MAX = 0x7FFF


class Build(NamedTuple):
    """A request that looks different in different versions: made when the version is known."""

    api_key: int
    make: Callable[[int], Message]
    version_min: int = 0
    version_max: int = VERSION_MAX


Request = Message | Build


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
        self.connect_backoff = Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, world)
        self.setup_backoff = Backoff(
            config.socket_connection_setup_timeout_ms, config.socket_connection_setup_timeout_max_ms, world
        )
        self.retry_backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, world)
        self.receive_buffer = ReceiveBuffer(hands_over=True)
        self.on_disconnected: list[Callable[[int], None]] = []
        """Told the id of every broker that a connection of the main lane was lost to, or not to be had from."""
        self._peers: dict[tuple[int, str], Peer] = {}
        self._is_closed = False

    # Who there is

    def set_nodes(self, nodes: Mapping[int, Node]) -> None:
        """The cluster has told its brokers; bootstrap addresses stay, for when none of these answers."""
        for key, peer in list(self._peers.items()):
            known = nodes.get(key[0])
            if key[0] >= 0 and known is not None and (known.host, known.port) != (peer.node.host, peer.node.port):
                # It has moved. What is under way fails and is sent again to where it is now.
                del self._peers[key]
                peer.close(NetworkException(f"node {key[0]} has moved to {known.host}:{known.port}"))
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
        peer = self._peers.get((node_id, lane))
        return None if peer is None or peer.connection is None else peer.connection.versions

    def is_ready(self, node_id: int, lane: str = MAIN) -> bool:
        """Whether a request would go out at once."""
        peer = self._peers.get((node_id, lane))
        return peer is not None and peer.is_ready

    def is_backing_off(self, node_id: int, lane: str = MAIN) -> bool:
        """Whether the broker could not be reached and is not to be tried yet."""
        peer = self._peers.get((node_id, lane))
        return peer is not None and peer.retry_in_ms() > 0

    def in_flight_count(self, node_id: int, lane: str = MAIN) -> int:
        """How many requests wait for an answer, or for the connection."""
        peer = self._peers.get((node_id, lane))
        return 0 if peer is None else peer.load

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
        peer = self._peers.get((node_id, MAIN))
        return peer is not None and (peer.failures > 0 or peer.is_slow) and not peer.is_ready

    def _cost(self, node_id: int) -> tuple[int, float]:
        peer = self._peers.get((node_id, MAIN))
        if peer is None:
            return (2, 0)
        if peer.is_ready:
            return (0, peer.load)
        if peer.is_slow:
            return (4, peer.load)  # somebody has waited for it in vain
        if peer.is_connecting:
            return (1, peer.load)
        return (3, peer.retry_in_ms()) if peer.retry_in_ms() > 0 else (2, peer.failures)

    # Asking

    def send(
        self, node_id: int, request: Request, *, timeout_ms: float | None = None, lane: str = MAIN
    ) -> Promise[Any]:
        """Ask a broker; the promise is its response, or fails with the `KafkaError` that kept it from coming."""
        promise = self.world.tasks.promise()

        def answered(response: Message | None, error: KafkaError | None) -> None:
            if promise.done():
                return
            if error is not None:
                promise.set_exception(error)
            else:
                promise.set_result(response)

        self.send_then(node_id, request, answered, timeout_ms=timeout_ms, lane=lane)
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
        peer = self._peers.get((node_id, lane))
        if peer is None:
            peer = self._peers[node_id, lane] = Peer(self, node, lane)
        peer.send(request, self.config.request_timeout_ms if timeout_ms is None else timeout_ms, on_answer)

    def send_only(self, node_id: int, request: Request) -> KafkaError | None:
        """Send a request that is not answered (Produce with acks=0), if there is a connection; why it was not sent."""
        peer = self._peers.get((node_id, MAIN))
        if peer is None or not peer.is_ready:
            return NetworkException("not connected")
        return peer.send_only(request)

    def connect(self, node_id: int, lane: str = MAIN) -> None:
        """Begin to connect, so that a connection is there when it is needed."""
        node = self.nodes.get(node_id)
        if node is not None and not self._is_closed:
            peer = self._peers.get((node_id, lane))
            if peer is None:
                peer = self._peers[node_id, lane] = Peer(self, node, lane)
            peer.connect()

    def disconnect(self, node_id: int, reason: KafkaError, lane: str = MAIN) -> None:
        """Give up the connection to a broker that cannot be trusted to answer; what waits for it fails."""
        peer = self._peers.pop((node_id, lane), None)
        if peer is not None:
            peer.close(reason)

    def close(self) -> None:
        """End all connections; what waits fails with `ClientClosed`. A second call does nothing."""
        self._is_closed = True
        peers, self._peers = self._peers, {}
        for peer in peers.values():
            peer.close(ClientClosed(f"[{self.name}] the client is closed"))


class _Pending(NamedTuple):
    request: Request
    on_answer: OnAnswer
    deadline_ms: float
    timer: Timer


class Peer:
    """One broker on one lane: a connection, or the making of one, and what waits for it."""

    def __init__(self, client: NetworkClient, node: Node, lane: str) -> None:
        self.node = node
        self.connection: Connection | None = None
        """While it is connecting in the sense of TCP there is none yet."""
        self.is_connecting = False
        self.failures = 0
        """Attempts in a row that came to nothing."""
        self.is_slow = False
        """Whether a request has waited for the connection for longer than it could, and there is none yet."""
        self._client = client
        self._lane = lane
        self._world = client.world
        self._retry_at_ms = 0.0
        self._throttled_until_ms = 0.0
        self._pending: deque[_Pending] = deque()
        self._attempt = 0
        self._timer: Timer | None = None
        """One of: the set-up has taken too long, it is time to try again, the connection has been idle."""
        self._used_ms = 0
        self._is_closed = False

    @property
    def is_ready(self) -> bool:
        connection = self.connection
        return connection is not None and connection.is_open and connection.versions is not None

    @property
    def load(self) -> int:
        connection = self.connection
        return len(self._pending) + (0 if connection is None else connection.in_flight_count)

    def retry_in_ms(self) -> float:
        """How long this broker is not to be connected to yet."""
        if self.is_ready or self.is_connecting:
            return 0.0
        return max(0.0, self._retry_at_ms - self._world.clock.monotonic_ms())

    # Sending

    def send(self, request: Request, timeout_ms: float, on_answer: OnAnswer) -> None:
        connection = self.connection
        if connection is not None and connection.is_open and connection.versions is not None and not self._pending:
            now_ms = self._world.clock.monotonic_ms()
            if now_ms >= self._throttled_until_ms:
                self._used_ms = now_ms
                self._transmit(connection, request, timeout_ms, on_answer)
                return
        self._enqueue(request, timeout_ms, on_answer)

    def send_only(self, request: Request) -> KafkaError | None:
        connection = self.connection
        assert connection is not None, "only a ready connection is sent on"
        assert connection.versions is not None, "only a ready connection is sent on"
        made = self._make(connection.versions, request)
        if isinstance(made, KafkaError):
            return made
        try:
            connection.send_only(*made)
        except Exception as error:  # noqa: BLE001  it is the caller's
            return _not_sent(request, error)
        return None

    def _enqueue(self, request: Request, timeout_ms: float, on_answer: OnAnswer) -> None:
        def time_out() -> None:
            if pending in self._pending:
                self._pending.remove(pending)
                self.is_slow = not self.is_ready
                reason = f"not connected to {self.node} within {timeout_ms:.0f} ms"
                late = RequestTimedOut(f"{_name(request)} was not sent: {reason}")
                tell(on_answer, None, late, _name(request))

        timer = self._world.tasks.later(timeout_ms, time_out)
        pending = _Pending(request, on_answer, self._world.clock.monotonic_ms() + timeout_ms, timer)
        self._pending.append(pending)
        if self.is_ready:
            self._wake_at(self._throttled_until_ms)
        else:
            self.connect()

    def _transmit(self, connection: Connection, request: Request, timeout_ms: float, on_answer: OnAnswer) -> None:
        assert connection.versions is not None, "only a ready connection is sent on"
        made = self._make(connection.versions, request)
        if isinstance(made, KafkaError):
            tell(on_answer, None, made, _name(request))
            return

        def answered(response: Message | None, error: KafkaError | None) -> None:
            throttle_ms = getattr(response, "throttle_time_ms", 0)
            if throttle_ms > 0:
                # The broker has answered at once and means: nothing more until then (KIP-219).
                self._throttled_until_ms = self._world.clock.monotonic_ms() + throttle_ms
            on_answer(response, error)

        try:
            connection.send(*made, timeout_ms, answered)
        except Exception as error:  # noqa: BLE001  it is the caller's
            # Nothing of it was sent: the version cannot carry what was asked for, or it was no request at all.
            tell(on_answer, None, _not_sent(request, error), _name(request))

    def _make(self, versions: ApiVersions, request: Request) -> tuple[Message, int] | KafkaError:
        if isinstance(request, Build):
            version = versions.usable(request.api_key, request.version_min, request.version_max)
            if version is not None:
                try:
                    return request.make(version), version
                except Exception as error:  # noqa: BLE001  it is the caller's
                    return as_kafka_error(error, f"The {_name(request)} request could not be built")
            key = request.api_key
        else:
            assert request.schema.api_key is not None, "a request has an API"
            key = request.schema.api_key
            version = versions.usable(key)
            if version is not None:
                return request, version
        return UnsupportedVersion(f"The broker {self.node} has no version of {APIS[key].name} that can be used here")

    def _flush_pending(self) -> None:
        """Send what has waited for the connection, or for the end of a throttle."""
        connection = self.connection
        while self._pending and connection is not None and self.is_ready:
            now_ms = self._world.clock.monotonic_ms()
            if now_ms < self._throttled_until_ms:
                self._wake_at(self._throttled_until_ms)
                return
            pending = self._pending.popleft()
            pending.timer.cancel()
            self._used_ms = now_ms
            self._transmit(connection, pending.request, max(1.0, pending.deadline_ms - now_ms), pending.on_answer)

    def _wake_at(self, at_ms: float) -> None:
        self._world.tasks.later(max(1.0, at_ms - self._world.clock.monotonic_ms()), self._flush_pending)

    # Connecting

    def connect(self) -> None:
        """Connect, now or when the backoff is over; nothing when that is under way or done."""
        if self._is_closed or self.is_connecting or self.is_ready:
            return
        wait_ms = self.retry_in_ms()
        if wait_ms > 0:
            if self._timer is None:
                # The clock counts whole milliseconds: a shorter wait would find nothing changed, and wait again.
                self._set_timer(max(wait_ms, 1.0), self.connect)
            return
        self._cancel_timer()
        self.is_connecting = True
        self._attempt += 1
        attempt = self._attempt
        setup_ms = self._client.setup_backoff.delay_ms(self.failures)
        log.debug("[%s] Initiating connection to node %s", self._client.name, self.node)

        def on_connected(result: Stream | OSError) -> StreamHandler | None:
            if attempt != self._attempt or self._is_closed:
                if not isinstance(result, OSError):
                    result.abort()
                return None
            if isinstance(result, OSError):
                self._on_failed(connect_failure(result))
                return None
            self.connection = Connection(
                self._world,
                result,
                client_id=self._client.config.client_id,
                receive_buffer=self._client.receive_buffer,
                measured=self._client.measured.node(self.node.node_id, is_coordinator=self._lane == COORDINATOR),
                on_ready=self._on_ready,
                on_closed=self._on_closed,
            )
            self._world.tasks.soon(partial(self._negotiate, self.connection, setup_ms))
            return self.connection

        def time_out() -> None:
            self._timer = None
            if attempt == self._attempt and self.is_connecting:
                reason = f"not set up within {setup_ms:.0f} ms"
                if self.connection is not None:
                    self.connection.fail(NetworkException(reason))
                else:
                    self._attempt += 1  # whatever comes of it comes too late
                    self._on_failed(reason)

        self._set_timer(setup_ms, time_out)
        self._client.bootstrap.begin()
        self._world.network.connect(self.node.host, self.node.port, on_connected)

    def _negotiate(self, connection: Connection, timeout_ms: float) -> None:
        if connection.is_open:
            connection.negotiate(timeout_ms)

    def _on_ready(self, connection: Connection) -> None:
        self._cancel_timer()
        self._client.bootstrap.reached()
        self.is_connecting = False
        self.is_slow = False
        self.failures = 0
        self._used_ms = self._world.clock.monotonic_ms()
        self._watch_idle()
        self._flush_pending()

    def _on_closed(self, connection: Connection, error: KafkaError) -> None:
        if connection is self.connection:
            self.connection = None
            if self._is_closed:
                return
            if self.is_connecting:
                self._on_failed(str(error), error)
            else:
                log.info("[%s] Node %s disconnected: %s", self._client.name, self.node.node_id, error)
                self._lost(error)

    def _on_failed(self, reason: str, refusal: KafkaError | None = None) -> None:
        """An attempt to connect came to nothing; `refusal` is what the broker said, if it said anything."""
        self.connection = None
        self.is_connecting = False
        node = self.node
        if self.failures & (self.failures + 1) == 0:  # the first, and then ever more rarely
            log.warning("[%s] Connection to node %s (%s:%d) could not be established: %s. Is a broker running there?",
                        self._client.name, node.node_id, node.host, node.port, reason)  # fmt: skip
        if refusal is not None and not refusal.retriable:
            self._lost(refusal)
            return
        error = NetworkException(f"no connection to {node}: {reason}")
        self._lost(self._client.bootstrap.failed(node.node_id, reason, error))

    def _lost(self, error: KafkaError) -> None:
        self._cancel_timer()
        self._retry_at_ms = self._world.clock.monotonic_ms() + self._client.connect_backoff.delay_ms(self.failures)
        self.failures += 1
        self._fail_pending(error)
        if self._lane == MAIN:
            for told in list(self._client.on_disconnected):
                told(self.node.node_id)

    def _fail_pending(self, error: KafkaError) -> None:
        pending, self._pending = self._pending, deque()
        for one in pending:
            one.timer.cancel()
            tell(one.on_answer, None, error, _name(one.request))

    # Ending

    def _watch_idle(self) -> None:
        idle_ms = self._client.config.connections_max_idle_ms
        if idle_ms < 0:
            return

        def look() -> None:
            self._timer = None
            connection = self.connection
            if connection is None or not self.is_ready:
                return
            left_ms = self._used_ms + idle_ms - self._world.clock.monotonic_ms()
            if left_ms > 0 or self.load:
                self._set_timer(max(left_ms, 1000), look)
            else:
                log.debug("[%s] About to close the idle connection to node %s", self._client.name, self.node)
                self.connection = None
                connection.close(NetworkException("the connection was idle"))

        self._set_timer(idle_ms, look)

    def close(self, error: KafkaError) -> None:
        """End for good."""
        self._is_closed = True
        self._attempt += 1
        self._cancel_timer()
        connection, self.connection = self.connection, None
        if connection is not None and connection.is_open:
            connection.close(error)
        self._fail_pending(error)

    def _set_timer(self, delay_ms: float, call: Callable[[], None]) -> None:
        self._cancel_timer()

        def due() -> None:
            self._timer = None
            call()

        self._timer = self._world.tasks.later(delay_ms, due)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _not_sent(request: Request, error: Exception) -> KafkaError:
    """What to tell of a request that could not be encoded or sent."""
    if isinstance(error, EncodeError):
        return InvalidRequest(str(error))
    return as_kafka_error(error, f"The {_name(request)} request could not be sent")


def _name(request: Request) -> str:
    key = request.api_key if isinstance(request, Build) else request.schema.api_key
    assert key is not None, "a request has an API"
    return APIS[key].name


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

"""The listeners of a node: they take connections, keep the limits, and close what has been idle for too long."""

from __future__ import annotations

import logging
from functools import partial

from ottla.config import BrokerConfig
from ottla.net import ReceiveBuffer
from ottla.server.complaints import Complaints
from ottla.server.connection_rate import ConnectionRates, ip_limit
from ottla.server.connections import ConnectionLimits, parse_overrides
from ottla.server.dispatch import Dispatcher
from ottla.server.node_context import NodeContext
from ottla.server.roles import BROKER
from ottla.server.session import Port, Session
from ottla.world import Listener, Stream, Timer

log = logging.getLogger(__name__)

SWEEPS = 8
"""How often idle connections are looked for in the time that they may be idle."""
SWEEP_MS_MAX = 60_000


class SocketServer:
    """All listeners of one node. `listen` opens one; `close` closes them and every connection."""

    def __init__(self, node: NodeContext) -> None:
        config = node.config
        self._node = node
        self._idle_ms: int = config.connections_max_idle_ms
        self._frame_max: int = config.socket_request_max_bytes
        self.limits = ConnectionLimits(
            total_max=config.max_connections,
            per_ip_max=config.max_connections_per_ip,
            per_ip_overrides=parse_overrides(config.max_connections_per_ip_overrides),
        )
        self._rates = ConnectionRates(
            window_ms=config.quota_window_size_seconds * 1000, window_count=config.quota_window_num
        )
        self._rates.limit = config.max_connection_creation_rate
        self._throttled: dict[str, Timer] = {}
        """Listeners that take no connections for a while, because they came too fast."""
        self._buffer = ReceiveBuffer()
        self._complaints = Complaints(node.world.clock)
        self._listeners: dict[str, Listener] = {}
        self._ports: dict[str, Port] = {}
        self._paused: dict[str, None] = {}
        self._held: dict[str, None] = {}
        self._broker_listener_count = 0
        self._sweep_timer: Timer | None = None
        node.when_configured.append(self.configure)
        node.metrics.gauge("kafka.network:type=SocketServer,name=OpenConnections", lambda: self.limits.total)

    def listen(
        self, listener_name: str, host: str, port: int, dispatcher: Dispatcher, *, is_held: bool = False
    ) -> Listener:
        """Open a listener for the APIs of `dispatcher`; `OSError` when it cannot be had.

        One that `is_held` has its address now, and lets connections wait until `release`.
        """
        self._limit_listener(listener_name, self._node.config)
        if dispatcher.role is BROKER:
            self._broker_listener_count += 1
            own = self._node.config.inter_broker_listener
            self._rates.exempt = own if self._broker_listener_count > 1 else ""
        self._ports[listener_name] = Port(
            dispatcher,
            listener_name,
            frame_max=self._frame_max,
            receive_buffer=self._buffer,
            complaints=self._complaints,
        )
        accept, backlog = partial(self._accept, listener_name), self._node.config.socket_listen_backlog_size
        listener = self._node.world.network.listen(host, port, accept, backlog=backlog)
        self._listeners[listener_name] = listener
        if is_held:
            self._held[listener_name] = None
            self._pause_or_resume()
        if self._sweep_timer is None and self._idle_ms >= 0:
            self._plan_sweep()
        log.info("[SocketServer %s] Awaiting connections on %s", listener_name, listener.address)
        return listener

    def release(self) -> None:
        """Serve those who wait at held listeners."""
        self._held.clear()
        self._pause_or_resume()

    def configure(self, config: BrokerConfig) -> None:
        """Take over limits that have changed; connections that are there stay."""
        limits = self.limits
        limits.total_max = config.max_connections
        limits.per_ip_max = config.max_connections_per_ip
        limits.per_ip_overrides = parse_overrides(config.max_connections_per_ip_overrides)
        self._rates.limit = config.max_connection_creation_rate
        for name in self._ports:
            self._limit_listener(name, config)
        self._pause_or_resume()

    def _limit_listener(self, name: str, config: BrokerConfig) -> None:
        """A listener's own limits; one that has none is held to the node's for itself, too."""
        prefix = f"listener.name.{name.lower()}."
        self.limits.listener_max[name] = int(config.originals.get(f"{prefix}max.connections", config.max_connections))
        self._rates.listener_limits[name] = int(
            config.originals.get(f"{prefix}max.connection.creation.rate", config.max_connection_creation_rate)
        )

    @property
    def connection_count(self) -> int:
        return self.limits.total

    def close(self) -> None:
        """Take no more connections and end those there are; what is answered is still sent."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        for timer in self._throttled.values():
            timer.cancel()
        self._throttled.clear()
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()
        for port in self._ports.values():
            for session in list(port.sessions):
                session.end()

    # Connections

    def _accept(self, listener_name: str, stream: Stream) -> Session | _HeldConnection | None:
        port = self._ports[listener_name]
        ip = stream.peer.host
        now_ms = self._node.world.clock.monotonic_ms()
        delay_ms = self._rates.record(listener_name, now_ms)
        quotas = self._node.image.quotas
        held_ms = self._rates.record_ip(listener_name, ip, ip_limit(quotas, ip), now_ms) if quotas else 0
        if held_ms:
            port.metrics.ip_throttles.record(held_ms)
            return _HeldConnection(stream, self._node.world.tasks.later(held_ms, stream.abort))
        if delay_ms:
            port.metrics.throttles.record(delay_ms)
            self._throttle(listener_name, delay_ms)
        if not self.limits.admit(listener_name, ip):
            port.metrics.refused += 1
            self._complaints.say(
                "limit", "[SocketServer %s] Rejected a connection from %s: the address has the %d that it may have",
                listener_name, ip, self.limits.ip_max(ip),
            )  # fmt: skip
            return None
        session = Session(port, stream)
        session.connection.when_closed(partial(self._on_closed, listener_name, ip))
        self._pause_or_resume()
        return session

    def _on_closed(self, listener_name: str, ip: str) -> None:
        self.limits.release(listener_name, ip)
        self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        """Listeners take connections while there is room for one more."""
        for name, listener in self._listeners.items():
            has_room = name not in self._held and name not in self._throttled and self.limits.has_room(name)
            if has_room and name in self._paused:
                del self._paused[name]
                listener.resume()
            elif not has_room and name not in self._paused:
                self._paused[name] = None
                listener.pause()
                if name not in self._held and name not in self._throttled:
                    self._complaints.say(
                        "full", "[SocketServer %s] No more connections are taken until one of %d closes",
                        name, self.limits.total,
                    )  # fmt: skip

    def _throttle(self, name: str, delay_ms: int) -> None:
        """Let the connections that come next wait in the system's queue."""
        known = self._throttled.pop(name, None)
        if known is not None:
            known.cancel()
        self._throttled[name] = self._node.world.tasks.later(delay_ms, partial(self._end_throttle, name))
        self._pause_or_resume()

    def _end_throttle(self, name: str) -> None:
        self._throttled.pop(name, None)
        self._pause_or_resume()

    def _plan_sweep(self) -> None:
        delay_ms = min(max(self._idle_ms // SWEEPS, 1), SWEEP_MS_MAX)
        self._sweep_timer = self._node.world.tasks.later(delay_ms, self._sweep)

    def _sweep(self) -> None:
        """Close connections whose peer has neither sent nor taken anything for `connections.max.idle.ms`."""
        now_ms = self._node.world.clock.monotonic_ms()
        self._rates.forget_idle(now_ms)
        for name, port in self._ports.items():
            for session in list(port.sessions):
                if session.is_waiting or session.took_something():
                    session.active_ms = now_ms
                elif now_ms - session.active_ms > self._idle_ms:
                    port.metrics.expired += 1
                    log.debug("[SocketServer %s] Closing %s: idle", name, session.connection.peer)
                    session.abort()
        self._plan_sweep()


class _HeldConnection:
    """A connection of an address that connects too often: nothing is read, and then it is closed."""

    __slots__ = ("_buffer", "_stream", "_timer")

    def __init__(self, stream: Stream, timer: Timer) -> None:
        self._stream = stream
        self._timer = timer
        self._buffer = bytearray(1)

    def get_buffer(self) -> memoryview:
        return memoryview(self._buffer)

    def on_received(self, count: int) -> None:
        self._stream.pause_reading()

    def on_drained(self) -> None:
        """Nothing is ever sent."""

    def on_closed(self, error: OSError | None) -> None:
        self._timer.cancel()

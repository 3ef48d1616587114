"""The virtual network: hosts with names and addresses, the connections between them, and all that goes wrong with them.

`VirtualNetwork` is the whole of it, as the simulation sees and breaks it; `HostNetwork` is what one life of one host
gets as its `ottla.world.Network`. `links` says which ways are cut or slow. Whether a way is free is decided when a
packet arrives: while it is cut, or one of the hosts has no power, packets are lost and sent again (see `stream`).

Order: each connection has its own pace, so connections overtake each other, and nothing is reordered inside one.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import Context
from random import Random

from ottla.sim.life import Life
from ottla.sim.links import Links
from ottla.sim.loop import VirtualLoop
from ottla.sim.stream import SILENCE_MS_MAX, Pace, VirtualStream
from ottla.world import BACKLOG, Accept, Address, Stream, StreamHandler

FIRST_FREE_PORT = 32_768
CONNECT_RETRIES_MS = (0, 1_000, 2_000, 4_000, 8_000)
"""When a connection is called for, each counted from the time before; without an answer to the last, it times out."""
HERE = ("", "0.0.0.0", "::", "localhost", "127.0.0.1")


class Host:
    """A machine: its names, whether it has power, and what listens on it."""

    __slots__ = ("address", "is_isolated", "is_up", "listeners", "name", "next_port")

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.is_up = True
        self.is_isolated = False
        """Whether its cable is pulled: it reaches nobody but itself."""
        self.listeners: dict[int, VirtualListener] = {}
        self.next_port = FIRST_FREE_PORT

    def free_port(self) -> int:
        self.next_port += 1
        return self.next_port


class VirtualNetwork:
    """All hosts and all connections."""

    def __init__(self, loop: VirtualLoop, chance: Random, trace: Callable[[str], None] | None = None) -> None:
        self.loop = loop
        self.chance = chance
        self.trace: Callable[[str], None] = trace or (lambda line: None)
        self.hosts: dict[str, Host] = {}
        self.streams: dict[int, tuple[VirtualStream, VirtualStream]] = {}
        """The connections that may still be open, by number: the calling end first."""
        self.connection_count = 0
        self.pace: Callable[[Random], Pace] = Pace
        """How the pace of a new connection is chosen."""
        self.refuse_chance = 0.0
        """How often a call for a connection is answered with a refusal."""
        self._outside = Context()
        self.links = Links(loop, chance, self.trace, self._on_links_changed)
        self.is_whole = True
        """Whether every host reaches every other: nothing is cut, isolated or without power."""

    # Hosts.

    def add_host(self, name: str) -> Host:
        host = Host(name, f"10.0.0.{len(self.hosts) + 1}")
        self.hosts[name] = host
        return host

    def find(self, name: str, near: Host) -> Host | None:
        """The host of a name or an address, as seen from `near`."""
        if name in HERE:
            return near
        found = self.hosts.get(name)
        return found or next((host for host in self.hosts.values() if host.address == name), None)

    def lose_power(self, host: Host) -> None:
        """The host is gone at once, with what it was sending, and nobody is told."""
        host.is_up = False
        self.is_whole = False
        self._forget_listeners(host)
        for stream in self._streams_of(host):
            stream.vanish(with_flight=True)

    def gain_power(self, host: Host) -> None:
        """The host is back. It knows nothing of its connections, and resets what still speaks to it."""
        host.is_up = True
        self._on_links_changed()

    def end_life(self, host: Host) -> None:
        """A process of this host has died: the system closes what it had open."""
        self._forget_listeners(host)
        for stream in self._streams_of(host):
            stream.end_by_system()

    # What goes wrong.

    def part(self, one: Host, other: Host) -> None:
        """Let nothing pass between two hosts until `heal`."""
        self.links.cut([one.name], [other.name])

    def heal(self, name: str | None = None) -> None:
        """Take away one trouble of `links`, by its name, or all of it; what is sent again then arrives."""
        if name is not None:
            self.links.heal(name)
            return
        if self.links.has_cuts:
            self.trace("the network is whole")
        self.refuse_chance = 0.0
        self.links.heal_all()

    def is_blocked(self, one: Host, other: Host) -> bool:
        """Whether what `one` sends does not reach `other`."""
        if one is other:
            return not one.is_up
        if one.is_isolated or other.is_isolated or not (one.is_up and other.is_up):
            return True
        return self.links.is_cut(one.name, other.name)

    def isolate(self, host: Host) -> None:
        """Pull the cable of a host. `heal` leaves that alone: only `connect_again` puts it back."""
        host.is_isolated = True
        self.is_whole = False

    def connect_again(self, host: Host) -> None:
        """Put the cable back; what is sent again arrives."""
        host.is_isolated = False
        self._on_links_changed()

    def open_connections(self) -> list[tuple[VirtualStream, VirtualStream]]:
        """Those of which both ends are open, oldest first."""
        return [ends for ends in self.streams.values() if not (ends[0].is_shut or ends[1].is_shut)]

    def reset(self, ends: tuple[VirtualStream, VirtualStream]) -> None:
        """Break a connection at both ends."""
        self.trace(f"{ends[0]} is reset")
        for stream in ends:
            stream.fail(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))

    def open_half(self, ends: tuple[VirtualStream, VirtualStream], *, told: int) -> None:
        """Break a connection at one end; the other believes in it until it sends."""
        self.trace(f"{ends[told]} is reset, and its peer does not know")
        stream = ends[told]
        stream.fail(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))
        stream.is_silent = True
        self._give_up_later(stream.other)

    def silence(self, ends: tuple[VirtualStream, VirtualStream]) -> None:
        """Let nothing arrive any more and tell nobody. An end that waits for an answer gives up in the end."""
        self.trace(f"{ends[0]} falls silent")
        for stream in ends:
            stream.is_silent = True
            self._give_up_later(stream)

    def _give_up_later(self, stream: VirtualStream) -> None:
        def give_up() -> None:
            if not stream.is_shut:
                if stream.is_idle:
                    self._give_up_later(stream)
                else:
                    stream.fail(TimeoutError(errno.ETIMEDOUT, "connection timed out"))

        self.call_at_us(self.loop.now_us + SILENCE_MS_MAX * 1_000, give_up)

    # Inside.

    def call_at_us(self, when_us: int, call: Callable[[], object]) -> None:
        """Let something happen on the network, which is in nobody's life."""
        self.loop.call_at_us(when_us, call, context=self._outside)

    def join(self, caller: HostNetwork, listener: VirtualListener) -> VirtualStream:
        """A new connection; the caller's end of it."""
        self.connection_count += 1
        number = self.connection_count
        pace = self.pace(self.chance)
        calling = Address(caller.host.address, caller.host.free_port())
        called = Address(listener.host.address, listener.address.port)
        one = VirtualStream(self, caller.host, caller.life, calling, called, pace, number)
        other = VirtualStream(self, listener.host, listener.life, called, calling, pace, number)
        one.other, other.other = other, one
        self.streams = {key: ends for key, ends in self.streams.items() if not (ends[0].is_shut and ends[1].is_shut)}
        self.streams[number] = (one, other)
        self.trace(f"{one} opened by {caller.life.name}")
        listener.offer(other)
        return one

    def _streams_of(self, host: Host) -> Iterator[VirtualStream]:
        for ends in list(self.streams.values()):
            for stream in ends:
                if stream.host is host:
                    yield stream

    def _forget_listeners(self, host: Host) -> None:
        host.listeners.clear()

    def _on_links_changed(self) -> None:
        """Some way has been cut or is free again."""
        hosts = self.hosts.values()
        self.is_whole = not self.links.has_cuts and all(host.is_up and not host.is_isolated for host in hosts)
        for ends in list(self.streams.values()):
            for stream in ends:
                stream.fly_on()


class HostNetwork:
    """The `ottla.world.Network` of one life on one host."""

    def __init__(self, network: VirtualNetwork, host: Host, life: Life) -> None:
        self.network = network
        self.host = host
        self.life = life

    def listen(self, host: str, port: int, accept: Accept, *, backlog: int = BACKLOG) -> VirtualListener:
        if self.network.find(host, self.host) is not self.host:
            raise OSError(errno.EADDRNOTAVAIL, "the address is not one of this host", host)
        port = port or self.host.free_port()
        if port in self.host.listeners:
            raise OSError(errno.EADDRINUSE, f"port {port} is in use")
        address = Address("0.0.0.0" if host in HERE[:3] else self.host.address, port)
        listener = VirtualListener(self, address, accept, backlog)
        self.host.listeners[port] = listener
        return listener

    def connect(self, host: str, port: int, on_connected: Callable[[Stream | OSError], StreamHandler | None]) -> None:
        _Call(self, host, port, on_connected).try_again(0)

    async def own_name(self, timeout_ms: float) -> str:
        return self.host.name


class _Call:
    """The opening of a connection: asked for again and again until there is an answer or no more patience."""

    def __init__(
        self,
        caller: HostNetwork,
        name: str,
        port: int,
        on_connected: Callable[[Stream | OSError], StreamHandler | None],
    ) -> None:
        self._caller = caller
        self._name = name
        self._port = port
        self._on_connected = on_connected
        self._round_trip_us = 2 * caller.network.pace(caller.network.chance).delay(caller.network.chance)
        target = caller.network.find(name, caller.host)
        if caller.network.links.has_slow and target is not None:
            self._round_trip_us += caller.network.links.delay_us(caller.host.name, target.name, 0)
            self._round_trip_us += caller.network.links.delay_us(target.name, caller.host.name, 0)

    def try_again(self, attempt: int) -> None:
        caller = self._caller
        loop = caller.network.loop
        if attempt == len(CONNECT_RETRIES_MS):
            self._fail(TimeoutError(errno.ETIMEDOUT, "connection timed out"))
            return
        delay_us = CONNECT_RETRIES_MS[attempt] * 1_000 + self._round_trip_us
        loop.call_at_us(loop.now_us + delay_us, self._knock, attempt, context=caller.life.context)

    def _knock(self, attempt: int) -> None:
        caller = self._caller
        network = caller.network
        target = network.find(self._name, caller.host)
        if target is None:
            self._fail(OSError(errno.EHOSTUNREACH, "no such host", self._name))
            return
        if network.is_blocked(caller.host, target) or network.is_blocked(target, caller.host):
            self.try_again(attempt + 1)
            return
        listener = target.listeners.get(self._port)
        if listener is None or (network.refuse_chance and network.chance.random() < network.refuse_chance):
            self._fail(ConnectionRefusedError(errno.ECONNREFUSED, f"{self._name}:{self._port} refuses connections"))
        elif listener.is_full:
            self.try_again(attempt + 1)
        else:
            stream = network.join(caller, listener)
            stream.start(self._on_connected(stream))

    def _fail(self, error: OSError) -> None:
        self._on_connected(error)


class VirtualListener:
    """A port of a host that takes connections."""

    def __init__(self, owner: HostNetwork, address: Address, accept: Accept, backlog: int) -> None:
        self.address = address
        self._backlog_max = backlog
        self.host = owner.host
        self.life = owner.life
        self._loop = owner.network.loop
        self._accept = accept
        self._backlog: deque[VirtualStream] = deque()
        self._is_paused = False
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        return len(self._backlog) >= self._backlog_max

    def offer(self, stream: VirtualStream) -> None:
        """A connection has come; it is taken now or when the owner takes connections again."""
        self._backlog.append(stream)
        self._loop.call_soon(self._take, context=self.life.context)

    def _take(self) -> None:
        while self._backlog and not self._is_paused and not self._is_closed:
            stream = self._backlog.popleft()
            if not stream.is_shut:
                stream.start(self._accept(stream))

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._loop.call_soon(self._take, context=self.life.context)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self.host.listeners.get(self.address.port) is self:
            del self.host.listeners[self.address.port]
        while self._backlog:
            self._backlog.popleft().end_by_system()

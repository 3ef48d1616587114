"""The links of a node, and what can go wrong with them: cut, silent, slow.

They stand between the node and the real network, in the node's own process: no proxy, no second port, and while nothing
is wrong a call more for each read. Promises: bytes are never reordered or changed; what a silent link holds back goes
on when it is healed, as TCP would send it again; `cut` closes every connection and refuses new ones until `heal`.

Each port that the node opens has a link of its own (`Link`); who tests chooses by the port. What the node opens to
another node of its cluster is on the link to that node (`PeerLink`). A connection between two nodes is wholly in the
hands of the one that opened it, so a link between two nodes is broken by breaking a `PeerLink` in each.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, TypeAlias, cast

from ottla.types import Buffer
from ottla.world import BACKLOG, Accept, Address, Clock, Listener, Network, Part, Stream, StreamHandler, Tasks

Way = Literal["both", "incoming", "outgoing"]
"""What a silent link holds back, as its own node sees it."""
OnConnected: TypeAlias = Callable[[Stream | OSError], StreamHandler | None]

HELD_BYTES_MAX = 64 * 1024 * 1024
"""What a link keeps of one connection and direction before it lets the sender wait."""
_BUFFER_BYTES = 64 * 1024


class LinkedNetwork:
    """A network whose ports, and whose links to other nodes, can be cut off."""

    def __init__(
        self, network: Network, clock: Clock, tasks: Tasks, peer_of_port: Mapping[int, int] | None = None
    ) -> None:
        """`clock` and `tasks` are the real ones: a delay is real time even when the node's time is moved.

        `peer_of_port` tells which node of the cluster has which port; what connects elsewhere is left alone.
        """
        self._network = network
        self._clock = clock
        self._tasks = tasks
        self._peer_of_port = dict(peer_of_port or {})
        self.links: dict[int, Link] = {}
        """By port."""
        self.peers = {number: PeerLink(network, clock, tasks) for number in self._peer_of_port.values()}
        """By the number of the node at the other end."""

    def listen(self, host: str, port: int, accept: Accept, *, backlog: int = BACKLOG) -> Listener:
        link = Link(self._network, self._clock, self._tasks, host, port, accept, backlog)
        self.links[link.address.port] = link
        return link

    def connect(self, host: str, port: int, on_connected: OnConnected) -> None:
        peer = self._peer_of_port.get(port)
        if peer is None:
            self._network.connect(host, port, on_connected)
        else:
            self.peers[peer].connect(host, port, on_connected)

    def own_name(self, timeout_ms: float) -> Awaitable[str]:
        return self._network.own_name(timeout_ms)

    def close_all(self) -> None:
        """End every connection and every port, as the end of a process does."""
        for link in self.links.values():
            link.close()
            link.drop()
        for peer in self.peers.values():
            peer.cut()


class Switches:
    """What can go wrong with the connections of one link."""

    def __init__(self, clock: Clock, tasks: Tasks) -> None:
        self.clock = clock
        self.tasks = tasks
        self._streams: dict[LinkedStream, None] = {}
        self.is_plain = True
        self.holds_incoming = False
        self.holds_outgoing = False
        self.delay_ms = 0.0

    @property
    def connection_count(self) -> int:
        return len(self._streams)

    def silence(self, way: Way) -> None:
        """Let nothing through and close nothing; who connects finds an open port that never answers."""
        self.holds_incoming = self.holds_incoming or way != "outgoing"
        self.holds_outgoing = self.holds_outgoing or way != "incoming"
        self.is_plain = False

    def delay(self, delay_ms: float) -> None:
        """Let everything through that much later, in each direction."""
        self.delay_ms = delay_ms
        self.is_plain = not (self.holds_incoming or self.holds_outgoing or delay_ms)

    def drop(self) -> None:
        """Close what is connected, this once."""
        for stream in list(self._streams):
            stream.inner.abort()

    def heal(self) -> None:
        """Let everything be as it was; what was held back goes on."""
        self.holds_incoming = self.holds_outgoing = False
        self.delay_ms = 0.0
        self.is_plain = True
        for stream in list(self._streams):
            stream.hurry()

    def take(self, inner: Stream, owner: Callable[[Stream], StreamHandler | None]) -> LinkedStream | None:
        """The handler of a new connection, unless its owner refuses it."""
        stream = LinkedStream(self, inner)
        # To a type checker an attribute that can only be read is not one; the node only reads it.
        stream.handler = owner(cast(Stream, stream))
        if stream.handler is None:
            return None
        self._streams[stream] = None
        return stream

    def forget(self, stream: LinkedStream) -> None:
        self._streams.pop(stream, None)


class PeerLink(Switches):
    """The way from a node to another node of its cluster."""

    def __init__(self, network: Network, clock: Clock, tasks: Tasks) -> None:
        super().__init__(clock, tasks)
        self._network = network
        self.is_cut = False

    def connect(self, host: str, port: int, on_connected: OnConnected) -> None:
        def refuse() -> None:
            on_connected(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"))

        def connected(result: Stream | OSError) -> StreamHandler | None:
            if isinstance(result, OSError):
                return on_connected(result)
            if self.is_cut:  # meanwhile
                refuse()
                return None
            return self.take(result, on_connected)

        if self.is_cut:
            self.tasks.soon(refuse)
        else:
            self._network.connect(host, port, connected)

    def cut(self) -> None:
        """Close what is connected and let nothing connect."""
        self.is_cut = True
        self.drop()

    def heal(self) -> None:
        self.is_cut = False
        super().heal()


class Link(Switches):
    """A port of the node: a `Listener` to it, and the switches of the link."""

    def __init__(
        self, network: Network, clock: Clock, tasks: Tasks, host: str, port: int, accept: Accept, backlog: int
    ) -> None:
        super().__init__(clock, tasks)
        self._network = network
        self._backlog = backlog
        self._host = host
        self._accept_owner = accept
        self._listener: Listener | None = network.listen(host, port, self._accept, backlog=backlog)
        self.address: Address = self._listener.address
        self._is_paused = False
        self._is_closed = False

    # What can go wrong

    @property
    def is_cut(self) -> bool:
        return self._listener is None and not self._is_closed

    def cut(self) -> None:
        """Close what is connected and refuse who connects."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self.drop()

    def heal(self) -> None:
        if self._listener is None and not self._is_closed:
            self._listener = self._network.listen(self._host, self.address.port, self._accept, backlog=self._backlog)
            if self._is_paused:
                self._listener.pause()
        super().heal()

    def _accept(self, inner: Stream) -> StreamHandler | None:
        return self.take(inner, self._accept_owner)

    # To the node: a listener

    def pause(self) -> None:
        self._is_paused = True
        if self._listener is not None:
            self._listener.pause()

    def resume(self) -> None:
        self._is_paused = False
        if self._listener is not None:
            self._listener.resume()

    def close(self) -> None:
        self._is_closed = True
        if self._listener is not None:
            self._listener.close()
            self._listener = None


class LinkedStream:
    """One connection: a `Stream` to the node, the handler of the real one, and what is held back in between."""

    __slots__ = (
        "_buffer",
        "_incoming",
        "_is_closing",
        "_is_paused",
        "_link",
        "_outgoing",
        "handler",
        "inner",
        "local",
        "peer",
    )

    def __init__(self, link: Switches, inner: Stream) -> None:
        self._link = link
        self.inner = inner
        self.local: Address = inner.local
        self.peer: Address = inner.peer
        self.handler: StreamHandler | None = None
        self._incoming: deque[tuple[float, Buffer]] = deque()
        self._outgoing: deque[tuple[float, Buffer]] = deque()
        self._buffer: bytearray | None = None
        self._is_paused = False
        self._is_closing = False

    # From the peer: the handler of the real stream

    def get_buffer(self) -> memoryview:
        if self._link.is_plain and not self._incoming:
            self._buffer = None
            assert self.handler is not None, "read only while it is open"
            return self.handler.get_buffer()
        self._buffer = self._buffer or bytearray(_BUFFER_BYTES)
        return memoryview(self._buffer)

    def on_received(self, count: int) -> None:
        if self._buffer is None:
            assert self.handler is not None, "read only while it is open"
            self.handler.on_received(count)
            return
        due_ms = self._due_ms()
        self._incoming.append((due_ms, bytes(memoryview(self._buffer)[:count])))
        if sum(len(data) for _, data in self._incoming) > HELD_BYTES_MAX:
            self.inner.pause_reading()
        self._wake(due_ms, self._pass_incoming)

    def _pass_incoming(self) -> None:
        """Give the node what is due, as far as it takes it."""
        while self._incoming and not self._link.holds_incoming and not self._is_paused and self.handler is not None:
            due_ms, data = self._incoming[0]
            if due_ms > self._link.clock.monotonic_ms():
                self._wake(due_ms, self._pass_incoming)
                return
            self._incoming.popleft()
            room = self.handler.get_buffer()
            count = min(len(room), len(data))
            room[:count] = data[:count]
            if count < len(data):
                self._incoming.appendleft((due_ms, memoryview(data)[count:]))
            self.handler.on_received(count)
        if not self._incoming and not self._is_paused and not self._is_closing:
            self.inner.resume_reading()

    def on_drained(self) -> None:
        if self.handler is not None and not self._outgoing:
            self.handler.on_drained()

    def on_closed(self, error: OSError | None) -> None:
        self._link.forget(self)
        self._incoming.clear()
        self._outgoing.clear()
        handler, self.handler = self.handler, None
        if handler is not None:
            handler.on_closed(error)

    # From the node: a stream

    @property
    def unsent_bytes(self) -> int:
        if not self._outgoing:
            return self.inner.unsent_bytes
        return self.inner.unsent_bytes + sum(len(data) for _, data in self._outgoing)

    def send(self, parts: Sequence[Part]) -> None:
        if self._link.is_plain and not self._outgoing:
            self.inner.send(parts)
            return
        # A file slice is read now: by the time that the link is healed its file may be gone.
        data = b"".join(part if isinstance(part, bytes | bytearray | memoryview) else part.read() for part in parts)
        due_ms = self._due_ms()
        self._outgoing.append((due_ms, data))
        self._wake(due_ms, self._pass_outgoing)

    def _pass_outgoing(self) -> None:
        """Send the peer what is due."""
        if not self._outgoing:
            return
        while self._outgoing and not self._link.holds_outgoing:
            due_ms, data = self._outgoing[0]
            if due_ms > self._link.clock.monotonic_ms():
                self._wake(due_ms, self._pass_outgoing)
                return
            self._outgoing.popleft()
            self.inner.send([data])
        if self._outgoing:
            return
        if self._is_closing:
            self.inner.close()
        elif not self.inner.unsent_bytes and self.handler is not None:
            self.handler.on_drained()

    def pause_reading(self) -> None:
        self._is_paused = True
        self.inner.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        if self._incoming:
            self._link.tasks.soon(self._pass_incoming)
        else:
            self.inner.resume_reading()

    def close(self) -> None:
        self._is_closing = True
        if self._outgoing:
            self.inner.pause_reading()  # what is held back is still to be sent
        else:
            self.inner.close()

    def abort(self) -> None:
        self._is_closing = True
        self.inner.abort()

    # Time

    def hurry(self) -> None:
        """Nothing is late any more."""
        self._incoming = deque((0.0, data) for _, data in self._incoming)
        self._outgoing = deque((0.0, data) for _, data in self._outgoing)
        self._link.tasks.soon(self._pass_incoming)
        self._link.tasks.soon(self._pass_outgoing)

    def _due_ms(self) -> float:
        return self._link.clock.monotonic_ms() + self._link.delay_ms

    def _wake(self, due_ms: float, call: Callable[[], None]) -> None:
        """Call it when it is time; never from inside the call that is made now."""
        delay_ms = due_ms - self._link.clock.monotonic_ms()
        if delay_ms > 0:
            self._link.tasks.later(delay_ms, call)
        else:
            self._link.tasks.soon(call)

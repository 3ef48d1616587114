"""One virtual connection: two ends, and between them a bounded window of bytes in each direction.

The model is TCP as its owner meets it. Bytes leave in packets cut anywhere, each takes its own time, none overtakes
another of its direction. What has left and was not read yet fills the window; when it is full, what the owner sends
stays unsent, which is what back-pressure is made of. An orderly end follows the bytes; a reset drops them.

Where the way is cut, packets are lost and sent again after 0.2, 0.6, 1.4, ... seconds, so bytes arrive some time after
the way is free. An end that gets no acknowledgement, because the way there or the way back is cut, gives up after
`SILENCE_MS_MAX` and says nothing to the other, which is then half open: it learns by sending, from a reset. An end that
has nothing to send never learns of a cut at all.

Promises: those of `ottla/world/network.py`. A buffer is copied only when its bytes leave, so an owner that changes what
it has sent is found out; a file slice is read when its turn comes.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

from ottla.sim.life import Life
from ottla.sim.loop import VirtualLoop
from ottla.world import Address, Part, Slice, StreamHandler

if TYPE_CHECKING:
    from ottla.sim.network import Host, VirtualNetwork

END = b""
"""The packet that says that nothing follows."""
RESEND_US = 200_000
"""When a lost packet is sent again for the first time; each time after that the wait is doubled."""
SILENCE_MS_MAX = 30_000
"""How long a system sends unacknowledged bytes again before it gives the connection up."""


class Pace:
    """How fast a connection is, and how its bytes are cut."""

    __slots__ = ("delay_us", "packet_bytes", "read_bytes", "stall_chance", "window_bytes")

    def __init__(self, chance: Random) -> None:
        self.delay_us: tuple[int, int] = chance.choice(((20, 200), (50, 2_000), (1_000, 30_000)))
        self.stall_chance: float = chance.choice((0.0, 0.0, 0.01))
        """How often a packet is lost and sent again, which the owner sees as a long delay."""
        self.packet_bytes: tuple[int, int] = chance.choice(((1_460, 65_536), (1, 1_460), (1, 4_000), (65_536, 65_537)))
        self.read_bytes: int = chance.choice((1 << 20, 1 << 20, 5_000))
        """At most so many bytes arrive in one piece."""
        self.window_bytes: int = chance.choice((8_192, 65_536, 262_144))

    def delay(self, chance: Random) -> int:
        """How long one packet is on its way, in microseconds."""
        delay_us = chance.randrange(*self.delay_us)
        if self.stall_chance and chance.random() < self.stall_chance:
            delay_us += chance.randrange(200_000, 1_000_000)
        return delay_us


class VirtualStream:
    """One end of a connection."""

    __slots__ = (
        "_arrived",
        "_chance",
        "_error",
        "_flight",
        "_flight_until_us",
        "_handler",
        "_has_ended",
        "_in_window",
        "_is_closing",
        "_is_flying",
        "_is_lost",
        "_is_reading",
        "_is_waiting_to_write",
        "_is_woken",
        "_loop",
        "_network",
        "_queue",
        "_stalled_us",
        "_unheard",
        "host",
        "is_shut",
        "is_silent",
        "life",
        "local",
        "number",
        "other",
        "pace",
        "peer",
        "unsent_bytes",
    )

    other: VirtualStream

    def __init__(
        self, network: VirtualNetwork, host: Host, life: Life, local: Address, peer: Address, pace: Pace, number: int
    ) -> None:
        self._network = network
        self._loop: VirtualLoop = network.loop
        self._chance: Random = network.chance
        self.host = host
        self.life = life
        self.local = local
        self.peer = peer
        self.pace = pace
        self.number = number
        self.unsent_bytes = 0
        self.is_shut = False
        self.is_silent = False
        """Whether what this end sends is lost for ever, without anybody being told."""
        self._handler: StreamHandler | None = None
        self._queue: deque[memoryview | Slice] = deque()
        self._flight: deque[tuple[int, bytes]] = deque()
        """Packets on their way from here, with the time of their arrival."""
        self._flight_until_us = 0
        self._is_flying = False
        self._is_lost = False
        """Whether the first packet of the flight was lost: it arrives when it is sent again, if the way is free."""
        self._stalled_us = -1
        """Since when a packet waits for its acknowledgement because of a cut; -1 when none does."""
        self._unheard = 0
        """Bytes that were read at the other end, whose acknowledgement is lost."""
        self._in_window = 0
        """Bytes that have left here and were not read at the other end."""
        self._arrived = bytearray()
        """Bytes that have come here and were not read."""
        self._has_ended = False
        self._error: OSError | None = None
        self._is_reading = False
        self._is_waiting_to_write = False
        self._is_closing = False
        self._is_woken = False

    @property
    def is_idle(self) -> bool:
        """Whether everything sent from here has been read."""
        return not self._queue and not self._in_window

    def start(self, handler: StreamHandler | None) -> None:
        """Begin to read for `handler`; without one the connection is refused."""
        if handler is None:
            self._shut(None)
            return
        self._handler = handler
        self.resume_reading()

    # In

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_closing and self._handler is not None:
            self._is_reading = True
            self._wake()

    def _wake(self) -> None:
        """Let the owner see what has come, soon."""
        if not self._is_woken and not self.is_shut:
            self._is_woken = True
            self._call_soon(self._on_readable)

    def _on_readable(self) -> None:
        self._is_woken = False
        if self.is_shut:
            return
        if self._error is not None and (self._is_reading or self._is_waiting_to_write):
            self._shut(self._error)
            return
        handler = self._handler
        if not self._is_reading or handler is None:
            return
        arrived = self._arrived
        if not arrived:
            if self._has_ended:
                self._shut(None)
            return
        buffer = handler.get_buffer()
        assert len(buffer), "an owner gives a buffer with room"
        count = min(len(buffer), len(arrived), self.pace.read_bytes)
        buffer[:count] = arrived[:count]
        del arrived[:count]
        self.other._on_read(count)
        if arrived or self._has_ended:
            self._wake()
        handler.on_received(count)

    # Out

    def send(self, parts: Sequence[Part]) -> None:
        if self._is_closing or self.is_shut:
            return
        for part in parts:
            if isinstance(part, bytes | bytearray | memoryview):
                view = memoryview(part).cast("B")
                if len(view):
                    self._queue.append(view)
                    self.unsent_bytes += len(view)
            elif part.size:
                self._queue.append(part)
                self.unsent_bytes += part.size
        if self._error is not None:
            self._is_waiting_to_write = True
            self._wake()
        elif not self._is_waiting_to_write:
            try:
                self._write()
            except OSError as error:
                self._call_soon(self._shut, error)
                return
            self._is_waiting_to_write = bool(self._queue)

    def _write(self) -> None:
        """Let bytes leave while the window has room."""
        while self._queue and (room := self.pace.window_bytes - self._in_window) > 0:
            packet = bytearray()
            size = min(room, self._chance.randrange(*self.pace.packet_bytes))
            while self._queue and len(packet) < size:
                packet += self._take(size - len(packet))
            self.unsent_bytes -= len(packet)
            self._in_window += len(packet)
            self._fly(bytes(packet))

    def _take(self, size: int) -> bytes:
        """The next bytes of the queue, at most `size` of them and of one part."""
        head = self._queue[0]
        if isinstance(head, memoryview):
            data = bytes(head[:size])
            if size < len(head):
                self._queue[0] = head[size:]
            else:
                self._queue.popleft()
            return data
        size = min(size, head.size)
        data = head.file.read_at(head.position, size)
        if len(data) < size:
            raise OSError(errno.EIO, "the file ended before what was to be sent of it", head.file.path)
        if size < head.size:
            self._queue[0] = _Rest(head, size)
        else:
            self._queue.popleft()
        return data

    def _on_read(self, count: int) -> None:
        """The other end has read that much: there is room again, once this end hears of it."""
        network = self._network
        if not network.is_whole and self.other._is_blocked():
            self._unheard += count
            if self._queue:
                self._stall()
            return
        self._make_room(count)

    def _make_room(self, count: int) -> None:
        self._in_window -= count
        if self._queue and self._error is None:
            delay_us = self.pace.delay(self._chance)
            self._loop.call_at_us(self._loop.now_us + delay_us, self._on_writable, context=self.life.context)

    def _on_writable(self) -> None:
        if self.is_shut or not self._is_waiting_to_write:
            return
        try:
            self._write()
        except OSError as error:
            self._shut(error)
            return
        if self._queue:
            return
        self._is_waiting_to_write = False
        if self._is_closing:
            self._shut(None)
        elif self._handler is not None:
            self._handler.on_drained()

    # On the way: nobody's life, so that packets arrive after their sender's death.

    def _fly(self, packet: bytes) -> None:
        network = self._network
        delay_us = self.pace.delay(self._chance)
        if network.links.has_slow:
            delay_us += network.links.delay_us(self.host.name, self.other.host.name, len(packet))
        arrival_us = max(self._flight_until_us, self._loop.now_us + delay_us)
        self._flight_until_us = arrival_us
        self._flight.append((arrival_us, packet))
        if not network.is_whole and self._is_blocked():
            self._lose()
        else:
            self.fly_on()

    def fly_on(self) -> None:
        """Let the first packet arrive at its time, if the way is free. Called again when the way has become free."""
        network = self._network
        if self._is_flying or not (self._flight or self._stalled_us >= 0):
            return
        if network.is_whole or not self._is_blocked():
            self._is_flying = True
            arrival_us = self._flight[0][0] if self._flight and not self._is_lost else self._next_resend_us()
            network.call_at_us(arrival_us, self._on_arrival)

    def _on_arrival(self) -> None:
        network = self._network
        self._is_flying = False
        if self.is_silent or not (self._flight or self._stalled_us >= 0):
            return
        if not network.is_whole and self._is_blocked():
            self._lose()
            return
        self._is_lost = False
        if self._flight:
            packet = self._flight.popleft()[1]
            self.other._arrive(packet)
        elif (self.other.is_shut or self.other.life.is_over) and not self.other._flight:
            self.other.reset_other()  # bytes that have arrived before are sent again, and nobody knows of them any more
        if not network.is_whole and self.other._is_blocked():
            self._stall()
        else:
            self._stalled_us = -1
            if self._unheard:
                heard, self._unheard = self._unheard, 0
                self._make_room(heard)
        self.fly_on()

    def _is_blocked(self) -> bool:
        """Whether nothing of this end reaches the other."""
        network, other = self._network, self.other.host
        return network.is_blocked(self.host, other) or network.links.is_stalled(self.host.name, other.name, self.number)

    def _lose(self) -> None:
        """The first packet does not arrive."""
        self._is_lost = bool(self._flight)
        self._stall()

    def _stall(self) -> None:
        """There is something to be acknowledged, and no acknowledgement can come."""
        if self._stalled_us < 0:
            self._stalled_us = since_us = self._loop.now_us
            self._network.call_at_us(since_us + SILENCE_MS_MAX * 1_000, lambda: self._give_up(since_us))

    def _next_resend_us(self) -> int:
        wait_us, due_us = RESEND_US, self._stalled_us + RESEND_US
        while due_us <= self._loop.now_us:
            wait_us *= 2
            due_us += wait_us
        return due_us

    def _give_up(self, since_us: int) -> None:
        if self._stalled_us == since_us:
            self._stalled_us = -1
            self._is_lost = False
            self._flight.clear()
            self.fail(TimeoutError(errno.ETIMEDOUT, "connection timed out"))

    def _arrive(self, packet: bytes) -> None:
        """A packet has come to this end."""
        if self.is_shut or self.life.is_over:
            if packet:  # the answer to bytes for a connection that is no more
                self.reset_other()
        elif packet:
            self._arrived += packet
            self._wake()
        else:
            self._has_ended = True
            self._wake()

    # The end

    def close(self) -> None:
        if self._is_closing or self.is_shut:
            return
        self._is_reading = False
        self._is_closing = True
        if not self._queue:
            self._call_soon(self._shut, None)

    def abort(self) -> None:
        self._is_reading = False
        self._is_closing = True
        self._call_soon(self._shut, None)

    def _shut(self, error: OSError | None) -> None:
        if self.is_shut:
            return
        self._network.trace(f"{self} closed: {error or 'in order'}")
        has_timed_out = isinstance(error, TimeoutError)
        self.vanish(with_flight=has_timed_out)
        if has_timed_out:
            pass  # nothing was heard for so long that nothing is said either
        elif self._arrived or self._chance.random() < 0.1:
            self.reset_other()  # bytes that nobody will read: the peer is told that they were in vain
        else:
            self._fly(END)
        handler, self._handler = self._handler, None
        if handler is not None:
            handler.on_closed(error)

    def vanish(self, *, with_flight: bool = False) -> None:
        """Be no more, without a word to anybody; `with_flight` also what has left and not arrived."""
        if with_flight:
            self._flight.clear()
            self._stalled_us = -1
        self.is_shut = True
        self._is_closing = True
        self._is_reading = False
        self._queue.clear()
        self.unsent_bytes = 0

    def end_by_system(self) -> None:
        """The owner has died and the system closes what it had open: what has left arrives, then the end or a reset."""
        if not self.is_shut:
            self.vanish()
            if self._arrived or self._chance.random() < 0.3:
                self.reset_other()
            else:
                self._fly(END)

    def reset_other(self) -> None:
        """Tell the other end, after a while, that this one is gone."""
        self._flight.clear()
        delay_us = self.pace.delay(self._chance)
        self._network.call_at_us(self._loop.now_us + delay_us, self._reset_arrives)

    def _reset_arrives(self) -> None:
        if not self.is_silent and not self._is_blocked():
            self.other.fail(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))

    def fail(self, error: OSError) -> None:
        """The connection is broken at this end; bytes that were not read are lost."""
        if not self.is_shut and self._error is None:
            self._error = error
            self._arrived.clear()
            self._wake()

    def _call_soon(self, call: Callable[..., object], *args: object) -> None:
        self._loop.call_soon(call, *args, context=self.life.context)

    def __str__(self) -> str:
        return f"connection {self.number} {self.local}->{self.peer}"


class _Rest:
    """What is left to send of a file slice."""

    __slots__ = ("file", "position", "size")

    def __init__(self, part: Slice, sent: int) -> None:
        self.file = part.file
        self.position = part.position + sent
        self.size = part.size - sent

    def read(self) -> bytes:
        return self.file.read_at(self.position, self.size)

"""Two hosts and a connection between them, for tests of the virtual network."""

from __future__ import annotations

from random import Random

from ottla.sim import (
    Host,
    Life,
    VirtualClock,
    VirtualDisk,
    VirtualLoop,
    VirtualNetwork,
    VirtualNodeWorld,
    VirtualStream,
    node_world,
)
from ottla.world import Stream, StreamHandler


class End:
    def __init__(self, stream: Stream) -> None:
        assert isinstance(stream, VirtualStream)
        self.stream = stream
        self.received = bytearray()
        self.counts: list[int] = []
        self.closed: list[OSError | None] = []
        self._buffer = memoryview(bytearray(4096))

    def get_buffer(self) -> memoryview:
        return self._buffer

    def on_received(self, count: int) -> None:
        self.received += self._buffer[:count]
        self.counts.append(count)

    def on_drained(self) -> None:
        pass

    def on_closed(self, error: OSError | None) -> None:
        self.closed.append(error)


class Pair:
    """Two hosts and a connection between them."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = VirtualLoop()
        self.network = VirtualNetwork(self.loop, Random(seed))
        self.worlds = [self.make_world(name) for name in ("one", "two")]
        self.accepted: list[End] = []
        self.listener = self.worlds[1].network.listen("two", 9092, self.accept)
        self.calls: list[Stream | OSError] = []
        self.caller = self.call()

    def make_world(self, name: str) -> VirtualNodeWorld:
        clock = VirtualClock()
        self.loop.attach(clock)
        disk = VirtualDisk(Random(1), clock)
        return node_world(self.network, self.network.add_host(name), clock, disk, Life(name), name)

    @property
    def hosts(self) -> tuple[Host, Host]:
        return self.worlds[0].network.host, self.worlds[1].network.host

    def accept(self, stream: Stream) -> StreamHandler:
        self.accepted.append(End(stream))
        return self.accepted[-1]

    def call(self, port: int = 9092) -> End:
        ends: list[End] = []
        count = len(self.calls)

        def on_connected(result: Stream | OSError) -> StreamHandler | None:
            self.calls.append(result)
            if isinstance(result, OSError):
                return None
            ends.append(End(result))
            return ends[-1]

        self.worlds[0].network.connect("two", port, on_connected)
        self.loop.run_until(lambda: len(self.calls) > count)
        self.pass_ms(100)
        if not ends:
            assert isinstance(self.calls[-1], OSError)
            raise self.calls[-1]
        return ends[0]

    @property
    def called(self) -> End:
        return self.accepted[-1]

    @property
    def ends(self) -> tuple[VirtualStream, VirtualStream]:
        return self.network.open_connections()[0]

    def pass_ms(self, ms: float) -> None:
        done: list[int] = []
        self.loop.call_later(ms / 1000, done.append, 1)
        self.loop.run_until(lambda: bool(done))

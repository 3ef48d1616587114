"""The link between clients and a node, with an echo in the node's place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from ottla.testing.link import Link, LinkedNetwork
from ottla.world import Stream
from ottla.world.threads import running_world


class Echo:
    """Sends back what it gets; one that is told to pause takes nothing more after the next piece."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._buffer = bytearray(1000)
        self.got = b""
        self.is_pausing = False
        self.is_closed = False
        self.drained_count = 0

    def get_buffer(self) -> memoryview:
        return memoryview(self._buffer)

    def on_received(self, count: int) -> None:
        data = bytes(self._buffer[:count])
        self.got += data
        if self.is_pausing:
            self.stream.pause_reading()
        self.stream.send([data])

    def on_drained(self) -> None:
        self.drained_count += 1

    def on_closed(self, error: OSError | None) -> None:
        self.is_closed = True


class Bench:
    """A link, and the connections that were made through it."""

    def __init__(self) -> None:
        world = running_world()
        network = LinkedNetwork(world.network, world.clock, world.tasks)
        self.echoes: list[Echo] = []
        port = network.listen("127.0.0.1", 0, self._accept).address.port
        self.link: Link = network.links[port]
        self.network = network

    def _accept(self, stream: Stream) -> Echo:
        self.echoes.append(Echo(stream))
        return self.echoes[-1]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.link.address.port)


def with_link(test: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        bench = Bench()
        try:
            await test(bench)
        finally:
            bench.network.close_all()
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(main(), 30))


async def is_quiet(reader: asyncio.StreamReader) -> bool:
    try:
        await asyncio.wait_for(reader.readexactly(1), 0.05)
    except TimeoutError:
        return True
    return False


def test_a_link_with_nothing_wrong_passes_everything() -> None:
    async def test(bench: Bench) -> None:
        reader, writer = await bench.connect()
        data = bytes(range(256)) * 400
        writer.write(data)
        assert await reader.readexactly(len(data)) == data
        writer.close()
        while not bench.echoes[0].is_closed:
            await asyncio.sleep(0.001)
        assert bench.link.connection_count == 0

    with_link(test)


def test_a_cut_link_closes_and_refuses_and_has_its_port_again_when_healed() -> None:
    async def test(bench: Bench) -> None:
        reader, writer = await bench.connect()
        writer.write(b"x")
        await reader.readexactly(1)
        bench.link.cut()
        assert bench.link.is_cut
        assert await reader.read() == b""
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await bench.connect()
        bench.link.heal()
        reader, writer = await bench.connect()
        writer.write(b"again")
        assert await reader.readexactly(5) == b"again"
        writer.close()

    with_link(test)


@pytest.mark.parametrize("direction", ["both", "incoming", "outgoing"])
def test_a_silent_link_holds_back_its_direction_until_it_is_healed(direction: str) -> None:
    async def test(bench: Bench) -> None:
        reader, writer = await bench.connect()
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        bench.link.silence(direction)  # type: ignore[arg-type]  # one of them
        late_reader, late_writer = await bench.connect()
        writer.write(b"two")
        late_writer.write(b"late")
        assert await is_quiet(reader)
        assert await is_quiet(late_reader)
        reaches = direction == "outgoing"
        assert [echo.got for echo in bench.echoes] == ([b"onetwo", b"late"] if reaches else [b"one", b""])
        bench.link.heal()
        writer.write(b"three")
        assert await reader.readexactly(8) == b"twothree"
        assert await late_reader.readexactly(4) == b"late"
        writer.close()
        late_writer.close()

    with_link(test)


def test_a_slow_link_keeps_the_order_and_takes_its_time_each_way() -> None:
    async def test(bench: Bench) -> None:
        reader, writer = await bench.connect()
        bench.link.delay(50)
        begun = time.monotonic()
        for piece in (b"a" * 1500, b"b", b"c" * 3000):
            writer.write(piece)
            await asyncio.sleep(0.005)
        assert await reader.readexactly(4501) == b"a" * 1500 + b"b" + b"c" * 3000
        assert time.monotonic() - begun >= 0.1
        bench.link.delay(0)
        writer.write(b"quick")
        assert await reader.readexactly(5) == b"quick"
        writer.close()

    with_link(test)


def test_a_node_that_takes_nothing_is_not_fed_by_the_link() -> None:
    async def test(bench: Bench) -> None:
        reader, writer = await bench.connect()
        bench.link.delay(5)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        (echo,) = bench.echoes
        echo.is_pausing = True
        writer.write(b"x" * 2500)
        assert await reader.readexactly(1000) == b"x" * 1000
        assert await is_quiet(reader)
        echo.is_pausing = False
        echo.stream.resume_reading()
        assert await reader.readexactly(1500) == b"x" * 1500
        writer.close()

    with_link(test)


def test_what_a_node_has_sent_counts_as_unsent_and_is_sent_before_the_close() -> None:
    async def test(bench: Bench) -> None:
        reader, writer = await bench.connect()
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        (echo,) = bench.echoes
        bench.link.silence("outgoing")
        echo.stream.send([b"last ", b"words"])
        assert echo.stream.unsent_bytes == 10
        echo.stream.close()
        assert await is_quiet(reader)
        bench.link.heal()
        assert await reader.read() == b"last words"
        writer.close()

    with_link(test)


def test_a_node_is_told_when_what_was_held_back_has_left() -> None:
    async def test(bench: Bench) -> None:
        reader, writer = await bench.connect()
        bench.link.delay(5)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        assert bench.echoes[0].drained_count == 1
        assert bench.echoes[0].stream.unsent_bytes == 0
        writer.close()

    with_link(test)


def test_each_port_has_a_link_of_its_own() -> None:
    async def test(bench: Bench) -> None:
        other = bench.network.listen("127.0.0.1", 0, Echo)
        bench.link.cut()
        reader, writer = await asyncio.open_connection("127.0.0.1", other.address.port)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        writer.close()

    with_link(test)

"""`ottla/world/selector.py`: connections are called directly, and asyncio's own work goes on beside them."""

from __future__ import annotations

import asyncio
import logging
import select
import socket
from collections.abc import Iterator

import pytest

from ottla.world import Address, Stream
from ottla.world.system_loop import SystemNetwork

if not hasattr(select, "epoll"):
    pytest.skip("connections are the loop's own where there is no epoll", allow_module_level=True)

from ottla.world.selector import EVENTS_MAX, DirectSelector


@pytest.fixture
def selector() -> Iterator[DirectSelector]:
    selector = DirectSelector()
    yield selector
    selector.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_a_readable_descriptor_is_called_from_inside_select(
    selector: DirectSelector, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, far = pair
    seen: list[bytes] = []
    selector.add_reader(near.fileno(), lambda: seen.append(near.recv(10)))
    assert selector.select(0) == []
    far.send(b"x")
    assert selector.select(0) == [], "nothing is left for the loop to call"
    assert seen == [b"x"]
    selector.remove_reader(near.fileno())
    far.send(b"y")
    selector.select(0)
    assert seen == [b"x"]


def test_reader_and_writer_of_one_descriptor_come_and_go_apart(
    selector: DirectSelector, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, far = pair
    calls: list[str] = []
    fd = near.fileno()
    selector.add_writer(fd, lambda: calls.append("write"))
    selector.select(0)
    selector.add_reader(fd, lambda: calls.append(near.recv(1).decode()))
    far.send(b"r")
    selector.select(0)
    assert calls == ["write", "r", "write"]
    selector.remove_writer(fd)
    far.send(b"s")
    selector.select(0)
    assert calls == ["write", "r", "write", "s"]
    selector.remove_reader(fd)
    selector.remove_reader(fd)
    selector.remove_writer(fd)


def test_a_peer_that_hangs_up_is_told_to_the_reader(
    selector: DirectSelector, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, far = pair
    seen: list[bytes] = []
    selector.add_reader(near.fileno(), lambda: seen.append(near.recv(1)))
    far.close()
    selector.select(0)
    assert seen == [b""]


def test_a_connection_that_another_has_ended_is_not_called_any_more(selector: DirectSelector) -> None:
    pairs = [socket.socketpair() for _ in range(3)]
    called: list[int] = []

    def end_the_others(index: int) -> None:
        called.append(index)
        for near, _ in pairs:
            selector.remove_reader(near.fileno())

    for index, (near, far) in enumerate(pairs):
        selector.add_reader(near.fileno(), lambda index=index: end_the_others(index))  # type: ignore[misc]
        far.send(b"x")
    selector.select(0)
    assert len(called) == 1
    for near, far in pairs:
        near.close()
        far.close()


def test_a_call_that_raises_is_logged_and_the_next_one_still_made(
    selector: DirectSelector, caplog: pytest.LogCaptureFixture
) -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    called: list[int] = []

    def fail(index: int) -> None:
        called.append(index)
        raise RuntimeError("on purpose")

    for index, (near, far) in enumerate(pairs):
        selector.add_reader(near.fileno(), lambda index=index: fail(index))  # type: ignore[misc]
        far.send(b"x")
    with caplog.at_level(logging.ERROR):
        selector.select(0)
    assert sorted(called) == [0, 1]
    assert [record.exc_info[1].args for record in caplog.records if record.exc_info and record.exc_info[1]] == [
        ("on purpose",),
        ("on purpose",),
    ]
    for near, far in pairs:
        near.close()
        far.close()


def test_more_than_one_wake_up_serves_are_all_served_in_the_end(selector: DirectSelector) -> None:
    pairs = [socket.socketpair() for _ in range(EVENTS_MAX + 10)]
    seen: set[int] = set()
    for near, far in pairs:
        selector.add_reader(near.fileno(), lambda near=near: seen.add(near.recv(1)[0] + near.fileno()))  # type: ignore[misc]
        far.send(b"\0")
    selector.select(0)
    assert len(seen) == EVENTS_MAX
    selector.select(0)
    assert len(seen) == len(pairs)
    for near, far in pairs:
        near.close()
        far.close()


class Echo:
    """Sends everything back."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.buffer = bytearray(1 << 16)

    def get_buffer(self) -> memoryview:
        return memoryview(self.buffer)

    def on_received(self, count: int) -> None:
        self.stream.send([self.buffer[:count]])
        if self.stream.unsent_bytes:
            self.stream.pause_reading()

    def on_drained(self) -> None:
        self.stream.resume_reading()

    def on_closed(self, error: OSError | None) -> None:
        pass


def test_streams_threads_and_timers_share_the_loop() -> None:
    """An echo of more than the sockets' buffers hold, so that reading pauses and writers are added and removed."""
    data = bytes(range(256)) * 40_000

    async def main(selector: DirectSelector) -> bytes:
        loop = asyncio.get_running_loop()
        listener = SystemNetwork(loop, selector).listen("127.0.0.1", 0, Echo)
        address: Address = listener.address

        def client() -> bytes:
            with socket.create_connection(address) as sock, sock.makefile("rb") as stream:
                sender = loop.run_in_executor(None, sock.sendall, data)
                back = stream.read(len(data))
                assert sender is not None
                return back

        back = await asyncio.wait_for(loop.run_in_executor(None, client), 20)
        await asyncio.sleep(0.01)
        listener.close()
        return back

    selector = DirectSelector()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        assert runner.run(main(selector)) == data

"""Every promise of `ottla/world/network.py` and `tasks.py`, asked of the real loop and of the simulator's alike."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import pytest

from ottla.sim import run_virtual, virtual_node_world
from ottla.world import Address, File, Network, NodeWorld, Stream, StreamHandler
from ottla.world.system_loop import run_node

Main: TypeAlias = Callable[[NodeWorld], Coroutine[Any, Any, None]]
Run: TypeAlias = Callable[[Main], None]

SEEDS = range(5)


@pytest.fixture(params=["system", *(f"virtual {seed}" for seed in SEEDS)])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine in a world of one kind; every virtual one cuts and delays differently."""
    name = str(request.param)

    async def run_and_close(main: Main, world: NodeWorld) -> None:
        End.made.clear()
        await main(world)
        for end in End.made:
            end.stream.abort()
        await world.tasks.sleep_ms(0)

    def run(main: Main) -> None:
        if name == "system":
            run_node(lambda world, _stop: run_and_close(main, world))
        else:
            run_virtual(virtual_node_world(int(name.split()[1])), lambda world: run_and_close(main, world))

    return run


@pytest.fixture
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a file may be made."""
    return str(tmp_path / "file") if "system" in request.node.name else "/file"


class End:
    """An end of a connection that keeps what comes."""

    made: ClassVar[list[End]] = []

    def __init__(self, world: NodeWorld, stream: Stream, *, buffer_size: int = 1000) -> None:
        self.world = world
        self.stream = stream
        self.received = bytearray()
        self.buffer = memoryview(bytearray(buffer_size))
        self.drained_count = 0
        self.closed: list[OSError | None] = []
        self.made.append(self)

    def get_buffer(self) -> memoryview:
        assert not self.closed, "nothing is called after on_closed"
        return self.buffer

    def on_received(self, count: int) -> None:
        assert not self.closed, "nothing is called after on_closed"
        assert 0 < count <= len(self.buffer)
        self.received += self.buffer[:count]

    def on_drained(self) -> None:
        assert not self.closed, "nothing is called after on_closed"
        assert self.stream.unsent_bytes == 0
        self.drained_count += 1

    def on_closed(self, error: OSError | None) -> None:
        self.closed.append(error)

    async def until(self, is_so: Callable[[], bool]) -> None:
        for attempt in range(4_000):
            if is_so():
                return
            await self.world.tasks.sleep_ms(0.2 if attempt < 1_000 else 100)
        raise AssertionError("it did not happen")


async def connect(world: NodeWorld, address: Address, make: Callable[[Stream], StreamHandler | None]) -> Any:
    told = world.tasks.promise()
    is_inside = True

    def on_connected(result: Stream | OSError) -> StreamHandler | None:
        assert not is_inside, "never called from inside the call"
        handler = None if isinstance(result, OSError) else make(result)
        told.set_result(result if handler is None else handler)
        return handler

    world.network.connect("localhost", address.port, on_connected)
    is_inside = False
    return await told


async def pair(world: NodeWorld, *, buffer_size: int = 1000) -> tuple[End, End]:
    """Both ends of a new connection: the one that called, the one that was called."""
    accepted: list[End] = []

    def accept(stream: Stream) -> StreamHandler:
        accepted.append(End(world, stream, buffer_size=buffer_size))
        return accepted[-1]

    listener = world.network.listen("localhost", 0, accept)
    caller: End = await connect(world, listener.address, lambda stream: End(world, stream, buffer_size=buffer_size))
    await caller.until(lambda: bool(accepted))
    listener.close()
    return caller, accepted[0]


def test_bytes_arrive_whole_and_in_order_in_both_directions(run: Run) -> None:
    async def main(world: NodeWorld) -> None:
        caller, called = await pair(world)
        there = [bytes([number]) * (number * 7 + 1) for number in range(200)]
        back = bytes(range(256)) * 100
        for part in there:
            caller.stream.send([part])
        called.stream.send([back[:100], memoryview(back)[100:5000], bytearray(back[5000:])])
        await called.until(lambda: len(called.received) == sum(map(len, there)))
        await caller.until(lambda: len(caller.received) == len(back))
        assert called.received == b"".join(there)
        assert caller.received == back
        assert not caller.closed
        assert not called.closed

    run(main)


def test_both_ends_know_each_others_address(run: Run) -> None:
    async def main(world: NodeWorld) -> None:
        caller, called = await pair(world)
        assert caller.stream.local == called.stream.peer
        assert caller.stream.peer == called.stream.local
        assert all(part.isdigit() for part in called.stream.peer.host.split("."))

    run(main)


def test_what_the_peer_does_not_read_stays_unsent_and_drains_when_it_does(run: Run) -> None:
    async def main(world: NodeWorld) -> None:
        caller, called = await pair(world, buffer_size=1 << 18)
        called.stream.pause_reading()
        data = bytes(1 << 16) * 256
        caller.stream.send([data])
        await world.tasks.sleep_ms(50)
        assert 0 < caller.stream.unsent_bytes < len(data)
        assert caller.drained_count == 0
        before = caller.stream.unsent_bytes
        caller.stream.send([b"more"])
        assert caller.stream.unsent_bytes == before + 4
        assert not called.received
        called.stream.resume_reading()
        await called.until(lambda: len(called.received) == len(data) + 4)
        await caller.until(lambda: caller.drained_count == 1)
        assert caller.stream.unsent_bytes == 0
        assert called.received.endswith(b"more")

    run(main)


def test_no_drained_is_told_when_everything_left_at_once(run: Run) -> None:
    async def main(world: NodeWorld) -> None:
        caller, called = await pair(world)
        caller.stream.send([b"little"])
        assert caller.stream.unsent_bytes == 0
        await called.until(lambda: called.received == b"little")
        assert caller.drained_count == 0

    run(main)


@dataclass
class Piece:
    file: File
    position: int
    size: int

    def read(self) -> bytes:
        return self.file.read_at(self.position, self.size)


def test_file_slices_are_sent_between_buffers(run: Run, path: str) -> None:
    content = bytes(range(251)) * 2000

    async def main(world: NodeWorld) -> None:
        file = world.disk.open(path, create=True)
        file.write_at(0, content)
        caller, called = await pair(world, buffer_size=1 << 17)
        caller.stream.send([b"head", Piece(file, 10, 200_000), b"middle", Piece(file, 5, 3), Piece(file, 0, 0), b"end"])
        expected = b"head" + content[10:200_010] + b"middle" + content[5:8] + b"end"
        await called.until(lambda: len(called.received) == len(expected))
        assert called.received == expected
        file.close()

    run(main)


def test_close_sends_what_is_unsent_then_tells_both_ends(run: Run) -> None:
    async def main(world: NodeWorld) -> None:
        caller, called = await pair(world, buffer_size=1 << 18)
        data = bytes(1 << 20)
        caller.stream.send([data])
        caller.stream.close()
        assert not caller.closed, "never told from inside a call"
        caller.stream.send([b"too late"])
        await called.until(lambda: bool(called.closed))
        await caller.until(lambda: bool(caller.closed))
        assert caller.closed == [None]
        assert called.closed[0] is None or isinstance(called.closed[0], ConnectionResetError)
        if called.closed == [None]:
            assert called.received == data
        caller.stream.close()
        called.stream.abort()
        await world.tasks.sleep_ms(20)
        assert len(caller.closed) == len(called.closed) == 1, "told once"

    run(main)


def test_abort_loses_what_is_unsent_and_tells_both_ends(run: Run) -> None:
    async def main(world: NodeWorld) -> None:
        caller, called = await pair(world, buffer_size=1 << 18)
        called.stream.pause_reading()
        caller.stream.send([bytes(1 << 24)])
        caller.stream.abort()
        assert not caller.closed
        await caller.until(lambda: bool(caller.closed))
        assert caller.closed == [None]
        assert caller.stream.unsent_bytes == 0
        called.stream.resume_reading()
        await called.until(lambda: bool(called.closed))
        assert len(called.received) < 1 << 24

    run(main)


def test_a_send_to_a_peer_that_has_gone_is_told_by_on_closed(run: Run) -> None:
    async def main(world: NodeWorld) -> None:
        caller, called = await pair(world)
        called.stream.abort()
        await called.until(lambda: bool(called.closed))
        for _ in range(3):
            caller.stream.send([b"anybody there?"])
            await world.tasks.sleep_ms(1)
        await caller.until(lambda: bool(caller.closed))
        caller.stream.send([b"nobody"])
        assert caller.stream.unsent_bytes == 0

    run(main)


def test_a_host_knows_what_others_call_it(run: Run) -> None:
    """The host that runs this test may have no name at all: then it says so, in time."""

    async def main(world: NodeWorld) -> None:
        try:
            name = await world.network.own_name(1_000)
        except OSError:
            return
        assert name
        assert name == name.strip()

    run(main)


def test_a_port_that_nobody_listens_on_refuses(run: Run) -> None:
    async def main(world: NodeWorld) -> None:
        listener = world.network.listen("localhost", 0, lambda stream: None)
        listener.close()
        result = await connect(world, listener.address, lambda stream: None)
        assert isinstance(result, ConnectionRefusedError)

    run(main)


def test_a_connection_that_accept_refuses_is_closed(run: Run) -> None:
    async def main(world: NodeWorld) -> None:
        listener = world.network.listen("localhost", 0, lambda stream: None)
        caller: End = await connect(world, listener.address, lambda stream: End(world, stream))
        await caller.until(lambda: bool(caller.closed))
        assert not caller.received
        listener.close()

    run(main)


def test_a_port_can_be_had_only_once(run: Run) -> None:
    async def main(world: NodeWorld) -> None:
        network: Network = world.network
        listener = network.listen("localhost", 0, lambda stream: None)
        assert listener.address.port > 0
        with pytest.raises(OSError):
            network.listen("localhost", listener.address.port, lambda stream: None)
        listener.close()
        listener.close()
        network.listen("localhost", listener.address.port, lambda stream: None).close()

    run(main)


def test_a_paused_listener_leaves_connections_waiting(run: Run) -> None:
    async def main(world: NodeWorld) -> None:
        accepted: list[End] = []

        def accept(stream: Stream) -> StreamHandler:
            accepted.append(End(world, stream))
            return accepted[-1]

        listener = world.network.listen("localhost", 0, accept)
        listener.pause()
        caller: End = await connect(world, listener.address, lambda stream: End(world, stream))
        caller.stream.send([b"waiting"])
        await world.tasks.sleep_ms(20)
        assert not accepted
        listener.resume()
        await caller.until(lambda: bool(accepted) and accepted[0].received == b"waiting")
        listener.close()

    run(main)


def test_calls_come_in_order_and_never_from_inside(run: Run) -> None:
    async def main(world: NodeWorld) -> None:
        tasks = world.tasks
        done: list[str] = []
        tasks.soon(lambda: done.append("first"))
        tasks.soon(lambda: done.append("second"))
        tasks.later(30, lambda: done.append("late"))
        tasks.later(10, lambda: done.append("early"))
        cancelled = tasks.later(5, lambda: done.append("never"))
        assert done == []
        cancelled.cancel()
        begun = world.clock.monotonic_ms()
        await tasks.sleep_ms(60)
        assert done == ["first", "second", "early", "late"]
        assert world.clock.monotonic_ms() - begun >= 59
        cancelled.cancel()

    run(main)


def test_a_thread_gives_its_result_or_its_exception_back_and_others_run_meanwhile(run: Run) -> None:
    async def main(world: NodeWorld) -> None:
        done: list[str] = []
        waiting = world.tasks.in_thread(lambda: done.append("worked"))
        world.tasks.soon(lambda: done.append("meanwhile"))
        await waiting
        assert sorted(done) == ["meanwhile", "worked"]
        assert await world.tasks.in_thread(lambda: 42) == 42

        def fail() -> None:
            raise OSError(5, "the device is gone")

        with pytest.raises(OSError, match="the device is gone"):
            await world.tasks.in_thread(fail)
        assert await world.tasks.in_thread(lambda: 43, at_once=True) == 43
        with pytest.raises(OSError, match="the device is gone"):
            await world.tasks.in_thread(fail, at_once=True)

    run(main)


def test_a_task_that_raises_is_an_error_line_with_its_name(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("a mistake")

    async def main(world: NodeWorld) -> None:
        with caplog.at_level(logging.ERROR):
            task = world.tasks.spawn(fail(), "the unlucky one")
            await world.tasks.sleep_ms(5)
            assert task.done()

    run(main)
    assert [record.getMessage() for record in caplog.records] == ["[Tasks] the unlucky one failed"]


def test_a_cancelled_task_ends_quietly(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    ended: list[str] = []

    async def wait(world: NodeWorld) -> None:
        try:
            await world.tasks.promise()
        finally:
            ended.append("ended")

    async def main(world: NodeWorld) -> None:
        task = world.tasks.spawn(wait(world), "the patient one")
        await world.tasks.sleep_ms(1)
        assert task.cancel()
        await world.tasks.sleep_ms(1)
        assert task.done()

    run(main)
    assert ended == ["ended"]
    assert not caplog.records


def test_a_promise_wakes_who_awaits_it_and_tells_callbacks(run: Run) -> None:
    async def main(world: NodeWorld) -> None:
        promise = world.tasks.promise()
        told: list[object] = []
        promise.add_done_callback(lambda done: told.append(done.result()))
        world.tasks.soon(lambda: promise.set_result("here"))
        assert await promise == "here"
        await world.tasks.sleep_ms(0)
        assert told == ["here"]
        broken = world.tasks.promise()
        broken.set_exception(OSError("gone"))
        with pytest.raises(OSError, match="gone"):
            await broken

    run(main)

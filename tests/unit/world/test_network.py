"""`ottla/world/system_loop.py`: what only the real network has. What every network promises is in
test_network_contract.py."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import resource
import socket
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from ottla.world import Address, Listener, NodeWorld, Stream
from ottla.world.system import SystemDisk
from ottla.world.system_loop import INLINE_MAX, SystemListener, SystemStream, run_node


class Sink:
    """Takes everything and remembers how it ended."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.buffer = bytearray(65536)
        self.drained = 0
        self.closed: list[OSError | None] = []

    def get_buffer(self) -> memoryview:
        return memoryview(self.buffer)

    def on_received(self, count: int) -> None:
        self.received += self.buffer[:count]

    def on_drained(self) -> None:
        self.drained += 1

    def on_closed(self, error: OSError | None) -> None:
        self.closed.append(error)


class Part:
    """A slice of a file."""

    def __init__(self, file: Any, position: int, size: int) -> None:
        self.file, self.position, self.size = file, position, size

    def read(self) -> bytes:
        data: bytes = self.file.read_at(self.position, self.size)
        return data

    def __len__(self) -> int:
        return self.size


def _all_descriptors() -> list[int]:
    """Every descriptor that this process may still have."""
    taken = []
    while True:
        try:
            taken.append(os.dup(0))
        except OSError as error:
            if error.errno == errno.EMFILE:
                return taken
            raise


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)


def run(test: Callable[[NodeWorld], Coroutine[Any, Any, None]]) -> None:
    run_node(lambda world, stop: test(world))


def test_an_empty_host_hears_ipv4_and_ipv6_and_tells_an_ipv4_peer_as_such() -> None:
    async def test(world: NodeWorld) -> None:
        peers: list[Address] = []

        def accept(stream: Stream) -> Sink:
            peers.append(stream.peer)
            return Sink()

        listener = world.network.listen("", 0, accept)
        families = [(socket.AF_INET, "127.0.0.1")]
        if listener.address.host == "::":
            families.append((socket.AF_INET6, "::1"))
        for family, host in families:
            with socket.socket(family) as client:
                client.connect((host, listener.address.port))
                await until(lambda: peers)
            assert peers.pop().host == host
        listener.close()

    run(test)


def test_a_connection_tries_every_address_of_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: NodeWorld) -> None:
        sink = Sink()
        listener = world.network.listen("127.0.0.1", 0, lambda stream: sink)
        port = listener.address.port
        loop = asyncio.get_running_loop()

        async def two_addresses(host: str, port: int, **options: Any) -> Any:
            found = ("127.0.0.2", "127.0.0.1") if host == "name" else (host,)
            return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, port)) for address in found]

        monkeypatch.setattr(loop, "getaddrinfo", two_addresses)
        ends: list[Stream | OSError] = []

        def connected(end: Stream | OSError) -> Sink:
            ends.append(end)
            return Sink()

        world.network.connect("name", port, connected)
        await until(lambda: ends)
        assert not isinstance(ends[0], OSError)
        ends[0].abort()
        await until(lambda: sink.closed)
        listener.close()

    run(test)


def test_a_listener_paused_by_its_owner_takes_no_more_of_the_same_wake_up() -> None:
    async def test(world: NodeWorld) -> None:
        taken: list[Stream] = []

        def accept(stream: Stream) -> Sink:
            taken.append(stream)
            listener.pause()
            return Sink()

        listener: Listener = world.network.listen("127.0.0.1", 0, accept)
        clients = [socket.create_connection(listener.address) for _ in range(5)]
        for count in range(1, 6):
            await asyncio.sleep(0.02)
            assert len(taken) == count
            listener.resume()
        for client in clients:
            client.close()
        listener.close()
        listener.resume()  # after the end it does nothing
        await asyncio.sleep(0.01)

    run(test)


def test_out_of_descriptors_connections_wait_until_there_are_some(caplog: pytest.LogCaptureFixture) -> None:
    async def test(world: NodeWorld) -> None:
        taken: list[Stream] = []

        def accept(stream: Stream) -> Sink:
            taken.append(stream)
            return Sink()

        listener = world.network.listen("127.0.0.1", 0, accept)
        client = socket.socket()
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = max(int(name) for name in os.listdir("/proc/self/fd")) + 1
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (used, before[1]))
            fillers = _all_descriptors()
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, tuple(listener.address))
            await until(lambda: caplog.records)
            assert taken == []
        finally:
            for filler in fillers:
                os.close(filler)
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        await until(lambda: taken)
        assert len(caplog.records) == 1
        client.close()
        listener.close()

    run(test)


@pytest.mark.parametrize("size", [100, INLINE_MAX, INLINE_MAX + 1, 5_000_000])
def test_slices_of_any_size_arrive_between_buffers(size: int, tmp_path: Path) -> None:
    async def test(world: NodeWorld) -> None:
        content = os.urandom(size + 10)
        (tmp_path / "log").write_bytes(content)
        file = SystemDisk().open(str(tmp_path / "log"), read_only=True)
        ends: list[Stream] = []

        def accept(stream: Stream) -> Sink:
            ends.append(stream)
            stream.send([b"head", Part(file, 5, size), b"", bytearray(b"tail"), Part(file, 0, 0)])
            return Sink()

        listener = world.network.listen("127.0.0.1", 0, accept)
        sink = Sink()
        world.network.connect("127.0.0.1", listener.address.port, lambda end: sink)
        await until(lambda: len(sink.received) == size + 8)
        assert sink.received == b"head" + content[5 : size + 5] + b"tail"
        await until(lambda: ends[0].unsent_bytes == 0)
        ends[0].close()
        await until(lambda: sink.closed)
        listener.close()
        file.close()

    run(test)


class CountedSocket(socket.socket):
    """A real socket that writes down what each send was asked to take and what it took; None where it took nothing."""

    calls: list[tuple[int, int | None]]

    def send(self, data: Any, flags: int = 0) -> int:
        return self.counted(len(data), lambda: super(CountedSocket, self).send(data, flags))

    def sendmsg(self, buffers: Any, ancdata: Any = (), flags: int = 0) -> int:  # type: ignore[override]
        asked = sum(map(len, buffers))
        return self.counted(asked, lambda: super(CountedSocket, self).sendmsg(buffers, ancdata, flags))

    def counted(self, asked: int, call: Callable[[], int]) -> int:
        try:
            taken = call()
        except BlockingIOError:
            self.calls.append((asked, None))
            raise
        self.calls.append((asked, taken))
        return taken


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([("file", 3_000_000)], id="one slice"),
        pytest.param([("bytes", 30), ("file", 70_000), ("bytes", 20), ("file", 900_000), ("file", 40_000)], id="many"),
        pytest.param([("bytes", 2_000_000)], id="one buffer"),
        pytest.param([("bytearray", 2_000_000)], id="one bytearray"),
        pytest.param([("bytes", 400_000), ("bytes", 10), ("bytes", 900_000)], id="buffers"),
    ],
)
def test_a_stream_waits_after_a_partial_send_instead_of_asking_a_full_socket_again(
    parts: list[tuple[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer reads only while the stream waits, so a second try after a partial send would find the socket full."""
    content = os.urandom(3_000_000)
    (tmp_path / "log").write_bytes(content)
    sendfile = os.sendfile

    async def test(world: NodeWorld) -> None:
        file = SystemDisk().open(str(tmp_path / "log"), read_only=True)
        kinds = {"bytes": bytes, "bytearray": bytearray}
        sent = [Part(file, 0, size) if kind == "file" else kinds[kind](content[:size]) for kind, size in parts]
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as peer:
            accepted, _ = server.accept()
            sock = CountedSocket(fileno=accepted.detach())
            sock.calls = []
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 50_000)
            monkeypatch.setattr(os, "sendfile", lambda out, *rest: sock.counted(rest[-1], lambda: sendfile(out, *rest)))
            peer.setblocking(False)
            stream = SystemStream(asyncio.get_running_loop(), sock)
            stream.start(Sink())
            stream.send(sent)
            received = bytearray()
            total = sum(size for _, size in parts)
            async with asyncio.timeout(5):
                while len(received) < total:
                    with contextlib.suppress(BlockingIOError):
                        received += peer.recv(1 << 20)
                    await asyncio.sleep(0)
            assert received == b"".join(content[:size] for _, size in parts)
            assert stream.unsent_bytes == 0
            after_partial = [
                following
                for (asked, taken), (_, following) in itertools.pairwise(sock.calls)
                if taken is not None and taken < asked
            ]
            assert after_partial, "no send was partial"
            assert None not in after_partial
            stream.abort()
            await asyncio.sleep(0)
        file.close()

    run(test)


def test_a_file_that_ends_before_its_slice_breaks_the_connection_and_is_told(tmp_path: Path) -> None:
    async def test(world: NodeWorld) -> None:
        (tmp_path / "log").write_bytes(b"x" * 10)
        file = SystemDisk().open(str(tmp_path / "log"), read_only=True)
        sender = Sink()

        def accept(stream: Stream) -> Sink:
            stream.send([Part(file, 0, INLINE_MAX + 1)])
            return sender

        listener = world.network.listen("127.0.0.1", 0, accept)
        sink = Sink()
        world.network.connect("127.0.0.1", listener.address.port, lambda end: sink)
        await until(lambda: sender.closed and sink.closed)
        assert isinstance(sender.closed[0], OSError)
        assert "ended before" in str(sender.closed[0])
        listener.close()
        file.close()

    run(test)


def test_many_small_buffers_leave_in_order() -> None:
    async def test(world: NodeWorld) -> None:
        pieces = [bytes([number % 256]) * (number % 7) for number in range(5000)]

        def accept(stream: Stream) -> Sink:
            stream.send(pieces)
            stream.close()
            return Sink()

        listener = world.network.listen("127.0.0.1", 0, accept)
        sink = Sink()
        world.network.connect("127.0.0.1", listener.address.port, lambda end: sink)
        await until(lambda: sink.closed)
        assert sink.received == b"".join(pieces)
        assert sink.closed == [None]
        listener.close()

    run(test)


def test_the_listener_is_the_systems() -> None:
    async def test(world: NodeWorld) -> None:
        listener = world.network.listen("127.0.0.1", 0, lambda stream: None)
        assert isinstance(listener, SystemListener)
        with pytest.raises(OSError, match="in use"):
            world.network.listen("127.0.0.1", listener.address.port, lambda stream: None)
        listener.close()

    run(test)


class Resolver:
    """Names and addresses as a test says, in place of the system's resolver."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, addresses: dict[str, str], names: dict[str, str]) -> None:
        self.addresses, self.names = addresses, names
        self.can_answer = threading.Event()
        self.can_answer.set()
        monkeypatch.setattr(socket, "gethostname", lambda: "me")
        monkeypatch.setattr(socket, "getaddrinfo", self._addresses_of)
        monkeypatch.setattr(socket, "getnameinfo", self._name_of)

    def _addresses_of(self, host: str, *_: object, **__: object) -> list[Any]:
        self.can_answer.wait()
        if host not in self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        six = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1", 0, 0, 0))
        return [six, (socket.AF_INET, socket.SOCK_STREAM, 6, "", (self.addresses[host], 0))]

    def _name_of(self, address: tuple[str, int], flags: int) -> tuple[str, str]:
        assert flags == socket.NI_NAMEREQD
        if address[0] not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.names[address[0]], "0"


@pytest.mark.parametrize(
    ("addresses", "names", "expected"),
    [
        pytest.param(
            {"me": "10.1.1.1", "me.example": "10.1.1.1"}, {"10.1.1.1": "me.example"}, "me.example", id="canonical"
        ),
        pytest.param({"me": "10.1.1.1"}, {}, "10.1.1.1", id="an address without a name"),
        pytest.param(
            {"me": "10.1.1.1", "other": "10.2.2.2"}, {"10.1.1.1": "other"}, "10.1.1.1", id="the name of another address"
        ),
    ],
)
def test_a_hosts_own_name_is_found_as_java_finds_it(
    monkeypatch: pytest.MonkeyPatch, addresses: dict[str, str], names: dict[str, str], expected: str
) -> None:
    Resolver(monkeypatch, addresses, names)

    async def test(world: NodeWorld) -> str:
        return await world.network.own_name(60_000)

    assert run_node(lambda world, _stop: test(world)) == expected


def test_a_host_without_an_address_has_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    Resolver(monkeypatch, {}, {})

    async def test(world: NodeWorld) -> None:
        with pytest.raises(OSError, match="me: Name or service not known"):
            await world.network.own_name(60_000)

    run_node(lambda world, _stop: test(world))


def test_a_resolver_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by the caller, nor at the end of the loop; what it says in the end is heard by nobody."""
    resolver = Resolver(monkeypatch, {"me": "10.1.1.1"}, {})
    resolver.can_answer.clear()

    async def test(world: NodeWorld) -> None:
        with pytest.raises(OSError, match="no answer"):
            await world.network.own_name(1)

    run_node(lambda world, _stop: test(world))
    (waiting,) = [thread for thread in threading.enumerate() if thread.name == "own-name"]
    assert waiting.daemon
    resolver.can_answer.set()
    waiting.join()

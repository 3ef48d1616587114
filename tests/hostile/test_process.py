"""Clients that do everything wrong, and a probe beside them that must be answered all the time."""

from __future__ import annotations

import os
import random
import resource
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.server.roles import ROLES
from ottla.wire import APIS, encode
from ottla.wire.frames import write_request
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.header import RequestHeader
from ottla.wire.messages.metadata import MetadataRequest
from tests.hostile.probe import watched
from tests.support.golden import golden_messages
from tests.support.mutation import mutations
from tests.support.ready import is_ready
from tests.support.server import METADATA_KEY, METADATA_VERSION, Server, Settings, run_ottla
from tests.support.survey import QUIET, TIMEOUT_S

SEED = 20261115
MB = 1_000_000
ROUNDS = 60 if os.environ.get("OTTLA_SOAK") else 6
BATCH = 100
CLOSE_S = 10.0
FETCH_VERSION = 12
WARNINGS_MAX = 60
"""Of a whole module of attacks: each kind of complaint is written once in ten seconds."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("hostile")
    settings = Settings(directory / "data", auto_create_topics_enable="true")
    properties = settings.write(directory / "server.properties")
    made = run_ottla("storage", "format", "-t", "9i0_JSaRSF6dr5bWoMQO8g", "-c", properties)
    assert made.returncode == 0, made.stderr
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with Server.ottla(properties) as running:
            yield running
            running.stop()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert running.errors() == []
    assert len(running.complaints()) < WARNINGS_MAX, "the same is said again and again"


def controller_port(server: Server) -> int:
    line = next(line for line in server.log().splitlines() if "[SocketServer CONTROLLER] Awaiting connections" in line)
    return int(line.rpartition(":")[2].split()[0])


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def golden_requests(role: str) -> list[tuple[str, bytes]]:
    """A request of each API that the role serves, in its newest version, as Kafka wrote it, with a header."""
    by_name = {f"{api.name}Request": api for api in APIS.values()}
    found: dict[str, bytes] = {}
    for line in golden_messages():
        api = by_name.get(line["name"])
        if api is None or api.name not in ROLES[role].packages or line["version"] != api.advertised.last:
            continue
        header = RequestHeader(api.key, line["version"], 7, "hostile")
        head = encode(header, api.request_header_version(line["version"]))
        found.setdefault(api.name, head + bytes.fromhex(line["hex"]))
    assert set(found) == set(ROLES[role].packages)
    return sorted(found.items())


@contextmanager
def connections(port: int, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(("127.0.0.1", port), CLOSE_S)) for _ in range(count)]


def send_each(port: int, frames: Sequence[bytes]) -> None:
    """Every frame on a connection of its own, which is closed soon after, whether there was an answer or not."""
    for place in range(0, len(frames), BATCH):
        with connections(port, len(frames[place : place + BATCH])) as sockets:
            for one, frame in zip(sockets, frames[place : place + BATCH], strict=True):
                one.sendall(frame)
            time.sleep(0.02)


def must_be_closed(port: int, frames: Sequence[bytes], *, half_close: bool = False) -> None:
    """Every frame on a connection of its own; the broker closes each, without an answer."""
    for place in range(0, len(frames), BATCH):
        with connections(port, len(frames[place : place + BATCH])) as sockets:
            for one, frame in zip(sockets, frames[place : place + BATCH], strict=True):
                one.sendall(frame)
                if half_close:
                    one.shutdown(socket.SHUT_WR)
            for number, one in enumerate(sockets):
                assert is_closed(one), f"{frames[place + number][:60].hex()} is kept open"


def is_closed(one: socket.socket) -> bool:
    try:
        return one.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def test_random_bytes(server: Server) -> None:
    chance = random.Random(SEED)
    noise = [chance.randbytes(chance.choice([1, 4, 10, 100, 3000])) for _ in range(50 * ROUNDS)]
    with watched(server, growth_max=16 * MB):
        send_each(server.port, noise)
        send_each(server.port, [framed(one) for one in noise])
        send_each(controller_port(server), noise)


@pytest.mark.parametrize("role", ["broker", "controller"])
def test_requests_that_are_cut_off(role: str, server: Server) -> None:
    """A frame that says truly how little it carries, and one whose rest never comes."""
    chance = random.Random(SEED)
    port = server.port if role == "broker" else controller_port(server)
    short, torn = [], []
    for _, request in golden_requests(role):
        for _ in range(ROUNDS):
            short.append(framed(request[: chance.randrange(len(request))]))
            torn.append(framed(request)[: chance.randrange(1, 4 + len(request))])
    with watched(server, growth_max=24 * MB):
        must_be_closed(port, short)
        must_be_closed(port, torn, half_close=True)


@pytest.mark.parametrize("role", ["broker", "controller"])
def test_requests_with_wrong_bytes(role: str, server: Server) -> None:
    """Whatever they have become, they are answered or closed, and nobody else is concerned. (But by UnregisterBroker:
    with the right id in it, it does what it says.)"""
    port = server.port if role == "broker" else controller_port(server)
    frames = [
        framed(mutated)
        for number, (name, request) in enumerate(golden_requests(role))
        if name != "UnregisterBroker"
        for mutated in mutations(request, seed=SEED + number, rounds=2 * ROUNDS)
    ]
    with watched(server, growth_max=32 * MB):
        send_each(port, frames)


def test_sizes_that_cannot_be(server: Server) -> None:
    sizes = [2**31 - 1, -1, -(2**31), 104_857_601, 0, 3]
    with watched(server, growth_max=8 * MB):
        must_be_closed(server.port, [struct.pack(">i", size) + bytes(1000) for size in sizes * 10])


def test_counts_that_the_frame_does_not_carry(server: Server) -> None:
    """Arrays of two billion elements, and arrays in arrays."""
    metadata = struct.pack(">hhih", 3, 1, 1, -1)
    frames = [
        metadata + struct.pack(">i", 2**31 - 1) + b"\0\1a" * 1000,
        struct.pack(">hhihB", 3, 12, 1, -1, 0) + b"\xff\xff\xff\xff\x0f",
        struct.pack(">hhih", 19, 2, 1, -1) + struct.pack(">ihhiii", 1, 0, -1, 2**31 - 1, 2**31 - 1, 2**31 - 1),
        # A compact array of the most elements that ten megabytes of zeros can be.
        struct.pack(">hhihB", 3, 12, 1, -1, 0) + b"\x80\x80\x80\x05" + bytes(10 * MB),
    ]
    with watched(server, growth_max=64 * MB):
        must_be_closed(server.port, [framed(one) for one in frames * 3])


def test_connections_that_break_off(server: Server) -> None:
    """Half a frame, and then the peer is gone with a reset, as a machine that lost its power and came back."""
    with watched(server, growth_max=16 * MB):
        for _ in range(5):
            with connections(server.port, BATCH) as sockets:
                for number, one in enumerate(sockets):
                    one.sendall(b"\0\0\1\0\0\3"[: number % 7])
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_a_thousand_connections_that_never_send(server: Server) -> None:
    with watched(server, growth_max=24 * MB), connections(server.port, 1000) as sockets:
        time.sleep(1)
        assert not is_ready(*sockets[:900:30]), "the silent are not closed before their time"


def test_a_thousand_frames_that_do_not_come_to_their_end(server: Server) -> None:
    """Each says that a hundred megabytes follow."""
    with watched(server, growth_max=32 * MB), connections(server.port, 1000) as sockets:
        for one in sockets:
            one.sendall(struct.pack(">i", 104_857_600) + b"\0\0\0\x09")
        time.sleep(1)


def test_clients_that_never_read_what_they_fetch(server: Server) -> None:
    """Fifty clients ask for a megabyte a hundred times each, which would be five gigabytes."""
    producer = Producer({"bootstrap.servers": server.address, "linger.ms": 5, **QUIET})
    for _ in range(10_000):
        producer.produce("much", bytes(1000), partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MB)
    body = FetchRequest(
        max_wait_ms=100, min_bytes=1, max_bytes=MB, topics=[FetchTopic(topic="much", partitions=[partition])]
    )
    frame = bytes(write_request(RequestHeader(1, FETCH_VERSION, 1, "greedy"), body))
    with watched(server, growth_max=48 * MB), connections(server.port, 50) as sockets:
        for one in sockets:
            one.sendall(frame * 100)
        time.sleep(2)


def test_clients_that_ask_and_ask_and_never_read(server: Server) -> None:
    """The broker stops to read from them, so they cannot send any more."""
    frame = bytes(
        write_request(RequestHeader(METADATA_KEY, METADATA_VERSION, 1, "asker"), MetadataRequest(topics=None))
    )
    with watched(server, growth_max=48 * MB), connections(server.port, 20) as sockets:
        stuck = 0
        for one in sockets:
            one.setblocking(False)
        until = time.monotonic() + CLOSE_S
        while time.monotonic() < until and stuck < len(sockets):
            stuck = 0
            for one in sockets:
                try:
                    one.send(frame * 1000)
                except BlockingIOError:
                    stuck += 1
            time.sleep(0.01)
        assert stuck == len(sockets)


def test_a_huge_produce_that_comes_slowly(server: Server) -> None:
    """Ten clients send a frame of fifty megabytes, a piece now and then. The memory is a few times the 13 MB that have
    come (a buffer grows in steps, and is copied when it does), not the 500 MB that were announced."""
    with watched(server, growth_max=80 * MB), connections(server.port, 10) as sockets:
        for one in sockets:
            one.sendall(struct.pack(">ihhih", 50 * MB, 0, 9, 1, -1))
        for _ in range(20):
            for one in sockets:
                one.sendall(bytes(64 * 1024))
            time.sleep(0.05)


def test_more_connections_than_the_process_may_have_files(tmp_path: Path) -> None:
    """Those that are there are served; new ones wait at the port, and are served once there is room again."""
    settings = Settings(tmp_path / "data", socket_listen_backlog_size="300")
    properties = settings.write(tmp_path / "server.properties")
    assert run_ottla("storage", "format", "-t", "9i0_JSaRSF6dr5bWoMQO8g", "-c", properties).returncode == 0
    server = Server.ottla(properties)
    with server:
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (150, 150))
        with watched(server, growth_max=16 * MB), connections(server.port, 300):
            time.sleep(1)
        with watched(server, growth_max=16 * MB):
            time.sleep(0.2)
    assert [line for line in server.errors() if line.startswith("Traceback")] == []
    assert len(server.complaints()) < 10, server.log_tail()

"""Bad input at the door of a whole node: it answers or closes, others go on, memory is bounded, nothing is an ERROR."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.node import Node
from ottla.server.roles import ROLES
from ottla.wire import APIS, Api, encode
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.header import RequestHeader
from tests.support.golden import golden_messages
from tests.unit.server.nodes import Client
from tests.unit.server.whole_node import Fed, with_node

BY_NAME = {f"{api.name}Request": api for api in APIS.values()}


def frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def golden_frames(role: str, *, newest_only: bool) -> Iterator[tuple[Api, int, bytes]]:
    """Requests that a real Kafka wrote, with headers: of every API that is served."""
    seen: dict[tuple[str, int], int] = {}
    lines = [line for line in golden_messages() if line["name"] in BY_NAME]
    for line in lines:
        api, version = BY_NAME[line["name"]], line["version"]
        if api.name not in ROLES[role].packages or (newest_only and version != api.advertised.last):
            continue
        count = seen[api.name, version] = seen.get((api.name, version), 0) + 1
        if newest_only and count > 1:
            continue
        header = RequestHeader(api.key, version, 7, "hostile")
        yield api, version, encode(header, api.request_header_version(version)) + bytes.fromhex(line["hex"])


async def is_served(node: Node) -> bool:
    client = await Client(node.bootstrap_address.port).connect()
    try:
        return bool((await client.ask(ApiVersionsRequest(), 0)).error_code == 0)
    finally:
        client.close()


def no_errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("role", ["broker", "controller"])
def test_every_request_that_kafka_wrote_is_answered_or_closed(
    role: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Random content in every version of every API: names nobody has, ids, flags and sizes that make no sense."""

    async def test(node: Node) -> None:
        listener = "PLAINTEXT" if role == "broker" else "CONTROLLER"
        for api, version, data in golden_frames(role, newest_only=False):
            fed = Fed(node, listener)
            fed.feed(frame(data))
            await settle_one(fed, f"{api.name} v{version}")
        assert await is_served(node)

    async def settle_one(fed: Fed, what: str) -> None:
        for _ in range(10_000):  # longer than what asks a share coordinator that is not there asks again
            if fed.is_settled:
                break
            await asyncio.sleep(0.001)
        assert fed.is_settled, f"{what} is neither answered nor closed"
        assert fed.stream.is_closed or fed.stream.sent_bytes > 0, f"{what} got no answer"
        fed.end()

    with caplog.at_level(logging.INFO):
        with_node(tmp_path, test)
    assert no_errors(caplog) == []


def test_every_truncation_of_a_request_closes_the_connection(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(node: Node) -> None:
        count = 0
        for api, version, data in golden_frames("broker", newest_only=True):
            for end in range(0, len(data), max(1, len(data) // 150)):
                fed = Fed(node)
                fed.feed(frame(data[:end]))
                assert fed.stream.is_closed, f"{api.name} v{version} cut at {end}"
                fed.end()
                count += 1
        assert count > 1500
        assert await is_served(node)

    with caplog.at_level(logging.INFO):
        with_node(tmp_path, test)
    assert no_errors(caplog) == []
    assert sum(record.levelno == logging.WARNING for record in caplog.records) < 50, "complaints are not repeated"


@pytest.mark.parametrize("role", ["broker", "controller"])
def test_every_mutation_of_a_request_is_answered_or_closed(
    role: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(20261115)

    async def test(node: Node) -> None:
        listener = "PLAINTEXT" if role == "broker" else "CONTROLLER"
        for _api, _version, data in golden_frames(role, newest_only=True):
            for _ in range(60):
                mutated = bytearray(data)
                for _ in range(chance.choice([1, 1, 2, 8])):
                    place = chance.randrange(8 if chance.random() < 0.1 else 4, len(mutated))
                    mutated[place] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
                fed = Fed(node, listener)
                fed.feed(frame(bytes(mutated)))
                fed.end()
            await asyncio.sleep(0)
        assert await is_served(node)

    with caplog.at_level(logging.INFO):
        with_node(tmp_path, test)
    assert no_errors(caplog) == []


def test_random_bytes_close_the_connection_and_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(7)

    async def test(node: Node) -> None:
        for number in range(1500):
            fed = Fed(node)
            noise = chance.randbytes(chance.choice([1, 4, 10, 100, 3000]))
            fed.feed(noise if number % 2 else frame(noise))
            fed.end()
        assert await is_served(node)

    with caplog.at_level(logging.INFO):
        with_node(tmp_path, test)
    assert no_errors(caplog) == []


def test_counts_that_the_frame_does_not_carry_allocate_nothing(tmp_path: Path) -> None:
    """Arrays that say two billion elements, in every place where an array may begin, and arrays within arrays."""

    async def test(node: Node) -> None:
        metadata = struct.pack(">hhih", 3, 1, 1, -1)
        billions = [
            metadata + struct.pack(">i", 2**31 - 1),
            metadata + struct.pack(">i", 2**31 - 1) + b"\0\1a" * 1000,
            struct.pack(">hhihB", 3, 12, 1, -1, 0) + b"\xff\xff\xff\xff\x0f",
            struct.pack(">hhih", 19, 2, 1, -1) + struct.pack(">ihhiii", 1, 0, -1, 2**31 - 1, 2**31 - 1, 2**31 - 1),
        ]
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        for data in billions * 20:
            fed = Fed(node)
            fed.feed(frame(data))
            assert fed.stream.is_closed
            fed.end()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak - before < 2_000_000
        assert await is_served(node)

    with_node(tmp_path, test)


def test_a_thousand_silent_connections_and_as_many_half_frames_cost_little_and_slow_nobody(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        tracemalloc.start()
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        silent = [Fed(node) for _ in range(1000)]
        half = [Fed(node) for _ in range(1000)]
        for number, fed in enumerate(half):
            # A size of almost the largest frame there may be, and the first bytes of it.
            fed.feed(struct.pack(">i", 104_857_600 if number % 2 else 60_000) + b"\0\0\0\x09")
            assert not fed.stream.is_closed
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert after - before < 2000 * 4 * 1024
        assert await is_served(node)
        for fed in silent + half:
            fed.end()

    with_node(tmp_path, test)


def test_real_half_open_connections_do_not_disturb_others(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        port = node.bootstrap_address.port
        clients = [await Client(port).connect() for _ in range(200)]
        for client in clients[::2]:
            await client.send_raw(b"\0\0\1")
        assert await is_served(node)
        for client in clients:
            client.close()
        async with asyncio.timeout(5):
            while node.sockets.connection_count:
                await asyncio.sleep(0.01)

    with_node(tmp_path, test)


def test_a_frame_of_two_gigabytes_is_refused_by_its_size(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        client = await Client(node.bootstrap_address.port).connect()
        await client.send_raw(struct.pack(">i", 2**31 - 1) + bytes(1000))
        assert await client.is_closed_by_server()
        assert await is_served(node)
        client.close()

    with_node(tmp_path, test)

"""A node to serve from: real sockets, real sessions and handlers, and an image and a controller made by the test."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeVar

from ottla.server import Broker, SocketServer
from ottla.wire import Message
from ottla.wire.frames import read_response, write_request
from ottla.wire.messages.header import RequestHeader
from ottla.world import NodeWorld
from ottla.world.system import SystemClock, SystemDisk
from ottla.world.system_loop import SystemNetwork, SystemTasks

T = TypeVar("T")


@dataclass
class FakeController:
    """A controller that answers as the test says and remembers what it was asked."""

    answer: Callable[[Message, int], Message] | None = None
    asked: list[tuple[Message, int]] = field(default_factory=list)

    def send(self, request: Message, *, version: int) -> Awaitable[Message]:
        return self._send(request, version)

    async def _send(self, request: Message, version: int) -> Message:
        self.asked.append((request, version))
        assert self.answer is not None, f"nobody expected {request!r}"
        return self.answer(request, version)


def fake_config(**settings: Any) -> Any:
    """The settings that sockets read, at Kafka's defaults."""
    values: dict[str, Any] = {
        "connections_max_idle_ms": 600_000,
        "socket_request_max_bytes": 104_857_600,
        "max_connections": 2**31 - 1,
        "max_connections_per_ip": 2**31 - 1,
        "max_connections_per_ip_overrides": "",
        "originals": {},
    }
    return SimpleNamespace(**{**values, **settings})


def make_broker(loop: asyncio.AbstractEventLoop, **parts: Any) -> Broker:
    world = NodeWorld(SystemClock(), SystemDisk(), random.Random(1), SystemTasks(loop), SystemNetwork(loop))
    values: dict[str, Any] = {
        "config": fake_config(),
        "world": world,
        "node_id": 1,
        "cluster_id": "cluster-of-the-test",
        "image": SimpleNamespace(features={"metadata.version": 30}, features_epoch=7),
        "replicas": None,
        "controller": FakeController(),
        "supported_features": {"metadata.version": (7, 30), "kraft.version": (0, 1)},
    }
    return Broker(**{**values, **parts})


class Client:
    """Speaks frames over a plain socket."""

    def __init__(self, port: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.port = port
        self.sock = socket.socket()
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def connect(self) -> Client:
        await self.loop.sock_connect(self.sock, ("127.0.0.1", self.port))
        return self

    async def send_raw(self, data: bytes | bytearray) -> None:
        await self.loop.sock_sendall(self.sock, data)

    async def send(
        self, request: Message, version: int, correlation_id: int = 1, client_id: str | None = "test"
    ) -> None:
        await self.send_raw(request_frame(request, version, correlation_id, client_id))

    async def receive_frame(self) -> bytes:
        """One frame without its size; `EOFError` when the server has closed."""
        (size,) = struct.unpack(">i", await self._exactly(4))
        return await self._exactly(size)

    async def ask(self, request: Message, version: int, correlation_id: int = 1) -> Any:
        await self.send(request, version, correlation_id)
        return await self.receive(request, version, correlation_id)

    async def receive(self, request: Message, version: int, correlation_id: int = 1) -> Any:
        api_key = request.schema.api_key
        assert api_key is not None
        response = read_response(await self.receive_frame(), api_key, version, strict=True)
        assert response.header.correlation_id == correlation_id
        return response.body

    async def is_closed_by_server(self) -> bool:
        try:
            async with asyncio.timeout(5):
                while await self.loop.sock_recv(self.sock, 65536):
                    pass
        except ConnectionError:
            pass
        return True

    async def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            async with asyncio.timeout(10):
                piece = await self.loop.sock_recv(self.sock, size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def close(self) -> None:
        self.sock.close()


def request_frame(request: Message, version: int, correlation_id: int = 1, client_id: str | None = "test") -> bytearray:
    assert request.schema.api_key is not None
    header = RequestHeader(request.schema.api_key, version, correlation_id, client_id)
    return write_request(header, request)


@dataclass
class Server:
    broker: Broker
    sockets: SocketServer
    port: int
    clients: list[Client] = field(default_factory=list)

    async def client(self) -> Client:
        client = await Client(self.port).connect()
        self.clients.append(client)
        return client


def serve(test: Callable[[Server], Coroutine[Any, Any, T]], *, role: str = "broker", **parts: Any) -> T:
    """Run `test` against a fresh server, on the loop that a node would have, and fail on anything left behind."""

    async def main() -> T:
        loop = asyncio.get_running_loop()
        broker = make_broker(loop, **parts)
        sockets = SocketServer(broker)
        listener = sockets.listen("PLAINTEXT", "127.0.0.1", 0, role=role)
        server = Server(broker, sockets, listener.address.port)
        try:
            return await test(server)
        finally:
            for client in server.clients:
                client.close()
            sockets.close()
            for _ in range(50):
                if sockets.connection_count == 0:
                    break
                await asyncio.sleep(0.01)
            assert sockets.connection_count == 0, "every connection ends with its server"

    return asyncio.run(main())

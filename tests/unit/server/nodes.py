"""A node to serve from: real sockets, real sessions and handlers, and an image and a controller made by the test."""

from __future__ import annotations

import asyncio
import inspect
import random
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeVar

from ottla.errors import KafkaError
from ottla.metadata import BrokerImage, Endpoint, Image, PartitionImage, TopicImage, TopicsImage
from ottla.server import (
    BrokerContext,
    BrokerServices,
    Connection,
    ControllerContext,
    ControllerServices,
    Dispatcher,
    NodeContext,
    RequestContext,
    SocketServer,
)
from ottla.types import Uuid
from ottla.wire import Message, decode, encode
from ottla.wire.frames import read_response, write_request
from ottla.wire.messages.header import RequestHeader
from ottla.world import Address, NodeWorld
from ottla.world.system import SystemClock, SystemDisk
from ottla.world.system_loop import SystemNetwork, SystemTasks

T = TypeVar("T")


@dataclass
class FakeController:
    """A controller, and the way to it, that answers as the test says and remembers what it was asked."""

    answer: Callable[[Message, int], Message] | None = None
    asked: list[tuple[Message, int]] = field(default_factory=list)
    forwarded: list[RequestContext] = field(default_factory=list)
    """The contexts of the requests that were passed on for clients."""
    heard: list[tuple[int, int, Connection]] = field(default_factory=list)
    """Whose heartbeats came over which connections."""

    def send(self, request: Message, *, version: int) -> Awaitable[Message]:
        return self._send(request, version)

    def forward(self, context: RequestContext, request: Message) -> Awaitable[Message]:
        self.forwarded.append(context)
        return self._send(request, context.version)

    def handle(self, request: Message, *, version: int) -> Awaitable[Message]:
        return self._send(request, version)

    def heard_over(self, broker_id: int, epoch: int, carrier: Connection, /) -> None:
        self.heard.append((broker_id, epoch, carrier))

    async def _send(self, request: Message, version: int) -> Message:
        self.asked.append((request, version))
        assert self.answer is not None, f"nobody expected {request!r}"
        return self.answer(request, version)


def fake_config(**settings: Any) -> Any:
    """The settings that sockets read, at Kafka's defaults."""
    values: dict[str, Any] = {
        "connections_max_idle_ms": 600_000,
        "socket_listen_backlog_size": 50,
        "socket_request_max_bytes": 104_857_600,
        "max_connections": 2**31 - 1,
        "max_connections_per_ip": 2**31 - 1,
        "max_connections_per_ip_overrides": "",
        "max_connection_creation_rate": 2**31 - 1,
        "quota_window_num": 11,
        "quota_window_size_seconds": 1,
        "inter_broker_listener": "PLAINTEXT",
        "originals": {},
        "auto_create_topics_enable": True,
        "request_timeout_ms": 30_000,
        "max_request_partition_size_limit": 2000,
        "offsets_topic_num_partitions": 50,
        "offsets_topic_replication_factor": 3,
        "offsets_topic_segment_bytes": 104_857_600,
    }
    return SimpleNamespace(**{**values, **settings})


@dataclass
class FakeQuorum:
    """A metadata quorum that is as the test says; raft answers with what it is given."""

    leader_id: int = 1
    kraft_version: int = 0
    answer: Callable[[Message, int], Message] | None = None

    def handle(self, request: Message, *, version: int, listener: str | None) -> Message:
        assert self.answer is not None, f"nobody expected {request!r}"
        return self.answer(request, version)


NODE_PARTS = ("config", "world", "node_id", "cluster_id", "image", "quorum")


def make_broker(loop: asyncio.AbstractEventLoop, **parts: Any) -> BrokerServices:
    """The services of a broker, and its `NodeContext`, with these parts in the place of those of a test."""
    values: dict[str, Any] = {
        "replicas": SimpleNamespace(fetchers=None),
        "fetch_sessions": None,
        "groups": None,
        "transactions": None,
        "controller": FakeController(),
        "peers": None,
        **parts,
    }
    node = make_node_context(loop, **{name: values.pop(name) for name in NODE_PARTS if name in values})
    return BrokerServices(node=node, **values)


def make_controller(loop: asyncio.AbstractEventLoop, **parts: Any) -> ControllerServices:
    """The services of a controller: `controller` decides, `quorum` is its raft."""
    controller = parts.pop("controller", None) or FakeController()
    node = make_node_context(loop, **parts)
    return ControllerServices(node, controller, node.quorum)  # type: ignore[arg-type]  # a test's quorum has all


def make_node_context(loop: asyncio.AbstractEventLoop, **parts: Any) -> NodeContext:
    world = NodeWorld(SystemClock(), SystemDisk(), random.Random(1), SystemTasks(loop), SystemNetwork(loop))
    values: dict[str, Any] = {
        "config": fake_config(),
        "world": world,
        "node_id": 1,
        "cluster_id": "cluster-of-the-test",
        "image": Image("cluster-of-the-test", offset=7, features={"metadata.version": 30}),
        "quorum": FakeQuorum(),
    }
    return NodeContext(**{**values, **parts})


DIRECTORY = Uuid(bytes(8) + b"directry")


def broker_image(id: int = 1, *, is_fenced: bool = False, **endpoints: int) -> BrokerImage:
    """A registered broker with a PLAINTEXT listener, or with those named."""
    return BrokerImage(
        id=id,
        epoch=5,
        incarnation_id=Uuid(16 * bytes([id])),
        endpoints={
            name: Endpoint(name, f"host{id}", port, 0) for name, port in (endpoints or {"PLAINTEXT": 9092}).items()
        },
        rack=f"rack{id}",
        is_fenced=is_fenced,
        log_dirs=(DIRECTORY,),
    )


def topic_id(name: str) -> Uuid:
    return Uuid(name.encode()[-16:].rjust(16, b"#"))


def topic_image(name: str, partition_count: int = 1, *, replicas: tuple[int, ...] = (1,), **changes: Any) -> TopicImage:
    values: dict[str, Any] = {
        "replicas": replicas,
        "directories": (DIRECTORY,) * len(replicas),
        "isr": replicas,
        "leader": replicas[0],
        "leader_epoch": 3,
        "partition_epoch": 4,
    }
    partition = PartitionImage(**{**values, **changes})
    return TopicImage(name, topic_id(name), dict.fromkeys(range(partition_count), partition))


def image_of(*topics: TopicImage, brokers: Sequence[BrokerImage] | None = None, **changes: Any) -> Image:
    return Image(
        cluster_id="cluster-of-the-test",
        offset=7,
        features={"metadata.version": 30},
        brokers={broker.id: broker for broker in brokers or [broker_image()]},
        topics=TopicsImage({topic.name: topic for topic in topics}, {topic.id: topic for topic in topics}),
        **changes,
    )


def ask(
    handler: Any,
    request: Message,
    version: int,
    *,
    listener: str = "PLAINTEXT",
    role: str = "broker",
    **parts: Any,
) -> Any:
    """What a handler answers, with request and response written and read in that version as the wire would."""

    async def main() -> Any:
        loop, peer = asyncio.get_running_loop(), Address("127.0.0.1", 40000)
        context: RequestContext
        if role == "controller":
            controller = make_controller(loop, **parts)
            connection = Connection(Dispatcher(controller), listener, peer)
            context = ControllerContext(version, 1, "test", connection, controller.node, controller)
        else:
            broker = make_broker(loop, **parts)
            connection = Connection(Dispatcher(broker), listener, peer)
            context = BrokerContext(version, 1, "test", connection, broker.node, broker)
        sent = decode(type(request), version, encode(request, version))
        try:
            answer = handler.handle(context, sent)
            if inspect.isawaitable(answer):
                answer = await answer
        except KafkaError as error:
            if not hasattr(handler, "failed"):
                raise
            answer = handler.failed(sent, error, version)
        for _ in range(3):
            await asyncio.sleep(0)  # what the handler began by itself
        return decode(type(answer), version, encode(answer, version))

    return asyncio.run(main())


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
    node: NodeContext
    dispatcher: Dispatcher
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
        services = make_controller(loop, **parts) if role == "controller" else make_broker(loop, **parts)
        sockets = SocketServer(services.node)
        dispatcher = Dispatcher(services)
        listener = sockets.listen("PLAINTEXT", "127.0.0.1", 0, dispatcher)
        server = Server(services.node, dispatcher, sockets, listener.address.port)
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

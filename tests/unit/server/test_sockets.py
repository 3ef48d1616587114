"""`ottla/server/sockets.py` and `ottla/server/connections.py`: limits, and idle connections."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

import pytest

from ottla.errors import InvalidConfig
from ottla.server import RequestContext
from ottla.server.connections import ConnectionLimits, parse_overrides
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tests.unit.server.fake_handlers import route
from tests.unit.server.nodes import Client, Server, fake_config, request_frame, serve


async def is_served(client: Client) -> bool:
    response = await client.ask(ApiVersionsRequest(), 0)
    return bool(response.error_code == 0)


def test_an_address_that_has_its_connections_is_refused_until_one_closes(caplog: pytest.LogCaptureFixture) -> None:
    async def test(server: Server) -> None:
        first, second = await server.client(), await server.client()
        assert await is_served(first)
        assert await is_served(second)
        assert await (await server.client()).is_closed_by_server()
        first.close()
        async with asyncio.timeout(5):
            while server.sockets.connection_count > 1:
                await asyncio.sleep(0.001)
        assert await is_served(await server.client())
        assert server.node.metrics.listener("PLAINTEXT").refused == 1

    with caplog.at_level(logging.WARNING):
        serve(test, config=fake_config(max_connections_per_ip=2))
    assert ["127.0.0.1" in record.getMessage() for record in caplog.records] == [True]


def test_an_override_for_one_address_wins() -> None:
    async def test(server: Server) -> None:
        assert await is_served(await server.client())
        assert await is_served(await server.client())

    serve(test, config=fake_config(max_connections_per_ip=0, max_connections_per_ip_overrides="127.0.0.1:2"))


@pytest.mark.parametrize(
    "config",
    [{"max_connections": 2}, {"originals": {"listener.name.plaintext.max.connections": "2"}}],
    ids=["of the broker", "of the listener"],
)
def test_at_the_limit_connections_wait_in_the_systems_queue(config: dict[str, Any]) -> None:
    async def test(server: Server) -> None:
        first, second, third = [await server.client() for _ in range(3)]
        assert await is_served(first)
        assert await is_served(second)
        await third.send(ApiVersionsRequest(), 0)
        await asyncio.sleep(0.05)
        assert server.sockets.connection_count == 2
        first.close()
        assert (await third.receive(ApiVersionsRequest(), 0)).error_code == 0

    serve(test, config=fake_config(**config))


def test_a_held_listener_lets_connections_wait_without_a_complaint(caplog: pytest.LogCaptureFixture) -> None:
    """A fenced broker knows of no brokers: librdkafka believed that and asked nobody ever again."""

    async def test(server: Server) -> None:
        listener = server.sockets.listen("HELD", "127.0.0.1", 0, server.dispatcher, is_held=True)
        reader, writer = await asyncio.open_connection(listener.address.host, listener.address.port)
        writer.write(request_frame(ApiVersionsRequest(), 0))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await reader.readexactly(4)
        assert server.sockets.connection_count == 0
        server.sockets.release()
        async with asyncio.timeout(5):
            assert len(await reader.readexactly(4)) == 4
        writer.close()

    with caplog.at_level(logging.WARNING):
        serve(test)
    assert caplog.records == []


def test_limits_that_change_act_at_once_and_leave_connections_alone() -> None:
    async def test(server: Server) -> None:
        first, second = await server.client(), await server.client()
        assert await is_served(first)
        await second.send(ApiVersionsRequest(), 0)
        await asyncio.sleep(0.02)
        assert server.sockets.connection_count == 1
        server.sockets.configure(fake_config(max_connections=5))
        assert (await second.receive(ApiVersionsRequest(), 0)).error_code == 0
        server.sockets.configure(fake_config(max_connections_per_ip=1))
        assert await is_served(first)
        assert await is_served(second)
        assert await (await server.client()).is_closed_by_server()

    serve(test, config=fake_config(max_connections=1))


def test_overrides_are_read_and_a_wrong_one_is_named() -> None:
    assert parse_overrides("") == {}
    assert parse_overrides("10.0.0.1:5, [::1]:7,::2:8") == {"10.0.0.1": 5, "::1": 7, "::2": 8}
    for text in ("10.0.0.1", "10.0.0.1:many", ":5"):
        with pytest.raises(InvalidConfig, match=r"max\.connections\.per\.ip\.overrides"):
            parse_overrides(text)


def test_counts_of_addresses_that_have_gone_are_forgotten() -> None:
    limits = ConnectionLimits(total_max=10, per_ip_max=1, per_ip_overrides={})
    for number in range(1000):
        assert limits.admit("L", f"10.0.{number // 256}.{number % 256}")
        limits.release("L", f"10.0.{number // 256}.{number % 256}")
    assert (limits.total, limits._of_ip) == (0, {})


def test_a_connection_that_is_idle_for_too_long_is_closed_and_one_that_waits_is_not() -> None:
    async def test(server: Server) -> None:
        loop = asyncio.get_running_loop()
        promise: asyncio.Future[Any] = loop.create_future()

        def wait(context: RequestContext, request: HeartbeatRequest) -> Any:
            return promise

        route(server, "Heartbeat", 4, wait)
        idle, busy, waiting = [await server.client() for _ in range(3)]
        await waiting.send(HeartbeatRequest(), 4)
        closing = asyncio.create_task(idle.is_closed_by_server())
        async with asyncio.timeout(5):
            while not closing.done():
                assert await is_served(busy)
                await asyncio.sleep(0.01)
        promise.set_result(HeartbeatResponse())
        assert (await waiting.receive(HeartbeatRequest(), 4)).error_code == 0
        assert server.node.metrics.listener("PLAINTEXT").expired == 1

    serve(test, config=fake_config(connections_max_idle_ms=150))


def test_a_client_that_never_takes_its_responses_is_closed_as_idle() -> None:
    async def test(server: Server) -> None:
        def large(context: RequestContext, request: UnregisterBrokerRequest) -> Any:
            return UnregisterBrokerResponse(error_message="m" * 30_000)

        route(server, "UnregisterBroker", 0, large)
        client = await server.client()
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await client.send_raw(bytes(request_frame(UnregisterBrokerRequest(), 0)) * 1000)
        async with asyncio.timeout(10):
            while server.sockets.connection_count:
                await asyncio.sleep(0.01)

    serve(test, config=fake_config(connections_max_idle_ms=200))


def test_closing_sends_what_is_answered_and_ends_every_connection() -> None:
    async def test(server: Server) -> None:
        client = await server.client()
        await client.send(ApiVersionsRequest(), 0)
        assert (await client.receive(ApiVersionsRequest(), 0)).error_code == 0
        server.sockets.close()
        assert await client.is_closed_by_server()
        late = Client(server.port)
        server.clients.append(late)
        with pytest.raises(ConnectionRefusedError):
            await late.connect()

    serve(test)


def test_as_many_connections_wait_to_be_taken_as_the_setting_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """`socket.listen.backlog.size`, which no system call tells afterwards."""
    backlogs: list[int] = []
    listen = socket.socket.listen

    def record(sock: socket.socket, backlog: int) -> None:
        backlogs.append(backlog)
        listen(sock, backlog)

    monkeypatch.setattr(socket.socket, "listen", record)

    async def test(server: Server) -> None:
        assert await is_served(await server.client())

    serve(test, config=fake_config(socket_listen_backlog_size=7))
    assert backlogs == [7]

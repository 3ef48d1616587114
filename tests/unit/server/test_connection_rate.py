"""`ottla/server/connection_rate.py`, and what `sockets` makes of it: connections that come too fast wait."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.server.connection_rate import NO_LIMIT, ConnectionRates, WindowedRate, ip_limit
from ottla.wire.messages.api_versions import ApiVersionsRequest
from tests.support.kafka import run_java
from tests.unit.server.nodes import Server, fake_config, serve

SUPPORT = Path(__file__).parents[2] / "support"
WINDOW_MS, WINDOWS = 1000, 11


def rates() -> ConnectionRates:
    return ConnectionRates(window_ms=WINDOW_MS, window_count=WINDOWS)


def test_a_rate_is_measured_over_all_windows_but_one_at_least() -> None:
    """So a burst of ten seconds' worth passes at once, and the next connection waits."""
    rate = WindowedRate(WINDOW_MS, WINDOWS)
    delays = []
    for _ in range(22):
        rate.record(1, 5)
        delays.append(rate.delay_ms(2, 5))
    assert delays == [0] * 20 + [500, 1000]
    assert rate.delay_ms(2, 5) == 1000
    assert rate.delay_ms(2, 5 + 11_000) == 0
    assert rate.is_idle


@pytest.mark.java
def test_kafkas_own_rate_asks_for_the_same_delays() -> None:
    """Bursts, pauses and steady traffic; a limit that is hardly ever exceeded and one that always is."""
    chance = random.Random(7)
    events: list[tuple[int, int]] = []
    for limit in (1, 3, 10, 50):
        now_ms = 1_000_000
        for _ in range(400):
            pause = chance.choice([40, 40, 40, 900])
            now_ms += chance.randrange(15_000 if chance.random() < 0.02 else pause)
            events.append((limit, now_ms))
    asked = "".join(f"{limit} {now_ms}\n" for limit, now_ms in events)
    done = run_java(str(SUPPORT / "RateOracle.java"), [], stdin=asked)
    assert done.returncode == 0, done.stderr
    expected = [int(line) for line in done.stdout.split()]
    assert any(expected)
    rates = {limit: WindowedRate(WINDOW_MS, WINDOWS) for limit, _ in events}
    found = []
    for limit, now_ms in events:
        rates[limit].record(1, now_ms)
        found.append(rates[limit].delay_ms(limit, now_ms))
    assert found == expected


def test_no_delay_is_longer_than_a_window_and_none_is_asked_for_without_a_limit() -> None:
    rate = WindowedRate(WINDOW_MS, WINDOWS)
    rate.record(1_000_000, 0)
    assert rate.delay_ms(1, 0) == WINDOW_MS
    assert rate.delay_ms(0, 0) == WINDOW_MS
    assert rate.delay_ms(NO_LIMIT, 0) == 0


def test_the_longer_of_the_nodes_and_the_listeners_delay_counts() -> None:
    both = rates()
    both.limit, both.listener_limits = 3, {"A": 1}
    assert [both.record("A", 0) for _ in range(12)] == [0] * 10 + [1000, 1000]
    assert [both.record("B", 0) for _ in range(19)][-2:] == [0, 333]


def test_the_brokers_own_listener_is_held_back_by_its_own_limit_only() -> None:
    both = rates()
    both.limit, both.exempt = 1, "INTERNAL"
    assert [both.record("INTERNAL", 0) for _ in range(50)] == [0] * 50
    assert both.record("EXTERNAL", 0) == 0
    both.listener_limits["INTERNAL"] = 5
    assert both.record("INTERNAL", 0) > 0


def test_a_connection_that_is_held_because_of_its_address_does_not_count() -> None:
    both = rates()
    both.limit = 1
    for _ in range(10):
        assert both.record("A", 0) == 0
        assert both.record_ip("A", "::1", 1, 0) == 0
    for _ in range(5):
        both.record("A", 0)
        assert both.record_ip("A", "::1", 1, 0) == 1000
    assert both.record("A", 0) == 1000, "the eleventh, not the sixteenth"
    both.forget_idle(11_000)
    assert both.record_ip("A", "::1", 1, 11_000) == 0


def test_an_addresss_limit_comes_from_the_quotas() -> None:
    quotas: dict[Any, Any] = {
        (("ip", None),): {"connection_creation_rate": 7.0},
        (("ip", "10.0.0.1"),): {"connection_creation_rate": 3.0},
        (("user", "10.0.0.2"),): {"connection_creation_rate": 1.0},
    }
    assert [ip_limit(quotas, ip) for ip in ("10.0.0.1", "10.0.0.2")] == [3, 7]
    assert ip_limit({}, "10.0.0.1") is None


@pytest.mark.parametrize(
    "config",
    [
        {"max_connection_creation_rate": 10},
        {"originals": {"listener.name.plaintext.max.connection.creation.rate": "10"}},
    ],
    ids=["of the broker", "of the listener"],
)
def test_connections_above_the_rate_wait_and_are_served_then(config: dict[str, Any]) -> None:
    async def test(server: Server) -> None:
        begun = time.monotonic()
        clients = [await server.client() for _ in range(21)]
        for client in clients[:20]:
            assert (await client.ask(ApiVersionsRequest(), 0)).error_code == 0
        late = await server.client()
        assert (await late.ask(ApiVersionsRequest(), 0)).error_code == 0
        assert time.monotonic() - begun > 0.09, "the 21st is one too many, which makes for a tenth of a second"
        assert server.node.metrics.listener("PLAINTEXT").throttles.value > 50
        # Without the limit nobody waits; the delay that has begun is waited for, as in Kafka.
        server.sockets.configure(fake_config())
        clients += [await server.client() for _ in range(5)]
        for client in clients[-5:]:
            assert (await client.ask(ApiVersionsRequest(), 0)).error_code == 0

    serve(test, config=fake_config(quota_window_num=3, **config))


def test_an_address_that_connects_too_often_is_held_and_then_closed() -> None:
    async def test(server: Server) -> None:
        quotas: dict[Any, Any] = {(("ip", "127.0.0.1"),): {"connection_creation_rate": 2.0}}
        server.node.image = replace(server.node.image, quotas=quotas)
        clients = [await server.client() for _ in range(4)]
        for client in clients:
            assert (await client.ask(ApiVersionsRequest(), 0)).error_code == 0
        begun = time.monotonic()
        held = await server.client()
        await held.send(ApiVersionsRequest(), 0, 1)
        async with asyncio.timeout(5):
            assert await held.is_closed_by_server()
        assert 0.4 < time.monotonic() - begun < 4
        assert server.sockets.connection_count == 4
        assert server.node.metrics.listener("PLAINTEXT").ip_throttles.value > 400

    serve(test, config=fake_config(quota_window_num=3))

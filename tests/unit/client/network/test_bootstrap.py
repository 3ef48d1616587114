"""A client whose first broker is not there: what it says, when it gives up, and when it must not."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    AsyncShareConsumer,
    BootstrapFailed,
    KafkaTimeout,
    TopicPartition,
)
from ottla.world import connect_failure
from tests.support.broker_cluster import BrokerCluster

A0 = TopicPartition("a", 0)
NOBODY = "no bootstrap broker could be reached: broker1:9092: connection refused, broker2:9092: connection refused"


async def topic_of_producer(world: Any, servers: str, settings: dict[str, Any]) -> None:
    async with AsyncProducer(bootstrap_servers=servers, world=world, **settings) as producer:
        await producer.send("a", b"v")


async def transactions_of_producer(world: Any, servers: str, settings: dict[str, Any]) -> None:
    producer = AsyncProducer(bootstrap_servers=servers, world=world, transactional_id="t", **settings)
    try:
        await producer.init_transactions()
    finally:
        await producer.close(0)


async def topics_of_admin(world: Any, servers: str, settings: dict[str, Any]) -> None:
    async with AsyncAdmin(bootstrap_servers=servers, world=world, **settings) as admin:
        await admin.list_topics()


async def groups_of_admin(world: Any, servers: str, settings: dict[str, Any]) -> None:
    async with AsyncAdmin(bootstrap_servers=servers, world=world, **settings) as admin:
        (await admin.describe_consumer_groups(["g"])).all()


async def with_consumer(world: Any, servers: str, settings: dict[str, Any], call: Callable[[Any], Any]) -> None:
    consumer: AsyncConsumer[bytes, bytes] = AsyncConsumer(
        bootstrap_servers=servers, world=world, group_id="g", auto_offset_reset="earliest", **settings
    )
    try:
        await call(consumer)
    finally:
        await consumer.close(0)


async def offsets_of_consumer(world: Any, servers: str, settings: dict[str, Any]) -> None:
    await with_consumer(world, servers, settings, lambda consumer: consumer.end_offsets([A0]))


async def committed_of_consumer(world: Any, servers: str, settings: dict[str, Any]) -> None:
    await with_consumer(world, servers, settings, lambda consumer: consumer.committed([A0]))


async def position_of_consumer(world: Any, servers: str, settings: dict[str, Any]) -> None:
    async def call(consumer: Any) -> None:
        await consumer.assign([A0])
        await consumer.position(A0)

    await with_consumer(world, servers, settings, call)


async def topics_of_consumer(world: Any, servers: str, settings: dict[str, Any]) -> None:
    await with_consumer(world, servers, settings, lambda consumer: consumer.list_topics())


async def poll_of_assigned(world: Any, servers: str, settings: dict[str, Any]) -> None:
    async def call(consumer: Any) -> None:
        await consumer.assign([A0])
        while True:
            await consumer.poll(timeout=1)

    await with_consumer(world, servers, settings, call)


async def poll_of_member(world: Any, servers: str, settings: dict[str, Any]) -> None:
    async def call(consumer: Any) -> None:
        await consumer.subscribe(["a"])
        while True:
            await consumer.poll(timeout=1)

    await with_consumer(world, servers, settings, call)


async def poll_of_share_consumer(world: Any, servers: str, settings: dict[str, Any]) -> None:
    consumer: AsyncShareConsumer[bytes, bytes] = AsyncShareConsumer(
        bootstrap_servers=servers, world=world, group_id="g", **settings
    )
    try:
        await consumer.subscribe(["a"])
        while True:
            await consumer.poll(timeout=1)
    finally:
        await consumer.close(0)


CALLS = [
    topic_of_producer,
    transactions_of_producer,
    topics_of_admin,
    groups_of_admin,
    offsets_of_consumer,
    committed_of_consumer,
    position_of_consumer,
    topics_of_consumer,
]
POLLS = [poll_of_assigned, poll_of_member, poll_of_share_consumer]


def run(main: Callable[[Any, BrokerCluster], Any]) -> None:
    """Two brokers, neither of which runs yet."""
    cluster = BrokerCluster(1, broker_count=2)
    cluster.create_topic("a")

    async def without_brokers(world: Any) -> None:
        for broker in cluster.brokers.values():
            broker.kill()
        await main(world, cluster)

    cluster.run(without_brokers)


class Watch:
    """How long it has been."""

    def __init__(self, world: Any) -> None:
        self._clock = world.clock
        self._begun_ms = world.clock.monotonic_ms()

    @property
    def ms(self) -> int:
        return self._clock.monotonic_ms() - self._begun_ms  # type: ignore[no-any-return]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_a_call_that_times_out_names_the_addresses_and_why(call: Callable[..., Any]) -> None:
    """And a warning has said so long before."""

    async def main(world: Any, cluster: BrokerCluster) -> None:
        warned_ms: dict[str, int] = {}
        watch = Watch(world)

        class Warnings(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                warned_ms.setdefault(record.getMessage(), watch.ms)

        warnings = Warnings(logging.WARNING)
        logging.getLogger("ottla.client.network").addHandler(warnings)
        try:
            with pytest.raises(KafkaTimeout) as caught:
                await call(world, cluster.bootstrap_servers, {})
        finally:
            logging.getLogger("ottla.client.network").removeHandler(warnings)
        assert NOBODY in str(caught.value)
        assert "60" in str(caught.value)
        assert watch.ms >= 59_000
        for broker in ("broker1:9092", "broker2:9092"):
            said = f"({broker}) could not be established: connection refused. Is a broker running there?"
            assert min(ms for message, ms in warned_ms.items() if said in message) <= 1000

    run(main)


@pytest.mark.parametrize("call", [*CALLS, *POLLS], ids=lambda call: call.__name__)
def test_with_a_time_for_the_first_contact_it_fails_soon_after(call: Callable[..., Any]) -> None:
    async def main(world: Any, cluster: BrokerCluster) -> None:
        watch = Watch(world)
        with pytest.raises(BootstrapFailed) as caught:
            await call(world, cluster.bootstrap_servers, {"bootstrap_connect_timeout_ms": 5000})
        assert NOBODY in str(caught.value)
        assert 5000 <= watch.ms < 8000

    run(main)


def test_a_broker_that_is_just_starting_is_waited_for() -> None:
    async def main(world: Any, cluster: BrokerCluster) -> None:
        watch = Watch(world)
        world.tasks.later(3000, cluster.brokers[2].start)
        await topics_of_admin(world, cluster.bootstrap_servers, {"bootstrap_connect_timeout_ms": 5000})
        assert 3000 <= watch.ms < 5000

    run(main)


def test_one_address_that_refuses_is_no_failure_while_another_is_untried_or_answers() -> None:
    async def main(world: Any, cluster: BrokerCluster) -> None:
        await cluster.brokers[2].start()
        await topics_of_admin(world, cluster.bootstrap_servers, {"bootstrap_connect_timeout_ms": 0})

    run(main)


def test_a_client_that_was_connected_before_waits_for_its_cluster() -> None:
    async def main(world: Any, cluster: BrokerCluster) -> None:
        await cluster.brokers[1].start()
        watch = Watch(world)
        settings: dict[str, Any] = {"bootstrap_connect_timeout_ms": 5000}
        async with AsyncAdmin(bootstrap_servers=cluster.bootstrap_servers, world=world, **settings) as admin:
            await admin.list_topics()
            cluster.brokers[1].kill()
            world.tasks.later(40_000, cluster.brokers[1].start)
            assert await admin.list_topics()
            assert watch.ms >= 40_000

    run(main)


def test_a_call_after_the_failure_tries_again() -> None:
    async def main(world: Any, cluster: BrokerCluster) -> None:
        settings: dict[str, Any] = {"bootstrap_connect_timeout_ms": 1000}
        async with AsyncAdmin(bootstrap_servers=cluster.bootstrap_servers, world=world, **settings) as admin:
            with pytest.raises(BootstrapFailed):
                await admin.list_topics()
            await cluster.brokers[1].start()
            await cluster.brokers[2].start()
            assert list(await admin.list_topics()) == ["a"]

    run(main)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 9092)"), "connection refused"),
        (
            socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
            "the name does not resolve (Name or service not known)",
        ),
        (OSError(113, "No route to host"), "No route to host"),
        (OSError("odd"), "odd"),
    ],
    ids=str,
)
def test_the_reason_is_told_in_the_same_words_on_every_event_loop(error: OSError, said: str) -> None:
    assert connect_failure(error) == said

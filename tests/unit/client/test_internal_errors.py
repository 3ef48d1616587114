"""Whatever is raised while a request is built or its response handled is the error of the call that it was for.

Nobody waits for ever and nothing is only logged: a producer's record fails, a poll raises, a transaction is fatal. Each
case breaks the requests, or the responses, of one API. The admin's calls are in `admin/test_every_call.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.client import AsyncConsumer, AsyncProducer, AsyncShareConsumer, InternalError, TopicPartition
from ottla.client.network import Build, NetworkClient
from ottla.errors import KafkaError
from ottla.wire import APIS, Message
from tests.support.broker_cluster import BrokerCluster
from tests.support.wire import WatchedNetwork

A0 = TopicPartition("a", 0)
BUILD, ANSWER = "build", "answer"


def break_api(monkeypatch: pytest.MonkeyPatch, api: str, where: str) -> None:
    """Have every request of the API raise while it is built, or every response of it be nothing that can be read."""
    key = next(one.key for one in APIS.values() if one.name == api)
    send_then, send_only = NetworkClient.send_then, NetworkClient.send_only

    def broken(request: Any) -> Any:
        api_key = request.api_key if isinstance(request, Build) else request.schema.api_key
        is_real = not isinstance(request, Build) or getattr(request.make, "__name__", "") != "_never"
        return Build(key, raising) if api_key == key and where == BUILD and is_real else request

    def broken_send(self: NetworkClient, node_id: int, request: Any, on_answer: Any, **more: Any) -> None:
        api_key = request.api_key if isinstance(request, Build) else request.schema.api_key
        if not isinstance(self.world.network, WatchedNetwork):
            send_then(self, node_id, request, on_answer, **more)  # the operator's, not the client's
            return

        def answered(response: Any, error: KafkaError | None) -> None:
            on_answer(object() if response is not None and api_key == key and where == ANSWER else response, error)

        send_then(self, node_id, broken(request), answered, **more)

    monkeypatch.setattr(NetworkClient, "send_then", broken_send)
    monkeypatch.setattr(NetworkClient, "send_only", lambda self, node_id, one: send_only(self, node_id, broken(one)))


def raising(version: int) -> Message:
    raise ZeroDivisionError("the builder has a bug")


def run(main: Callable[[Any, str], Any]) -> None:
    """Run it against one broker, within ten seconds of virtual time: what waits for a time-out comes too late."""
    cluster = BrokerCluster(1, broker_count=1)
    cluster.create_topic("a")
    cluster.serve_groups()

    async def in_time(world: Any) -> None:
        begun_ms = world.clock.monotonic_ms()
        with pytest.raises(InternalError) as caught:
            await main(world, cluster.bootstrap_servers)
        assert isinstance(caught.value.__cause__, ZeroDivisionError | AttributeError | TypeError), caught.value
        assert world.clock.monotonic_ms() - begun_ms < 10_000

    cluster.run(in_time)


async def poll_until_it_raises(consumer: Any) -> None:
    for _ in range(20):
        await consumer.poll(timeout=1)


@pytest.mark.parametrize(
    ("api", "where", "settings"),
    [
        ("Metadata", BUILD, {}),
        ("Metadata", ANSWER, {}),
        ("InitProducerId", BUILD, {}),
        ("InitProducerId", ANSWER, {}),
        ("Produce", BUILD, {}),
        ("Produce", ANSWER, {}),
        ("Produce", BUILD, {"acks": 1, "enable_idempotence": False}),
        ("Produce", ANSWER, {"acks": 1, "enable_idempotence": False}),
        ("Produce", BUILD, {"acks": 0, "enable_idempotence": False}),
    ],
    ids=str,
)
def test_a_producers_record_fails(api: str, where: str, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    break_api(monkeypatch, api, where)

    async def main(world: Any, servers: str) -> None:
        async with AsyncProducer(bootstrap_servers=servers, world=world, **settings) as producer:
            await producer.send_and_wait("a", b"v")

    run(main)


def test_a_record_whose_batch_cannot_be_compressed_fails_and_the_next_one_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ottla.client.producer import batch

    def fail_once(*_: Any) -> bytes:
        monkeypatch.undo()
        raise ZeroDivisionError("no codec")

    monkeypatch.setattr(batch, "compress", fail_once)

    async def main(world: Any, servers: str) -> None:
        async with AsyncProducer(bootstrap_servers=servers, world=world, compression_type="gzip") as producer:
            first = await producer.send("a", b"0", partition=0)
            await producer.flush()
            await producer.send_and_wait("a", b"1", partition=0)
            await first

    run(main)


@pytest.mark.parametrize(
    ("api", "where"),
    [("FindCoordinator", BUILD), ("FindCoordinator", ANSWER), ("InitProducerId", BUILD), ("InitProducerId", ANSWER),
     ("EndTxn", BUILD)],
)  # fmt: skip
def test_a_transaction_fails(api: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_api(monkeypatch, api, where)

    async def main(world: Any, servers: str) -> None:
        producer = AsyncProducer(bootstrap_servers=servers, world=world, transactional_id="t")
        try:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send("a", b"v")
            await producer.commit_transaction()
        finally:
            await producer.close(0)

    run(main)


@pytest.mark.parametrize("where", [BUILD, ANSWER])
@pytest.mark.parametrize("api", ["Metadata", "ListOffsets", "Fetch"])
def test_a_consumers_poll_raises(api: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_api(monkeypatch, api, where)

    async def main(world: Any, servers: str) -> None:
        consumer: AsyncConsumer[bytes, bytes] = AsyncConsumer(
            bootstrap_servers=servers, world=world, auto_offset_reset="earliest"
        )
        try:
            await consumer.assign([A0])
            await poll_until_it_raises(consumer)
        finally:
            await consumer.close(0)

    run(main)


@pytest.mark.parametrize(
    ("protocol", "api", "where"),
    [
        ("consumer", "FindCoordinator", BUILD),
        ("consumer", "FindCoordinator", ANSWER),
        ("consumer", "ConsumerGroupHeartbeat", BUILD),
        ("consumer", "ConsumerGroupHeartbeat", ANSWER),
        ("classic", "JoinGroup", BUILD),
        ("classic", "JoinGroup", ANSWER),
        ("classic", "SyncGroup", BUILD),
    ],
)
def test_a_group_members_poll_raises(protocol: str, api: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_api(monkeypatch, api, where)

    async def main(world: Any, servers: str) -> None:
        consumer: AsyncConsumer[bytes, bytes] = AsyncConsumer(
            bootstrap_servers=servers, world=world, group_id="g", group_protocol=protocol
        )
        try:
            await consumer.subscribe(["a"])
            await poll_until_it_raises(consumer)
        finally:
            await consumer.close(0)

    run(main)


@pytest.mark.parametrize("api", ["OffsetCommit", "OffsetFetch"])
def test_a_commit_and_a_look_at_what_is_committed_raise(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_api(monkeypatch, api, BUILD)

    async def main(world: Any, servers: str) -> None:
        consumer: AsyncConsumer[bytes, bytes] = AsyncConsumer(bootstrap_servers=servers, world=world, group_id="g")
        try:
            await consumer.assign([A0])
            if api == "OffsetCommit":
                await consumer.commit({A0: 1})
            else:
                await consumer.committed([A0])
        finally:
            await consumer.close(0)

    run(main)


def test_a_poll_raises_what_the_users_own_assignor_raises() -> None:
    """It was logged and the round begun again, for ever, while polls brought nothing."""
    from ottla.client.group.assignors.range import RangeAssignor

    class Broken(RangeAssignor):
        def assign(self, *_: Any) -> Any:
            raise ZeroDivisionError("the assignor has a bug")

    async def main(world: Any, servers: str) -> None:
        consumer: AsyncConsumer[bytes, bytes] = AsyncConsumer(
            bootstrap_servers=servers, world=world, group_id="g", group_protocol="classic",
            partition_assignment_strategy=[Broken()],
        )  # fmt: skip
        try:
            await consumer.subscribe(["a"])
            await poll_until_it_raises(consumer)
        finally:
            await consumer.close(0)

    with pytest.MonkeyPatch.context() as patch:
        break_api(patch, "Heartbeat", "nowhere")
        run(main)


@pytest.mark.parametrize(
    ("api", "where"),
    [("Metadata", BUILD), ("Metadata", ANSWER), ("FindCoordinator", BUILD), ("ShareGroupHeartbeat", BUILD),
     ("ShareGroupHeartbeat", ANSWER), ("ShareFetch", BUILD)],
)  # fmt: skip
def test_a_share_consumers_poll_raises(api: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_api(monkeypatch, api, where)

    async def main(world: Any, servers: str) -> None:
        consumer: AsyncShareConsumer[bytes, bytes] = AsyncShareConsumer(
            bootstrap_servers=servers, world=world, group_id="g"
        )
        try:
            await consumer.subscribe(["a"])
            await poll_until_it_raises(consumer)
        finally:
            await consumer.close(0)

    run(main)

"""A consumer against brokers and networks that fail, on virtual time: nothing lost, nothing twice, no hang."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.consumer import AsyncConsumer
from ottla.client.consumer.partition_state import Status
from ottla.client.errors import CorruptRecord, IllegalState, KafkaTimeout, LogTruncation
from ottla.errors import (
    FetchSessionIdNotFound,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    TopicAuthorizationFailed,
    UnknownLeaderEpoch,
    UnknownServerError,
    UnknownTopicId,
)
from ottla.types import TopicPartition
from ottla.wire.frames import Request
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
)
from tests.support.broker_cluster import BrokerCluster
from tests.support.wire import FINE, Meddling, only

A0 = TopicPartition("a", 0)
Main = Callable[[AsyncConsumer[Any, Any]], Any]


def run(cluster: BrokerCluster, main: Main, **settings: Any) -> Any:
    async def with_consumer(world: Any) -> Any:
        given = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "auto_offset_reset": "earliest",
            "request_timeout_ms": 3000,
            **settings,
        }
        async with AsyncConsumer[Any, Any](world=world, **given) as consumer:
            return await main(consumer)

    return cluster.run(with_consumer)


def numbers(count: int, start: int = 0) -> list[int]:
    return list(range(start, start + count))


async def read(consumer: AsyncConsumer[Any, Any], count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        records = await consumer.poll(60)
        assert records, f"{len(found)} of {count} came within a minute"
        found += [int(record.value) for record in records]
    return found


def refuse(count: int, error_code: int, **more: Any) -> Callable[[int, Request], Meddling]:
    """A meddler that answers the first fetches with an error for each partition."""
    left = count

    def meddle(broker: int, request: Request) -> Meddling:
        nonlocal left
        if isinstance(request.body, FetchRequest) and left > 0:
            left -= 1
            return Meddling(answer=refusal(request.body, error_code, **more))
        return FINE

    return meddle


def refusal(request: FetchRequest, error_code: int, endpoints: Any = (), **more: Any) -> FetchResponse:
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic.topic,
                topic.topic_id,
                [PartitionData(one.partition, error_code, high_watermark=-1, **more) for one in topic.partitions],
            )
            for topic in request.topics
        ],
        node_endpoints=list(endpoints),
    )


# Errors that pass


@pytest.mark.parametrize(
    "error", [NotLeaderOrFollower, KafkaStorageError, UnknownTopicId, UnknownLeaderEpoch, UnknownServerError]
)
def test_an_error_that_passes_costs_time_and_no_record(error: Any) -> None:
    cluster = BrokerCluster(1)
    cluster.create_topic("a")
    cluster.append(100, A0)
    cluster.meddle = refuse(3, error.code)

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        return await read(consumer, 100)

    assert run(cluster, main) == numbers(100)


@pytest.mark.parametrize("seed", range(6))
def test_leaders_move_and_brokers_crash_and_every_record_comes_once(seed: int) -> None:
    cluster = BrokerCluster(seed)
    cluster.create_topic("a", 6)
    chance = random.Random(seed)
    places = [TopicPartition("a", index) for index in range(6)]

    def meddle(broker: int, request: Request) -> Meddling:
        dice = chance.random()
        if dice < 0.04:
            return Meddling(is_lost=True)
        if dice < 0.08:
            return Meddling(loses_answer=True)
        return Meddling(delay_ms=chance.random() * 300) if dice < 0.2 else FINE

    cluster.meddle = meddle

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign(places)
        found: dict[int, list[int]] = {index: [] for index in range(6)}
        written = 0
        for _ in range(25):
            for place in places:
                await cluster.write(10, place, written)
            written += 10
            for _ in range(2):
                cluster.move_leader_soon("a", chance.randrange(6), chance.choice([2, 3]))
            broker = cluster.brokers[chance.choice([1, 2, 3])]
            if not broker.is_running:
                broker.start()
            elif chance.random() < 0.3 and sum(one.is_running for one in cluster.brokers.values()) > 1:
                broker.crash() if chance.random() < 0.5 else broker.kill()
            for record in await consumer.poll(chance.random() * 3):
                found[record.partition].append(int(record.value))
        for broker in cluster.brokers.values():
            await broker.start()
        cluster.meddle = lambda broker, request: FINE
        while sum(map(len, found.values())) < 6 * written:
            records = await consumer.poll(120)
            assert records, found
            for record in records:
                found[record.partition].append(int(record.value))
        return found, written

    found, written = run(cluster, main, max_poll_records=37, retry_backoff_ms=50)
    assert found == {index: numbers(written) for index in range(6)}


def test_a_hint_of_the_new_leader_is_followed_at_once() -> None:
    cluster = BrokerCluster(1)
    cluster.create_topic("a")
    cluster.append(10, A0)

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        await consumer.position(A0)
        await cluster.move_leader("a", 0, 3)
        before = len(cluster.requests)
        found = await read(consumer, 10)
        return found, [api for _, api, _ in cluster.requests[before:]]

    found, asked = run(cluster, main, retry_backoff_ms=20_000, retry_backoff_max_ms=20_000)
    assert found == numbers(10)
    assert "Metadata" not in asked


def test_a_poll_returns_within_its_time_when_nobody_answers() -> None:
    cluster = BrokerCluster(1)
    cluster.create_topic("a")
    cluster.meddle = lambda broker, request: Meddling(is_lost=True)

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        for timeout in (0.0, 0.5, 7.0):
            begun = cluster.clock.monotonic_ms()
            assert await consumer.poll(timeout) == []
            assert timeout * 1000 <= cluster.clock.monotonic_ms() - begun <= timeout * 1000 + 20
        begun = cluster.clock.monotonic_ms()
        with pytest.raises(KafkaTimeout, match="a-0"):
            await consumer.position(A0, timeout=2)
        with pytest.raises(KafkaTimeout):
            await consumer.end_offsets([A0], timeout=2)
        assert cluster.clock.monotonic_ms() - begun <= 4_200

    run(cluster, main)


def test_closing_takes_no_time_while_nobody_answers() -> None:
    cluster = BrokerCluster(1)
    cluster.create_topic("a")

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        await consumer.position(A0)
        cluster.meddle = lambda broker, request: Meddling(is_lost=True)
        await consumer.poll(1)
        begun = cluster.clock.monotonic_ms()
        await consumer.close()
        assert cluster.clock.monotonic_ms() - begun < 100

    run(cluster, main)


def test_no_permission_is_told_and_reading_goes_on_once_it_is_given() -> None:
    cluster = BrokerCluster(1)
    cluster.create_topic("a")
    cluster.append(10, A0)
    cluster.meddle = refuse(2, TopicAuthorizationFailed.code)

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        for _ in range(2):
            with pytest.raises(TopicAuthorizationFailed, match="a"):
                await consumer.poll(5)
        return await read(consumer, 10)

    assert run(cluster, main) == numbers(10)


# Sessions, limits, places


def test_a_lost_session_is_begun_anew() -> None:
    cluster = BrokerCluster(1)
    cluster.create_topic("a")
    cluster.append(10, A0)
    left = [FetchResponse(error_code=FetchSessionIdNotFound.code) for _ in range(2)]

    def meddle(broker: int, request: Request) -> Meddling:
        return Meddling(answer=left.pop()) if isinstance(request.body, FetchRequest) and left else FINE

    cluster.meddle = meddle

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        return await read(consumer, 10)

    assert run(cluster, main) == numbers(10)


def test_at_most_one_fetch_a_broker_is_in_flight_and_two_of_a_partition_wait_for_the_user() -> None:
    cluster = BrokerCluster(1, broker_count=1)
    cluster.create_topic("a")
    cluster.append(1000, A0)
    in_flight = 0

    def meddle(broker: int, request: Request) -> Meddling:
        return Meddling(delay_ms=20) if isinstance(request.body, FetchRequest) else FINE

    cluster.meddle = meddle

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        assert len(await consumer.poll(5, max_records=1)) == 1
        await consumer._world.tasks.sleep_ms(5000)
        fetched_ahead = len(only(cluster.requests, "Fetch"))
        rest = await read(consumer, 999)
        return fetched_ahead, rest

    fetched_ahead, rest = run(cluster, main, max_partition_fetch_bytes=500)
    assert in_flight == 0
    assert fetched_ahead == 2
    assert rest == numbers(999, 1)


@pytest.mark.parametrize("version", [4, 6, 7, 10, 11, 12])
def test_an_old_broker_is_read_in_its_own_versions_by_name(version: int) -> None:
    """Version 10 is that of Kafka 2.1."""
    cluster = BrokerCluster(1, versions={"Fetch": (4, version), "ListOffsets": (1, 4), "Metadata": (0, 7)})
    cluster.create_topic("a", 2)
    cluster.append(30, A0)

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0, TopicPartition("a", 1)])
        return await read(consumer, 30)

    assert run(cluster, main) == numbers(30)
    assert {found for _, found in only(cluster.requests, "Fetch")} == {version}
    assert {found for _, found in only(cluster.requests, "ListOffsets")} == {4}


def test_a_nearer_replica_is_read_from_until_it_fails() -> None:
    """The leader, broker 1, names broker 2 (KIP-392), which serves until it answers out of range.

    Ottla's leaders name nobody and its followers are never that far behind: both are put into their answers."""
    cluster = BrokerCluster(1)
    cluster.create_topic("a")
    cluster.append(20, A0)
    served: list[int] = []
    asked = FetchRequest()
    is_behind = False

    def meddle(broker: int, request: Request) -> Meddling:
        body = request.body
        if not isinstance(body, FetchRequest):
            return FINE
        assert body.rack_id == "here"
        if body.topics:  # what a session knows is not said again
            served.append(broker)
            asked.topics = body.topics
        if broker == 1 and not is_behind:
            return Meddling(change=name_the_other)
        return Meddling(answer=refusal(asked, OffsetOutOfRange.code)) if broker == 2 and is_behind else FINE

    def name_the_other(answer: FetchResponse) -> None:
        for topic in answer.responses:
            for one in topic.partitions:
                one.preferred_read_replica = 2
                one.records = b""

    cluster.meddle = meddle

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        nonlocal is_behind
        await consumer.assign([A0])
        found = await read(consumer, 20)
        assert served[:2] == [1, 2]
        assert 1 not in served[1:]
        is_behind = True
        await consumer._world.tasks.sleep_ms(500)  # no fetch waits any more that was begun before
        await cluster.write(5, A0, 20)
        return found + await read(consumer, 5)

    settings = {"client_rack": "here", "fetch_max_wait_ms": 50, "max_partition_fetch_bytes": 100}
    assert run(cluster, main, **settings) == numbers(25)
    assert served[-1] == 1


def test_a_damaged_batch_is_told_with_its_place_and_can_be_passed() -> None:
    cluster = BrokerCluster(1)
    cluster.create_topic("a")
    cluster.append(30, A0)

    def damage(answer: FetchResponse) -> None:
        for topic in answer.responses:
            for one in topic.partitions:
                assert isinstance(one.records, bytes | memoryview)
                data = bytearray(one.records)
                index = data.find(b"\x0415\0")  # its size, the value, no headers
                if index > 0:
                    data[index + 1] ^= 1
                one.records = bytes(data)

    cluster.meddle = lambda broker, request: Meddling(change=damage) if isinstance(request.body, FetchRequest) else FINE

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        found = await read(consumer, 10)
        with pytest.raises(CorruptRecord, match="a-0 at offset 10") as raised:
            await consumer.poll(5)
        assert raised.value.offset == 10
        consumer.seek(A0, 20)
        return found + await read(consumer, 10)

    assert run(cluster, main) == numbers(10) + numbers(10, 20)


# Truncation


def epochs_asked(cluster: BrokerCluster) -> list[int]:
    """Of which leader epochs brokers are asked where their log ends."""
    asked: list[int] = []

    def meddle(broker: int, request: Request) -> Meddling:
        if isinstance(request.body, OffsetForLeaderEpochRequest):
            asked.extend(one.leader_epoch for topic in request.body.topics for one in topic.partitions)
        return FINE

    cluster.meddle = meddle
    return asked


async def truncate(cluster: BrokerCluster, consumer: AsyncConsumer[Any, Any]) -> list[int]:
    """Let the consumer read 20 records of which only the leader has the last five, and elect another without them.

    That takes an unclean election: the others stand still until they are no longer in sync, the leader alone takes five
    more, which are committed with nobody else in sync, and loses power; the others go on, and write five of their own.
    """
    await cluster.write(15, A0)
    found = await read(consumer, 15)
    cluster.nodes.pause("broker2", "broker3")
    await consumer._world.tasks.sleep_ms(5000)
    await cluster.write(5, A0, 15)
    found += await read(consumer, 5)
    cluster.brokers[1].crash()
    cluster.nodes.resume("broker2", "broker3")
    await cluster.write(5, A0, 115)
    return found


def test_a_new_leader_that_holds_what_was_read_is_read_on_from() -> None:
    cluster = BrokerCluster(1)
    cluster.create_topic("a")
    cluster.append(20, A0)
    asked = epochs_asked(cluster)

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        found = await read(consumer, 20)
        await cluster.move_leader("a", 0, 2)
        await cluster.write(10, A0, 20)
        return found + await read(consumer, 10)

    assert run(cluster, main) == numbers(30)
    assert asked == [0]


def test_a_seek_before_a_position_could_be_confirmed_is_no_error() -> None:
    """It was an internal error of the next poll: the position was gone when its confirmation had its turn."""
    cluster = BrokerCluster(1)
    cluster.create_topic("a")
    cluster.append(20, A0)

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        await read(consumer, 20)
        consumer._core.subscription.state(A0).status = Status.AWAIT_VALIDATION
        consumer._core.positions_finder.go_on()  # begins to ask, in a task that has not run yet
        consumer.seek_to_beginning([A0])
        return await read(consumer, 20)

    assert run(cluster, main) == numbers(20)


def test_after_a_truncation_reading_goes_on_where_the_logs_part() -> None:
    cluster = BrokerCluster(1)
    cluster.create_topic("a", unclean_leader_election_enable="true")

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        assert await truncate(cluster, consumer) == numbers(20)
        return await read(consumer, 5)

    assert run(cluster, main) == numbers(5, 115)
    assert cluster.values("a") == [[b"%d" % number for number in numbers(15) + numbers(5, 115)]]


def test_a_truncation_without_a_policy_is_told_until_the_user_seeks() -> None:
    cluster = BrokerCluster(1)
    cluster.create_topic("a", unclean_leader_election_enable="true")

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        consumer.seek(A0, 0)
        assert await truncate(cluster, consumer) == numbers(20)
        for _ in range(2):
            with pytest.raises(LogTruncation, match="a-0 at 20") as raised:
                await consumer.poll(5)
            assert raised.value.offsets == {A0: 20}
            assert raised.value.divergent_offsets == {A0: 15}
        consumer.seek(A0, 16)
        return await read(consumer, 4)

    assert run(cluster, main, auto_offset_reset="none") == numbers(4, 116)


# Many, at once


def test_opening_and_closing_leaves_nothing_behind() -> None:
    cluster = BrokerCluster(1)
    cluster.create_topic("a")
    cluster.append(10, A0)

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        world = consumer._world
        for _ in range(50):
            async with AsyncConsumer[Any, Any](
                world=world, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
            ) as one:
                await one.assign([A0])
                assert await read(one, 10) == numbers(10)

    run(cluster, main)  # which checks that no task, timer or connection of the client is left


@pytest.mark.parametrize("silent", [1, 2])
def test_a_reset_waits_for_a_leader_without_holding_up_other_partitions(silent: int) -> None:
    cluster = BrokerCluster(1)
    cluster.create_topic("a", 2)
    late, early = TopicPartition("a", silent - 1), TopicPartition("a", 2 - silent)
    cluster.append(10, early)
    is_held = True

    def meddle(broker: int, request: Request) -> Meddling:
        if isinstance(request.body, ListOffsetsRequest) and broker == silent and is_held:
            return Meddling(is_lost=True)
        return FINE

    cluster.meddle = meddle

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        nonlocal is_held
        await consumer.assign([late, early])
        begun = cluster.clock.monotonic_ms()
        found = await read(consumer, 10)
        consumer.seek_to_beginning([early])
        found += await read(consumer, 10)
        took_ms = cluster.clock.monotonic_ms() - begun
        is_held = False
        await cluster.write(5, late)
        return took_ms, found, await read(consumer, 5)

    took_ms, found, later = run(cluster, main)
    assert took_ms < 2000
    assert (found, later) == (numbers(10) * 2, numbers(5))


def test_a_topic_that_is_deleted_and_made_anew_is_read_from_its_new_beginning() -> None:
    cluster = BrokerCluster(1)
    cluster.create_topic("a")
    cluster.append(20, A0)

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        for leader in (2, 1, 3, 1):
            await cluster.move_leader("a", 0, leader)
        await consumer.assign([A0])
        found = await read(consumer, 20)
        await cluster.remake_topic("a")  # under another id, and its leader epochs begin at 0
        await cluster.write(10, A0, 100)
        return found + await read(consumer, 10)

    assert run(cluster, main) == numbers(20) + numbers(10, 100)


def test_a_topic_that_may_not_be_read_is_told_until_it_may() -> None:
    cluster = BrokerCluster(1)
    cluster.create_topic("a")
    cluster.append(10, A0)
    is_refused = True

    def meddle(broker: int, request: Request) -> Meddling:
        if not isinstance(request.body, MetadataRequest) or not is_refused:
            return FINE
        return Meddling(change=refuse_all)

    def refuse_all(answer: MetadataResponse) -> None:
        answer.topics = [MetadataResponseTopic(TopicAuthorizationFailed.code, topic.name) for topic in answer.topics]

    cluster.meddle = meddle

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        nonlocal is_refused
        await consumer.assign([A0])
        with pytest.raises(TopicAuthorizationFailed, match="a"):
            await consumer.poll(5)
        await consumer._world.tasks.sleep_ms(5000)
        is_refused = False
        with pytest.raises(TopicAuthorizationFailed, match="a"):
            await consumer.poll(0)  # what is known until now
        return await read(consumer, 10)

    assert run(cluster, main, metadata_max_age_ms=1000) == numbers(10)


def test_a_poll_that_nothing_could_come_of_is_refused() -> None:
    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        with pytest.raises(IllegalState, match="not subscribed to any topics"):
            await consumer.poll(5)

    run(BrokerCluster(1), main)

"""A consumer against brokers and networks that fail, on virtual time: nothing lost, nothing twice, no hang."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import tests.support.virtual_cluster
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
from ottla.records import Record, build_batch
from ottla.types import TopicPartition
from ottla.wire.frames import Request
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tests.support.virtual_cluster import FINE, PORT, Meddling, VirtualBroker, VirtualCluster, only

A0 = TopicPartition("a", 0)
Main = Callable[[AsyncConsumer[Any, Any]], Any]


def run(cluster: VirtualCluster, main: Main, **settings: Any) -> Any:
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


def append(cluster: VirtualCluster, count: int, partition: TopicPartition = A0, start: int = 0) -> None:
    """Write numbers as values, in batches of 10."""
    led = cluster.partition(partition)
    log = led.log.log
    for first in range(start, start + count, 10):
        values = [b"%d" % number for number in range(first, min(first + 10, start + count))]
        batch = build_batch([Record(index, 1000, None, value) for index, value in enumerate(values)])
        log.append_as_leader(bytearray(batch), leader_epoch=led.leader_epoch)
    log.update_high_watermark(log.log_end_offset)


def numbers(count: int, start: int = 0) -> list[int]:
    return list(range(start, start + count))


async def read(consumer: AsyncConsumer[Any, Any], count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        records = await consumer.poll(60)
        assert records, f"{len(found)} of {count} came within a minute"
        found += [int(record.value) for record in records]
    return found


def refuse(count: int, error_code: int, **more: Any) -> Callable[[VirtualBroker, Request], Meddling]:
    """A meddler that answers the first fetches with an error for each partition."""
    left = count

    def meddle(broker: VirtualBroker, request: Request) -> Meddling:
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
    cluster = VirtualCluster(1)
    cluster.create_topic("a")
    append(cluster, 100)
    cluster.meddle = refuse(3, error.code)

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        return await read(consumer, 100)

    assert run(cluster, main) == numbers(100)


@pytest.mark.parametrize("seed", range(6))
def test_leaders_move_and_brokers_crash_and_every_record_comes_once(seed: int) -> None:
    cluster = VirtualCluster(seed)
    cluster.create_topic("a", 6)
    chance = random.Random(seed)
    places = [TopicPartition("a", index) for index in range(6)]

    def meddle(broker: VirtualBroker, request: Request) -> Meddling:
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
                append(cluster, 10, place, written)
            written += 10
            for _ in range(2):
                cluster.move_leader("a", chance.randrange(6), chance.choice([2, 3]))
            broker = cluster.brokers[chance.choice([1, 2, 3])]
            if not broker.is_running:
                broker.start()
            elif chance.random() < 0.3:
                broker.crash() if chance.random() < 0.5 else broker.stop()
            for record in await consumer.poll(chance.random() * 3):
                found[record.partition].append(int(record.value))
        for broker in cluster.brokers.values():
            broker.start()
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
    cluster = VirtualCluster(1)
    cluster.create_topic("a")
    append(cluster, 10)
    cluster.move_leader("a", 0, 1)

    def meddle(broker: VirtualBroker, request: Request) -> Meddling:
        if isinstance(request.body, FetchRequest) and broker.index == 1:
            if cluster.partition(A0).leader == 1:
                cluster.move_leader("a", 0, 3)
            now = cluster.partition(A0)
            return Meddling(
                answer=refusal(
                    request.body,
                    NotLeaderOrFollower.code,
                    [NodeEndpoint(now.leader, f"broker{now.leader}", PORT)],
                    current_leader=LeaderIdAndEpoch(now.leader, now.leader_epoch),
                )
            )
        return FINE

    cluster.meddle = meddle

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        await consumer.position(A0)
        before = len(cluster.requests)
        found = await read(consumer, 10)
        return found, [api for _, api, _ in cluster.requests[before:]]

    found, asked = run(cluster, main, retry_backoff_ms=20_000, retry_backoff_max_ms=20_000)
    assert found == numbers(10)
    assert "Metadata" not in asked


def test_a_poll_returns_within_its_time_when_nobody_answers() -> None:
    cluster = VirtualCluster(1)
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
    cluster = VirtualCluster(1)
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
    cluster = VirtualCluster(1)
    cluster.create_topic("a")
    append(cluster, 10)
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
    cluster = VirtualCluster(1)
    cluster.create_topic("a")
    append(cluster, 10)
    left = [FetchResponse(error_code=FetchSessionIdNotFound.code) for _ in range(2)]

    def meddle(broker: VirtualBroker, request: Request) -> Meddling:
        return Meddling(answer=left.pop()) if isinstance(request.body, FetchRequest) and left else FINE

    cluster.meddle = meddle

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        return await read(consumer, 10)

    assert run(cluster, main) == numbers(10)


def test_at_most_one_fetch_a_broker_is_in_flight_and_two_of_a_partition_wait_for_the_user() -> None:
    cluster = VirtualCluster(1, broker_count=1)
    cluster.create_topic("a")
    append(cluster, 1000)
    in_flight = 0

    def meddle(broker: VirtualBroker, request: Request) -> Meddling:
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
    cluster = VirtualCluster(1, versions={"Fetch": (4, version), "ListOffsets": (1, 4), "Metadata": (0, 7)})
    cluster.create_topic("a", 2)
    append(cluster, 30)

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0, TopicPartition("a", 1)])
        return await read(consumer, 30)

    assert run(cluster, main) == numbers(30)
    assert {found for _, found in only(cluster.requests, "Fetch")} == {version}
    assert {found for _, found in only(cluster.requests, "ListOffsets")} == {4}


def test_a_nearer_replica_is_read_from_until_it_fails() -> None:
    """The leader, broker 1, names broker 2 (KIP-392), which serves until it answers out of range."""
    cluster = VirtualCluster(1)
    cluster.create_topic("a")
    append(cluster, 20)
    served: list[int] = []
    is_behind = False

    def meddle(broker: VirtualBroker, request: Request) -> Meddling:
        body = request.body
        if not isinstance(body, FetchRequest) or not body.topics:
            return FINE
        assert body.rack_id == "here"
        served.append(broker.index)
        if broker.index == 1 and not is_behind:
            answer = broker.answer(request)
            assert isinstance(answer, FetchResponse)
            answer.responses[0].partitions[0].preferred_read_replica = 2
            return Meddling(answer=answer)
        if broker.index == 2:
            if is_behind:
                return Meddling(answer=refusal(body, OffsetOutOfRange.code))
            cluster.partition(A0).leader = 2  # only for this answer
            answer = broker.answer(request)
            cluster.partition(A0).leader = 1
            return Meddling(answer=answer)
        return FINE

    cluster.meddle = meddle

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        nonlocal is_behind
        await consumer.assign([A0])
        found = await read(consumer, 20)
        assert served[:2] == [1, 2]
        assert 1 not in served[1:]
        is_behind = True
        append(cluster, 5, start=20)
        return found + await read(consumer, 5)

    settings = {"client_rack": "here", "fetch_max_wait_ms": 50, "max_partition_fetch_bytes": 100}
    assert run(cluster, main, **settings) == numbers(25)
    assert served[-1] == 1


def test_a_damaged_batch_is_told_with_its_place_and_can_be_passed() -> None:
    cluster = VirtualCluster(1)
    cluster.create_topic("a")
    append(cluster, 30)

    def meddle(broker: VirtualBroker, request: Request) -> Meddling:
        if not isinstance(request.body, FetchRequest):
            return FINE
        answer = broker.answer(request)
        assert isinstance(answer, FetchResponse)
        for topic in answer.responses:
            for one in topic.partitions:
                assert one.records is None or isinstance(one.records, bytes)
                data = bytearray(one.records or b"")
                if one.error_code == 0 and len(data) > 100:
                    index = data.find(b"15")
                    if index > 0:
                        data[index] ^= 1
                    one.records = bytes(data)
        return Meddling(answer=answer)

    cluster.meddle = meddle

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


def answer_epochs(monkeypatch: pytest.MonkeyPatch, cluster: VirtualCluster, end_offset: int, epoch: int) -> list[int]:
    """Have new leaders say that the log of older epochs ends there; the epochs that were asked about."""
    served = (*tests.support.virtual_cluster.SERVED, "OffsetForLeaderEpoch")
    monkeypatch.setattr(tests.support.virtual_cluster, "SERVED", served)
    asked: list[int] = []

    def meddle(broker: VirtualBroker, request: Request) -> Meddling:
        body = request.body
        if not isinstance(body, OffsetForLeaderEpochRequest):
            return FINE
        topics = []
        for topic in body.topics:
            asked.extend(one.leader_epoch for one in topic.partitions)
            told = [EpochEndOffset(0, one.partition, epoch, end_offset) for one in topic.partitions]
            topics.append(OffsetForLeaderTopicResult(topic.topic, told))
        return Meddling(answer=OffsetForLeaderEpochResponse(topics=topics))

    cluster.meddle = meddle
    return asked


def test_a_new_leader_that_holds_what_was_read_is_read_on_from(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = VirtualCluster(1)
    cluster.create_topic("a")
    append(cluster, 20)
    asked = answer_epochs(monkeypatch, cluster, 20, 0)

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        found = await read(consumer, 20)
        cluster.move_leader("a", 0, 2)
        append(cluster, 10, start=20)
        return found + await read(consumer, 10)

    assert run(cluster, main) == numbers(30)
    assert asked == [0]


def test_a_seek_before_a_position_could_be_confirmed_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was an internal error of the next poll: the position was gone when its confirmation had its turn."""
    cluster = VirtualCluster(1)
    cluster.create_topic("a")
    append(cluster, 20)
    answer_epochs(monkeypatch, cluster, 20, 0)

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        await read(consumer, 20)
        consumer._core.subscription.state(A0).status = Status.AWAIT_VALIDATION
        consumer._core.positions_finder.go_on()  # begins to ask, in a task that has not run yet
        consumer.seek_to_beginning([A0])
        return await read(consumer, 20)

    assert run(cluster, main) == numbers(20)


def test_after_a_truncation_reading_goes_on_where_the_logs_part(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = VirtualCluster(1)
    cluster.create_topic("a")
    append(cluster, 20)
    answer_epochs(monkeypatch, cluster, 15, 0)

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        await read(consumer, 20)
        cluster.move_leader("a", 0, 2)
        return await read(consumer, 5)

    assert run(cluster, main) == numbers(5, 15)


def test_a_truncation_without_a_policy_is_told_until_the_user_seeks(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = VirtualCluster(1)
    cluster.create_topic("a")
    append(cluster, 20)
    answer_epochs(monkeypatch, cluster, 15, 0)

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        consumer.seek(A0, 0)
        await read(consumer, 20)
        cluster.move_leader("a", 0, 2)
        for _ in range(2):
            with pytest.raises(LogTruncation, match="a-0 at 20") as raised:
                await consumer.poll(5)
            assert raised.value.offsets == {A0: 20}
            assert raised.value.divergent_offsets == {A0: 15}
        consumer.seek(A0, 16)
        return await read(consumer, 4)

    assert run(cluster, main, auto_offset_reset="none") == numbers(4, 16)


# Many, at once


def test_opening_and_closing_leaves_nothing_behind() -> None:
    cluster = VirtualCluster(1)
    cluster.create_topic("a")
    append(cluster, 10)

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
    cluster = VirtualCluster(1)
    cluster.create_topic("a", 2)
    late, early = TopicPartition("a", silent - 1), TopicPartition("a", 2 - silent)
    append(cluster, 10, early)
    is_held = True

    def meddle(broker: VirtualBroker, request: Request) -> Meddling:
        if isinstance(request.body, ListOffsetsRequest) and broker.index == silent and is_held:
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
        append(cluster, 5, late)
        return took_ms, found, await read(consumer, 5)

    took_ms, found, later = run(cluster, main)
    assert took_ms < 2000
    assert (found, later) == (numbers(10) * 2, numbers(5))


def test_a_topic_that_is_deleted_and_made_anew_is_read_from_its_new_beginning() -> None:
    cluster = VirtualCluster(1)
    cluster.create_topic("a")
    for _ in range(5):
        cluster.move_leader("a", 0, 1)
    append(cluster, 20)

    async def main(consumer: AsyncConsumer[Any, Any]) -> Any:
        await consumer.assign([A0])
        found = await read(consumer, 20)
        cluster.create_topic("a")  # under another id, and its leader epochs begin at 0
        append(cluster, 10, start=100)
        return found + await read(consumer, 10)

    assert run(cluster, main) == numbers(20) + numbers(10, 100)


def test_a_topic_that_may_not_be_read_is_told_until_it_may() -> None:
    cluster = VirtualCluster(1)
    cluster.create_topic("a")
    append(cluster, 10)
    is_refused = True

    def meddle(broker: VirtualBroker, request: Request) -> Meddling:
        if not isinstance(request.body, MetadataRequest) or not is_refused:
            return FINE
        answer = broker.answer(request)
        assert isinstance(answer, MetadataResponse)
        answer.topics = [MetadataResponseTopic(TopicAuthorizationFailed.code, topic.name) for topic in answer.topics]
        return Meddling(answer=answer)

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

    run(VirtualCluster(1), main)

"""Our share consumers: sharing, acknowledging in every way, being late and going away.

Against Ottla, and against a real Kafka with OTTLA_TESTS_AGAINST=kafka.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.client import AcknowledgeType, AsyncShareConsumer, ConsumerRecord, ShareConsumer, TopicPartition
from ottla.client.errors import ClientClosed, IllegalState, RecordDeserialization, Wakeup
from ottla.errors import InvalidRecordState, KafkaError
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.clients.ours.group_members import PATIENCE_S, make_topic, port_of, write
from tests.support.clients import healthy_broker
from tests.support.nodes import KIND, running
from tests.support.raw import RawClient

pytestmark = pytest.mark.timeout(120)

QUICK = {
    "group.share.heartbeat.interval.ms": "200",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "3",
}
ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
GROUP_RESOURCE = 32
EXPLICIT = {"share_acknowledgement_mode": "explicit"}


def make_group(address: str, topic: str) -> str:
    """A share group that reads its topics from the beginning."""
    group = f"share-{topic}"
    set_group(address, group, "share.auto.offset.reset", "earliest")
    return group


def set_group(address: str, group: str, name: str, value: str) -> None:
    setting = AlterableConfig(name=name, config_operation=0, value=value)
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=[setting])]
    )
    with RawClient(port_of(address)) as client:
        (answer,) = client.send(request, 1, IncrementalAlterConfigsResponse).responses
        assert answer.error_code == 0, answer


def share_consumer(address: str, group: str, **more: Any) -> AsyncShareConsumer[Any, Any]:
    return AsyncShareConsumer(bootstrap_servers=address, group_id=group, **more)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that answers share groups quickly."""
    directory = tmp_path_factory.mktemp("share")
    if KIND == "kafka":
        with running(KIND, directory, QUICK) as kafka:
            yield kafka.address
        return
    with healthy_broker(directory, QUICK) as started:
        yield started.address


@pytest.fixture
def place(address: str) -> tuple[str, str]:
    """A topic of two partitions, and a group for it."""
    topic = make_topic(address, "shared", 2)
    return topic, make_group(address, topic)


async def read(consumer: AsyncShareConsumer[Any, Any], count: int) -> list[ConsumerRecord[Any, Any]]:
    """Polls until so many records have come; what was polled before the last time is acknowledged by that."""
    found: list[ConsumerRecord[Any, Any]] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
        found += await consumer.poll(1)
    return found


def offsets(records: list[ConsumerRecord[Any, Any]]) -> list[tuple[int, int | None]]:
    return [(record.offset, record.delivery_count) for record in records]


def test_the_next_poll_accepts_what_the_last_one_returned(address: str, place: tuple[str, str]) -> None:
    topic, group = place
    write(address, topic, 100, partitions=2)

    async def story() -> None:
        async with share_consumer(address, group) as consumer:
            await consumer.subscribe(topic)
            records = await read(consumer, 100)
            assert sorted(int(record.value) for record in records) == list(range(100))
            assert {record.delivery_count for record in records} == {1}
            assert await consumer.poll(0.2) == []
        async with share_consumer(address, group) as consumer:
            await consumer.subscribe([topic])
            assert await consumer.poll(1) == []
            write(address, topic, 2, partitions=2, start=100)
            assert len(await read(consumer, 2)) == 2

    asyncio.run(story())


def test_what_was_not_acknowledged_is_released_by_close_and_comes_again(address: str, place: tuple[str, str]) -> None:
    topic, group = place
    write(address, topic, 10, partitions=1)

    async def story() -> None:
        async with share_consumer(address, group) as first:
            await first.subscribe(topic)
            assert len(await read(first, 10)) == 10
        async with share_consumer(address, group) as second:
            await second.subscribe(topic)
            assert offsets(await read(second, 10)) == [(offset, 2) for offset in range(10)]
            answers = await second.commit()
            assert answers == {TopicPartition(topic, 0): None}
        async with share_consumer(address, group) as third:
            await third.subscribe(topic)
            assert await third.poll(1) == []

    asyncio.run(story())


def test_each_record_has_the_fate_that_was_said(address: str, place: tuple[str, str]) -> None:
    topic, group = place
    write(address, topic, 20, partitions=1)

    async def story() -> None:
        told: list[tuple[set[int], KafkaError | None]] = []
        async with share_consumer(address, group, **EXPLICIT) as consumer:
            consumer.set_acknowledgement_commit_callback(
                lambda found, error: told.append((set(found[TopicPartition(topic, 0)]), error))
            )
            await consumer.subscribe(topic)
            for record in await read(consumer, 20):
                consumer.acknowledge(record, (ACCEPT, RELEASE, REJECT, RENEW)[record.offset % 4])
            renewed = await read(consumer, 5)
            assert offsets(renewed) == [(offset, 1) for offset in range(3, 20, 4)]
            for record in renewed:
                consumer.acknowledge(record)
            released = await read(consumer, 5)
            assert offsets(released) == [(offset, 2) for offset in range(1, 20, 4)]
            for record in released:
                consumer.acknowledge(record)
            assert await consumer.commit() == {TopicPartition(topic, 0): None}
            assert await consumer.poll(0.3) == []
            timeout_ms = consumer.acquisition_lock_timeout_ms()
            assert timeout_ms is not None
            assert timeout_ms >= 1000
            measured = consumer.metrics()
            assert measured.value("acknowledgements-send-total") == 30
            assert measured.value("acknowledgements-error-total") == 0
            assert measured.value("heartbeat-total") >= 1
        assert told == [
            (set(range(20)), None),
            (set(range(3, 20, 4)), None),
            (set(range(1, 20, 4)), None),
        ]

    asyncio.run(story())


def test_explicit_acknowledgement_is_insisted_on(address: str, place: tuple[str, str]) -> None:
    topic, group = place
    write(address, topic, 2, partitions=1)

    async def story() -> None:
        async with share_consumer(address, group, **EXPLICIT) as consumer:
            with pytest.raises(IllegalState, match="not subscribed"):
                await consumer.poll(0)
            await consumer.subscribe(topic)
            one, two = await read(consumer, 2)
            consumer.acknowledge(one)
            with pytest.raises(IllegalState, match="All records must be acknowledged"):
                await consumer.poll(0)
            assert await consumer.commit() == {TopicPartition(topic, 0): None}
            with pytest.raises(IllegalState, match="cannot be acknowledged"):
                consumer.acknowledge(one)
            consumer.acknowledge(two, REJECT)
            assert await consumer.poll(0.2) == []
        async with share_consumer(address, group) as consumer:
            await consumer.subscribe(topic)
            with pytest.raises(IllegalState, match="Implicit acknowledgement"):
                consumer.acknowledge(one)
        with pytest.raises(ClientClosed):
            await consumer.poll(0)

    asyncio.run(story())


def test_members_share_a_partition_and_no_record_is_given_to_two(address: str, place: tuple[str, str]) -> None:
    topic, group = place

    async def story() -> None:
        found: list[list[int]] = [[], [], []]

        async def work(index: int) -> None:
            async with share_consumer(address, group, max_poll_records=20) as consumer:
                await consumer.subscribe(topic)
                deadline = time.monotonic() + PATIENCE_S
                while sum(map(len, found)) < 600 and time.monotonic() < deadline:
                    found[index] += [int(record.value) for record in await consumer.poll(0.3)]
                await consumer.commit()

        workers = [asyncio.create_task(work(index)) for index in range(3)]
        await asyncio.sleep(1)
        for start in range(0, 600, 20):
            await asyncio.to_thread(write, address, topic, 20, partitions=2, start=start)
        await asyncio.gather(*workers)
        read = Counter(number for each in found for number in each)
        assert set(read) == set(range(600))
        assert max(read.values()) == 1
        assert sum(map(bool, found)) >= 2  # who is quickest gets most, and perhaps all of a partition

    asyncio.run(story())


def test_record_limit_never_gives_more_than_was_asked_for(address: str, place: tuple[str, str]) -> None:
    topic, group = place
    write(address, topic, 60, partitions=2)

    async def story() -> None:
        async with share_consumer(address, group, max_poll_records=7, share_acquire_mode="record_limit") as consumer:
            await consumer.subscribe(topic)
            sizes: list[int] = []
            deadline = time.monotonic() + PATIENCE_S
            while sum(sizes) < 60 and time.monotonic() < deadline:
                sizes.append(len(await consumer.poll(1)))
            assert sum(sizes) == 60
            assert max(sizes) <= 7

    asyncio.run(story())


def test_a_record_that_cannot_be_read_is_told_and_can_be_rejected(address: str, place: tuple[str, str]) -> None:
    topic, group = place
    write(address, topic, 5, partitions=1)

    def odd_only(data: bytes) -> int:
        number = int(data)
        if number == 2:
            raise ValueError("two is not read here")
        return number

    async def story() -> None:
        async with share_consumer(address, group, **EXPLICIT, value_deserializer=odd_only) as consumer:
            await consumer.subscribe(topic)
            seen: list[int] = []
            refused: set[int] = set()
            deadline = time.monotonic() + PATIENCE_S
            while len(seen) < 4 and time.monotonic() < deadline:
                try:
                    records = await consumer.poll(1)
                except RecordDeserialization as error:
                    refused.add(error.offset)
                    consumer.acknowledge_offset(error.topic_partition, error.offset, REJECT)
                    continue
                for record in records:
                    seen.append(record.value)
                    consumer.acknowledge(record)
            assert sorted(seen) == [0, 1, 3, 4]
            assert refused == {2}
            await consumer.commit()
            assert await consumer.poll(0.3) == []

    asyncio.run(story())


def test_a_share_consumer_that_polls_too_late_is_out_and_comes_back(address: str, place: tuple[str, str]) -> None:
    topic, group = place
    write(address, topic, 4, partitions=1)

    async def story() -> None:
        async with share_consumer(address, group, max_poll_interval_ms=800) as consumer:
            await consumer.subscribe(topic)
            assert len(await read(consumer, 4)) == 4
            await asyncio.sleep(1.5)
            write(address, topic, 4, partitions=1, start=4)
            again = {record.offset for record in await read(consumer, 4)}
            assert again >= {4, 5, 6, 7}

    asyncio.run(story())


def test_a_share_consumer_that_subscribes_to_something_else_reads_that(address: str, place: tuple[str, str]) -> None:
    topic, group = place
    other = make_topic(address, "shared-other", 1)
    write(address, topic, 4, partitions=2)
    write(address, other, 3, partitions=1)

    async def story() -> None:
        async with share_consumer(address, group) as consumer:
            await consumer.subscribe(topic)
            assert {record.topic for record in await read(consumer, 4)} == {topic}
            await consumer.subscribe([other])
            assert {record.topic for record in await read(consumer, 3)} == {other}
            await consumer.unsubscribe()
            assert consumer.subscription() == set()
            with pytest.raises(IllegalState, match="not subscribed"):
                await consumer.poll(0)
            await consumer.subscribe([topic, other])
            again = await read(consumer, 3)
            assert offsets(again) == [(0, 2), (1, 2), (2, 2)]  # they were not acknowledged before it left
            await consumer.commit()
            write(address, topic, 2, partitions=2, start=4)
            assert {record.topic for record in await read(consumer, 2)} == {topic}

    asyncio.run(story())


def test_acknowledging_too_late_is_told_and_the_record_comes_again(address: str) -> None:
    """The lock has run out, and another member has the record."""
    topic = make_topic(address, "shared-late", 1)
    group = make_group(address, topic)
    set_group(address, group, "share.record.lock.duration.ms", "1000")
    write(address, topic, 3, partitions=1)

    async def story() -> None:
        async with share_consumer(address, group, **EXPLICIT) as slow, share_consumer(address, group) as quick:
            await slow.subscribe(topic)
            records = await read(slow, 3)
            await quick.subscribe(topic)
            assert offsets(await read(quick, 3)) == [(0, 2), (1, 2), (2, 2)]
            for record in records:
                slow.acknowledge(record)
            (answer,) = (await slow.commit()).values()
            assert isinstance(answer, InvalidRecordState)
            assert await quick.commit() == {TopicPartition(topic, 0): None}

    asyncio.run(story())


# The blocking face


@pytest.fixture
def consumer_of(address: str) -> Iterator[Callable[[str], ShareConsumer[Any, Any]]]:
    made: list[ShareConsumer[Any, Any]] = []

    def make(group: str) -> ShareConsumer[Any, Any]:
        made.append(ShareConsumer(bootstrap_servers=address, group_id=group))
        return made[-1]

    yield make
    for consumer in made:
        consumer.close()


def test_the_blocking_face_does_the_same(
    address: str, place: tuple[str, str], consumer_of: Callable[[str], ShareConsumer[Any, Any]]
) -> None:
    topic, group = place
    write(address, topic, 50, partitions=2)
    consumer = consumer_of(group)
    consumer.subscribe(topic)
    assert consumer.subscription() == {topic}
    found: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < 50 and time.monotonic() < deadline:
        found += consumer.poll(1)
    assert sorted(int(record.value) for record in found) == list(range(50))
    assert set(consumer.commit()) <= {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    consumer.unsubscribe()
    assert consumer.subscription() == set()


def test_wakeup_from_another_thread_ends_a_poll(
    place: tuple[str, str], consumer_of: Callable[[str], ShareConsumer[Any, Any]]
) -> None:
    topic, group = place
    consumer = consumer_of(group)
    consumer.subscribe(topic)
    timer = threading.Timer(0.5, consumer.wakeup)
    timer.start()
    begun = time.monotonic()
    with pytest.raises(Wakeup):
        consumer.poll(30)
    assert time.monotonic() - begun < 10
    timer.join()
    assert consumer.poll(0) == []


def test_a_closed_one_says_so(consumer_of: Callable[[str], ShareConsumer[Any, Any]]) -> None:
    consumer = consumer_of("share-closed")
    consumer.close()
    with pytest.raises(ClientClosed):
        consumer.poll(0)
    with pytest.raises(ClientClosed):
        consumer.subscribe("t")

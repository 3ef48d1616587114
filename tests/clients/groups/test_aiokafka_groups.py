"""aiokafka in groups and transactions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import ProducerFenced

from tests.support.clients import PATIENCE_S, new_topic
from tests.support.nodes import REPLICAS


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 100))


async def create(address: str, stem: str, partitions: int = 6) -> str:
    topic = new_topic(stem)
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    await admin.create_topics([NewTopic(topic, partitions, REPLICAS)])
    await admin.close()
    return topic


async def send(address: str, topic: str, values: list[bytes], partitions: int) -> None:
    async with AIOKafkaProducer(bootstrap_servers=address, linger_ms=5) as producer:
        for number, value in enumerate(values):
            await producer.send(topic, value, partition=number % partitions)


def member(address: str, group: str, *topics: str, **settings: Any) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        *topics, bootstrap_servers=address, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest",
        session_timeout_ms=6000, heartbeat_interval_ms=200, metadata_max_age_ms=500, fetch_max_wait_ms=100, **settings,
    )  # fmt: skip


async def until(claim: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not claim():
        assert time.monotonic() < deadline, f"not in time: {what}"
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "assignor",
    [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor],
    ids=["range", "roundrobin", "sticky"],
)
def test_members_share_the_partitions_and_take_over_from_one_who_leaves(address: str, assignor: Any) -> None:
    async def work() -> None:
        topic = await create(address, "aio-shared")
        group = new_topic("group")
        async with member(address, group, topic, partition_assignment_strategy=(assignor,)) as first:
            await until(lambda: len(first.assignment()) == 6, "one member has all")
            async with member(address, group, topic, partition_assignment_strategy=(assignor,)) as second:
                await until(lambda: len(first.assignment()) == len(second.assignment()) == 3, "both share")
                values = [b"%d" % number for number in range(60)]
                await send(address, topic, values, 6)
                found = []
                for one in (first, second):
                    found += [await asyncio.wait_for(one.getone(), PATIENCE_S) for _ in range(30)]
                assert sorted(record.value or b"" for record in found) == sorted(values)
                await first.commit()
                await second.commit()
            await until(lambda: len(first.assignment()) == 6, "the one that stays has all")
            offsets = [await first.committed(TopicPartition(topic, index)) for index in range(6)]
            assert offsets == [10] * 6

    run(work())


def test_a_group_goes_on_where_it_has_committed(address: str) -> None:
    async def work() -> None:
        topic = await create(address, "aio-committed", 1)
        group = new_topic("group")
        where = TopicPartition(topic, 0)
        await send(address, topic, [b"%d" % number for number in range(10)], 1)
        async with member(address, group, topic) as first:
            assert await first.committed(where) is None
            for _ in range(4):
                await asyncio.wait_for(first.getone(), PATIENCE_S)
            await first.commit({where: (4, "half way")})
        async with member(address, group, topic) as second:
            record = await asyncio.wait_for(second.getone(), PATIENCE_S)
            assert (record.offset, await second.committed(where)) == (4, 4)

    run(work())


def test_a_static_member_comes_back_to_what_it_had(address: str) -> None:
    async def work() -> None:
        topic = await create(address, "aio-static")
        group = new_topic("group")
        other = member(address, group, topic, group_instance_id="right")
        await other.start()
        first = member(address, group, topic, group_instance_id="left")
        await first.start()
        await until(lambda: len(first.assignment()) == len(other.assignment()) == 3, "both share")
        had = first.assignment()
        await first.stop()
        again = member(address, group, topic, group_instance_id="left")
        await again.start()
        await until(lambda: len(again.assignment()) == len(other.assignment()) == 3, "it is back")
        assert again.assignment() == had
        await again.stop()
        await other.stop()

    run(work())


def test_a_pattern_takes_topics_that_come_later(address: str) -> None:
    async def work() -> None:
        stem = new_topic("aio-pattern")
        await create(address, f"{stem}-a", 2)
        async with member(address, new_topic("group")) as one:
            one.subscribe(pattern=f"^{stem}-.*")
            await until(lambda: len(one.assignment()) == 2, "the first topic")
            await create(address, f"{stem}-b", 1)
            await until(lambda: len(one.assignment()) == 3, "the second topic")

    run(work())


def test_offsets_and_records_of_a_transaction_count_together(address: str) -> None:
    async def work() -> None:
        source, sink = await create(address, "aio-source", 1), await create(address, "aio-sink", 1)
        group = new_topic("group")
        where = TopicPartition(source, 0)
        async with AIOKafkaProducer(bootstrap_servers=address, transactional_id=new_topic("txn")) as producer:
            async with producer.transaction():
                await producer.send_and_wait(sink, b"committed")
                await producer.send_offsets_to_transaction({where: 4}, group)
            await producer.begin_transaction()
            await producer.send_and_wait(sink, b"aborted")
            await producer.send_offsets_to_transaction({where: 9}, group)
            await producer.abort_transaction()
        async with member(address, group, isolation_level="read_committed") as reader:
            reader.assign([where, TopicPartition(sink, 0)])
            assert await reader.committed(where) == 4
            await reader.seek_to_beginning(TopicPartition(sink, 0))
            assert (await asyncio.wait_for(reader.getone(), PATIENCE_S)).value == b"committed"
            assert not await reader.getmany(timeout_ms=300)

    run(work())


def test_a_zombie_is_fenced_by_its_successor(address: str) -> None:
    async def work() -> None:
        topic = await create(address, "aio-zombies", 1)
        name = new_topic("txn")
        zombie = AIOKafkaProducer(bootstrap_servers=address, transactional_id=name)
        await zombie.start()
        await zombie.begin_transaction()
        await zombie.send_and_wait(topic, b"never")
        async with AIOKafkaProducer(bootstrap_servers=address, transactional_id=name) as successor:
            async with successor.transaction():
                await successor.send_and_wait(topic, b"seen")
            with pytest.raises(ProducerFenced):
                await zombie.commit_transaction()
        await zombie.stop()
        async with AIOKafkaConsumer(bootstrap_servers=address, isolation_level="read_committed") as reader:
            reader.assign([TopicPartition(topic, 0)])
            await reader.seek_to_beginning()
            assert (await asyncio.wait_for(reader.getone(), PATIENCE_S)).value == b"seen"

    run(work())

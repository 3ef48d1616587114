"""Groups of our consumers whose coordinator is killed and comes back: nothing is lost, nobody has to be told.

Real processes, kill -9: Ottla's broker, and a real Kafka's with OTTLA_TESTS_AGAINST=kafka.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.client import TopicPartition
from tests.clients.groups.conftest import SETTINGS
from tests.clients.ours.group_members import PROTOCOLS, Book, Member, make_topic, run, settings_of, until, until_shared
from tests.clients.ours.test_share import QUICK, make_group, share_consumer
from tests.support.nodes import KIND, Nodes, running
from tests.support.server import Server

pytestmark = pytest.mark.timeout(180)

KILLS = 2
SESSION_MS = 45_000
"""Longer than a restart on a busy machine: a member that is taken for dead hears of it late, and two own its share."""
PARTITIONS = 4


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Server | Nodes]:
    """A broker that can be killed and started again where it was."""
    settings = {**SETTINGS, **QUICK, "group.consumer.session.timeout.ms": str(SESSION_MS)}
    with running(KIND, tmp_path, settings) as started:
        yield started


class Writer:
    """A producer in a thread of its own that writes number after number, each until it is acknowledged."""

    def __init__(self, address: str, topic: str) -> None:
        self._producer = Producer({
            "bootstrap.servers": address, "enable.idempotence": True, "log_level": 0, "message.timeout.ms": 60_000,
        })  # fmt: skip
        self._topic = topic
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.acknowledged: list[int] = []
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._is_stopping.wait(0.005):
            self._producer.produce(
                self._topic, str(number).encode(), partition=number % PARTITIONS, on_delivery=self._on_delivery
            )
            self._producer.poll(0)
            number += 1
        self._producer.flush(60)

    def _on_delivery(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.acknowledged.append(int(message.value()))

    async def stop(self) -> None:
        self._is_stopping.set()
        await asyncio.to_thread(self._thread.join)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_goes_on_when_its_coordinator_is_killed(broker: Server | Nodes, protocol: str) -> None:
    topic = make_topic(broker.address, "killed", PARTITIONS)

    async def story() -> None:
        book = Book()
        settings = settings_of(protocol)
        if protocol != "consumer":
            settings["session.timeout.ms"] = SESSION_MS
        members = [Member(broker.address, f"g-{topic}", name, settings, book) for name in ("a", "b")]
        for member in members:
            member.commits_on_revoke = True
            await member.subscribe([topic])
            member.start()
        await until_shared(members, [2, 2])
        writer = Writer(broker.address, topic)
        for _ in range(KILLS):
            goal = sum(len(member.records) for member in members) + 40
            await until(lambda: sum(len(one.records) for one in members) > goal, "records")  # noqa: B023  it ends here
            await asyncio.to_thread(broker.kill)
            await asyncio.sleep(1)
            await asyncio.to_thread(broker.start)
        await asyncio.sleep(1)
        await writer.stop()
        await until(lambda: {int(one.value) for m in members for one in m.records} >= set(writer.acknowledged), "all")
        await until_shared(members, [2, 2])
        assert book.double == []
        for member in members:
            await member.stop()
            await member.consumer.commit()
        places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        ends = await members[0].consumer.end_offsets(places)
        committed = await members[0].consumer.committed(places)
        assert {partition: place and place.offset for partition, place in committed.items()} == ends
        for member in members:
            await member.close()

    run(story())


def test_a_share_group_goes_on_when_the_broker_is_killed(broker: Server | Nodes) -> None:
    topic = make_topic(broker.address, "killed-share", PARTITIONS)
    group = make_group(broker.address, topic)

    async def story() -> None:
        read: set[int] = set()
        is_done = False

        async def work() -> None:
            async with share_consumer(broker.address, group) as consumer:
                await consumer.subscribe(topic)
                while not is_done:
                    records = await consumer.poll(0.3)
                    read.update(int(record.value) for record in records)

        workers = [asyncio.create_task(work()) for _ in range(2)]
        writer = Writer(broker.address, topic)
        for _ in range(KILLS):
            goal = len(read) + 40
            await until(lambda: len(read) > goal, "records")  # noqa: B023  it ends here
            await asyncio.to_thread(broker.kill)
            await asyncio.sleep(1)
            await asyncio.to_thread(broker.start)
        await asyncio.sleep(1)
        await writer.stop()
        await until(lambda: read >= set(writer.acknowledged), "every record", 60)
        is_done = True
        await asyncio.gather(*workers)

    run(story())

"""Producers and consumers among brokers that vanish, move and lie still, on virtual time, by seeds.

What must be true at the end of every seed: an acknowledged record is in the log exactly once, one whose delivery failed
at most once, those of one partition in the order they were sent; a consumer has read the whole log once and in order;
no call took longer than its settings allow.
"""

from __future__ import annotations

import logging
import os
from random import Random
from typing import Any

import pytest

from ottla.client import AsyncConsumer, TopicPartition
from ottla.client.errors import KafkaTimeout
from ottla.client.producer import AsyncProducer, Delivery
from ottla.errors import KafkaError
from ottla.world import ClientWorld
from tests.support.broker_cluster import BrokerCluster
from tests.support.trouble import Trouble

SEEDS = range(int(os.environ.get("OTTLA_CLIENT_SEEDS", "30")))
PARTITIONS = 4
TROUBLE_MS = 60_000
RECORDS = 400


class Course:
    """One seed: a producer that writes, a consumer that reads, and trouble."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = Random(f"{seed} course")
        self.cluster = BrokerCluster(seed, versions=self._old_versions())
        self.cluster.create_topic("t", PARTITIONS)
        self.deliveries: list[tuple[int, bytes, Delivery]] = []
        self.read: dict[int, list[tuple[int, bytes]]] = {index: [] for index in range(PARTITIONS)}
        self.is_done = False
        self.slowest_send_ms = 0

    def _old_versions(self) -> dict[str, tuple[int, int]]:
        """Brokers of Kafka 2.1 for some seeds, which know no topic ids, no fetch by id, no leader hints."""
        if self.chance.random() < 0.7:
            return {}
        return {
            "Produce": (0, 7),
            "Fetch": (0, 10),
            "Metadata": (0, 7),
            "ListOffsets": (0, 4),
            "FindCoordinator": (0, 2),
            "ApiVersions": (0, 2),
            "InitProducerId": (0, 1),
        }

    async def main(self, world: ClientWorld) -> None:
        trouble = Trouble(self.cluster, world, self.seed, TROUBLE_MS, "t", PARTITIONS)
        maker = world.tasks.spawn(trouble.run(), "trouble")
        reader = world.tasks.spawn(self.consume(world), "reader")
        await self.produce(world)
        await maker
        self.is_done = True
        await reader

    async def produce(self, world: ClientWorld) -> None:
        chance = self.chance
        producer = AsyncProducer(
            world=world,
            bootstrap_servers=self.cluster.bootstrap_servers,
            linger_ms=chance.choice((0, 5, 50)),
            batch_size=chance.choice((0, 200, 16_384)),
            delivery_timeout_ms=120_000,
            request_timeout_ms=chance.choice((1_000, 5_000, 30_000)),
            compression_type=chance.choice(("none", "none", "zstd", "lz4")),
            max_block_ms=60_000,
        )
        for number in range(RECORDS):
            partition = chance.randrange(PARTITIONS)
            value = b"%d-%d" % (partition, number)
            started = world.clock.monotonic_ms()
            try:
                delivery = await producer.send("t", value, partition=partition)
            except KafkaTimeout:
                self.note_send(world, started)
                continue  # the cluster was away for a minute: the record was never taken
            self.note_send(world, started)
            self.deliveries.append((partition, value, delivery))
            if chance.random() < 0.4:
                await world.tasks.sleep_ms(chance.randrange(0, 600))
        started = world.clock.monotonic_ms()
        await producer.flush()
        assert world.clock.monotonic_ms() - started <= 120_000 + 31_000, "flush outlived the delivery time-out"
        assert all(delivery.done() for _, _, delivery in self.deliveries)
        await producer.close()

    def note_send(self, world: ClientWorld, started: int) -> None:
        self.slowest_send_ms = max(self.slowest_send_ms, world.clock.monotonic_ms() - started)

    async def consume(self, world: ClientWorld) -> None:
        consumer: AsyncConsumer[Any, Any] = AsyncConsumer(
            world=world,
            bootstrap_servers=self.cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            request_timeout_ms=5_000,
            max_poll_records=self.chance.choice((1, 7, 500)),
            fetch_max_wait_ms=200,
        )
        await consumer.assign([TopicPartition("t", index) for index in range(PARTITIONS)])
        quiet = 0
        while quiet < 5:
            started = world.clock.monotonic_ms()
            records = await consumer.poll(2.0)
            took_ms = world.clock.monotonic_ms() - started
            assert took_ms <= 2_100, f"poll(2.0) took {took_ms} ms"
            for record in records:
                self.read[record.partition].append((record.offset, record.value))
            quiet = quiet + 1 if self.is_done and not records and self._has_read_all() else 0
            if self.is_done and world.clock.monotonic_ms() > 40 * TROUBLE_MS:
                pytest.fail(f"the consumer stopped at {[len(one) for one in self.read.values()]}")
        await consumer.close()

    def _has_read_all(self) -> bool:
        ends = [len(one) for one in self.cluster.values("t")]
        return [len(self.read[index]) for index in range(PARTITIONS)] == ends

    def check(self) -> dict[str, int]:
        logs = self.cluster.values("t")
        acknowledged = failed = 0
        for index, log in enumerate(logs):
            sent = [(value, delivery) for partition, value, delivery in self.deliveries if partition == index]
            for value, delivery in sent:
                error = delivery.exception()
                count = log.count(value)
                if error is None:
                    acknowledged += 1
                    assert count == 1, f"{value!r} was acknowledged and is in the log {count} times"
                    assert log[delivery.result().offset] == value
                else:
                    failed += 1
                    assert isinstance(error, KafkaError)
                    assert count <= 1, f"{value!r} failed and is in the log {count} times"
            order = {value: place for place, (value, _) in enumerate(sent)}
            places = [order[value] for value in log if value is not None]
            assert places == sorted(places), f"partition {index} is out of order"
            assert self.read[index] == list(enumerate(log)), f"partition {index} was not read as it is"
        assert self.slowest_send_ms <= 60_100, f"a send took {self.slowest_send_ms} ms"
        return {"acknowledged": acknowledged, "failed": failed}


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_and_nothing_comes_twice_whatever_the_network_does(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, logger="ottla")
    course = Course(seed)
    course.cluster.run(course.main)
    counts = course.check()
    assert counts["acknowledged"] > RECORDS // 2, counts

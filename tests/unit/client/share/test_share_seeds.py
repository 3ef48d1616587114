"""Share consumers on virtual time, with a real Ottla node that dies and a network that fails, by seeds.

Workers poll, say of each record what becomes of it, die without a word, leave and come. Whatever happens: a poll
returns in its time, and once all is well again every record that was written has been worked through.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest

from ottla.client import AcknowledgeType, AsyncProducer, AsyncShareConsumer
from ottla.sim import Life, VirtualClock, VirtualDisk, VirtualLoop, VirtualNetwork
from ottla.sim.logs import LogCapture
from ottla.sim.node import SimulatedNode
from ottla.sim.world import node_world
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.world import ClientWorld
from tests.unit.client.group.test_group_seeds import LOUD, NODE

SEEDS = range(int(os.environ.get("OTTLA_SHARE_SEEDS", "5")))
PARTITIONS = 3
RECORDS = 90
TROUBLE_MS = 25_000
HEALING_MS = 240_000
LOCK_MS = 2_000
POLL_MS = 400
LATE_MS = 50
SHARE_NODE = {
    **NODE,
    "num.partitions": str(PARTITIONS),
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.session.timeout.ms": "4000",
    "group.share.min.session.timeout.ms": "500",
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.delivery.count.limit": "10",
    "group.share.max.delivery.count.limit": "10",
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
GROUP_RESOURCE = 32


class Worker:
    """One share consumer on a host of its own, with a life of its own."""

    def __init__(self, course: Course, number: int) -> None:
        self.name = f"worker{number}"
        self._course = course
        self._chance = Random(f"{course.seed} {self.name}")
        self.host = course.network.add_host(self.name)
        self.life = Life(self.name)
        self.world = course.world_of(self.name, self.host, self.life)
        self.is_leaving = False
        self.has_left = False

    def start(self) -> None:
        self._course.spawn(self._run(), self.life)

    async def _run(self) -> None:
        course = self._course
        consumer = AsyncShareConsumer(
            world=self.world,
            bootstrap_servers="node:9092",
            group_id="s",
            share_acknowledgement_mode="explicit" if course.is_explicit else "implicit",
            share_acquire_mode=course.acquire_mode,
            max_poll_interval_ms=5_000,
            max_poll_records=7,
            request_timeout_ms=3_000,
            default_api_timeout_ms=6_000,
            fetch_max_wait_ms=300,
        )
        await consumer.subscribe(["t"])
        while not self.is_leaving:
            begun_ms = self.world.clock.monotonic_ms()
            records = await consumer.poll(POLL_MS / 1000)
            course.slowest_poll_ms = max(course.slowest_poll_ms, self.world.clock.monotonic_ms() - begun_ms)
            for record in records:
                place = (record.partition, record.offset)
                kind = AcknowledgeType.ACCEPT
                if course.is_explicit:
                    kind = self._chance.choice((AcknowledgeType.ACCEPT,) * 3 + (AcknowledgeType.RELEASE,))
                    consumer.acknowledge(record, kind)
                if kind is AcknowledgeType.ACCEPT:
                    course.worked.add(place)
            if self._chance.random() < 0.3:
                await consumer.commit(timeout=2)
            if not course.is_healed and self._chance.random() < 0.03:
                await self.world.tasks.sleep_ms(self._chance.choice((LOCK_MS, 8_000)))  # the user dawdles
        await consumer.close(5)
        self.has_left = True

    def die(self) -> None:
        """Without a word."""
        self.life.end()
        self._course.network.end_life(self.host)


class Course:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = Random(f"{seed} share course")
        self.is_explicit = self.chance.random() < 0.5
        self.acquire_mode = self.chance.choice(("batch_optimized", "record_limit"))
        self.loop = VirtualLoop()
        self.network = VirtualNetwork(self.loop, Random(f"{seed} network"))
        self.errors: list[str] = []
        self.logs = LogCapture(lambda _: None, self.errors.append)
        self.node = SimulatedNode(self.network, "node", SHARE_NODE, self.logs, lambda _: None, f"{seed}")
        self.workers: list[Worker] = []
        self.worker_count = 0
        self.worked: set[tuple[int, int]] = set()
        self.written: set[tuple[int, int]] = set()
        self.is_healed = False
        self.slowest_poll_ms = 0
        self.failures: list[BaseException] = []

    def world_of(self, name: str, host: Any, life: Life) -> ClientWorld:
        clock = VirtualClock()
        self.loop.attach(clock)
        disk = VirtualDisk(Random(f"{self.seed} {name} disk"), clock)
        return node_world(self.network, host, clock, disk, life, f"{self.seed} {name}").as_client

    def spawn(self, work: Coroutine[Any, Any, None], life: Life) -> None:
        async def run() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001  the course fails with it
                self.failures.append(error)

        life.tasks.append(self.loop.create_task(run(), context=life.context.copy()))

    def add_worker(self) -> None:
        self.worker_count += 1
        worker = Worker(self, self.worker_count)
        self.workers.append(worker)
        worker.start()

    def run(self) -> None:
        with self.logs:
            life = Life("director")
            world = self.world_of("director", self.network.add_host("director"), life)
            self.spawn(self._direct(world), life)
            try:
                self.loop.run_until(life.tasks[0].done)
            finally:
                for worker in self.workers:
                    worker.life.end()
                life.end()
                self.node.kill(is_power_loss=False)
                self.loop.close()
        assert self.failures == []

    async def _direct(self, world: ClientWorld) -> None:
        await self.node.start()
        producer = AsyncProducer(world=world, bootstrap_servers="node:9092", request_timeout_ms=3_000)
        await self._begin_at_the_beginning(producer)
        for _ in range(self.chance.choice((1, 2, 3))):
            self.add_worker()
        writer = world.tasks.spawn(self._write(world, producer), "writer")
        await self._trouble(world)
        self.network.heal()
        if not self.node.is_running:
            await self.node.start()
        self.is_healed = True
        await writer
        await self._wait(world, lambda: self.worked >= self.written, HEALING_MS, "every record is worked through")
        for worker in self.workers:
            worker.is_leaving = True
        await self._wait(world, lambda: all(worker.has_left for worker in self.workers), 20_000, "workers have left")

    async def _begin_at_the_beginning(self, producer: AsyncProducer) -> None:
        setting = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
        resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name="s", configs=[setting])
        network = producer._core.network
        answer = await network.send(network.least_loaded(), IncrementalAlterConfigsRequest(resources=[resource]))
        assert answer.responses[0].error_code == 0

    async def _wait(self, world: ClientWorld, claim: Any, timeout_ms: float, what: str) -> None:
        until_ms = world.clock.monotonic_ms() + timeout_ms
        while not claim():
            missing = sorted(self.written - self.worked)
            assert world.clock.monotonic_ms() < until_ms, f"not in time: {what}; not worked through: {missing}"
            await world.tasks.sleep_ms(200)

    async def _trouble(self, world: ClientWorld) -> None:
        chance = self.chance
        until_ms = world.clock.monotonic_ms() + TROUBLE_MS
        while world.clock.monotonic_ms() < until_ms:
            await world.tasks.sleep_ms(chance.randrange(100, 3_000))
            opened = self.network.open_connections()
            match chance.randrange(9):
                case 0:
                    self.node.kill(is_power_loss=False)
                    await world.tasks.sleep_ms(chance.choice((1, 500, 6_000)))
                    await self.node.start()
                case 1 if self.workers:
                    self.network.part(chance.choice(self.workers).host, self.node.host)
                case 2:
                    self.network.heal()
                case 3 if len(self.workers) > 1:
                    self.workers.pop(chance.randrange(len(self.workers))).die()
                case 4 if len(self.workers) > 1:
                    self.workers.pop(chance.randrange(len(self.workers))).is_leaving = True
                case 5 | 6 if len(self.workers) < 4:
                    self.add_worker()
                case 7 if opened:
                    self.network.reset(chance.choice(opened))
                case 8 if opened:
                    chance.choice(chance.choice(opened)).is_silent = True
                case _:
                    pass

    async def _write(self, world: ClientWorld, producer: AsyncProducer) -> None:
        for number in range(RECORDS):
            delivery = await producer.send("t", b"%d" % number, partition=number % PARTITIONS)
            stored = await delivery
            self.written.add((stored.partition, stored.offset))
            await world.tasks.sleep_ms(self.chance.randrange(0, 500))
        await producer.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_share_group_in_trouble_works_through_everything(seed: int) -> None:
    """A record may be given up by the broker after ten deliveries, which these seeds never come near."""
    course = Course(seed)
    course.run()
    assert course.slowest_poll_ms <= POLL_MS + LATE_MS
    assert [line for line in course.errors if LOUD not in line] == []

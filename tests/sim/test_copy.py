"""An exactly-once copy by our own clients through a whole Ottla node that is killed and restarted, on virtual time.

Workers of one group read a source topic and write to a sink, each batch and its offsets in one transaction. The node
dies by kill -9, connections break and fall silent, workers vanish in the middle of their work and others take over. At
the end the sink, read as committed, is the source: every record once, in the order of its partition.
"""

from __future__ import annotations

import logging
import os
from random import Random
from typing import Any

import pytest

from ottla.client import AsyncAdmin, AsyncConsumer, AsyncProducer, NewTopic, TopicPartition
from ottla.errors import KafkaError
from ottla.sim import Life, VirtualClock, VirtualDisk, VirtualLoop, VirtualNetwork, node_world
from ottla.sim.logs import LogCapture
from ottla.sim.node import NodeDied, SimulatedNode
from ottla.world import ClientWorld

SEEDS = range(int(os.environ.get("OTTLA_COPY_SEEDS", "8")))
PARTITIONS = 3
RECORDS = 150
TROUBLE_MS = 40_000
LIMIT_MS = 400_000
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@node:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "advertised.listeners": "PLAINTEXT://node:9092",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "/data/a",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.heartbeat.interval.ms": "400",
    "group.consumer.min.heartbeat.interval.ms": "100",
}


class Copy:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = Random(f"{seed} copy")
        self.loop = VirtualLoop()
        self.network = VirtualNetwork(self.loop, Random(f"{seed} network"))
        self.logs = LogCapture(lambda line: None, lambda line: None)
        self.node = SimulatedNode(self.network, "node", SETTINGS, self.logs, lambda line: None, str(seed))
        self.host = self.network.add_host("client")
        self.main_life = Life("main")
        self.protocol = self.chance.choice(("classic", "consumer"))
        self.sent: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
        self.is_done = False
        self.died = 0

    def world(self, life: Life, name: str) -> ClientWorld:
        clock = VirtualClock()
        self.loop.attach(clock)
        disk = VirtualDisk(Random(0), clock)
        return node_world(self.network, self.host, clock, disk, life, f"{self.seed} {name}").as_client

    def run(self) -> dict[int, list[bytes]]:
        with self.logs:
            task = self.loop.create_task(self._main(), context=self.main_life.context.copy())
            try:
                return self.loop.run_until_complete(task)
            finally:
                self.node.kill(is_power_loss=False)
                self.main_life.end()
                self.loop.close()

    async def _main(self) -> dict[int, list[bytes]]:
        world = self.world(self.main_life, "main")
        await self.node.start()
        async with AsyncAdmin(bootstrap_servers="node:9092", world=world) as admin:
            (await admin.create_topics([NewTopic("source", PARTITIONS, 1), NewTopic("sink", PARTITIONS, 1)])).all()
        trouble = world.tasks.spawn(self._trouble(world), "trouble")
        workers = [world.tasks.spawn(self._keep_working(world, number), f"worker {number}") for number in range(2)]
        await self._produce(world)
        await trouble
        result = await self._read_sink(world)
        self.is_done = True
        for worker in workers:
            await worker
        return result

    async def _produce(self, world: ClientWorld) -> None:
        async with AsyncProducer(
            world=world, bootstrap_servers="node:9092", delivery_timeout_ms=300_000, request_timeout_ms=3_000,
            max_block_ms=120_000, linger_ms=5,
        ) as producer:  # fmt: skip
            deliveries = []
            for number in range(RECORDS):
                partition = self.chance.randrange(PARTITIONS)
                value = b"%d" % number
                self.sent[partition].append(value)
                deliveries.append(await producer.send("source", value, partition=partition))
                await world.tasks.sleep_ms(self.chance.randrange(0, 400))
            for delivery in deliveries:
                await delivery

    async def _trouble(self, world: ClientWorld) -> None:
        until = world.clock.monotonic_ms() + TROUBLE_MS
        while world.clock.monotonic_ms() < until:
            await world.tasks.sleep_ms(self.chance.randrange(200, 5_000))
            kind = self.chance.randrange(4)
            if kind == 0:
                self.node.kill(is_power_loss=False)
                await world.tasks.sleep_ms(self.chance.randrange(1, 3_000))
                await self._start_again()
            elif kind == 1 and self.network.open_connections():
                self.network.reset(self.chance.choice(self.network.open_connections()))
            elif kind == 2:
                self.network.part(self.host, self.node.host)
                await world.tasks.sleep_ms(self.chance.randrange(10, 6_000))
                self.network.heal()
            elif self.network.open_connections():
                self.chance.choice(self.chance.choice(self.network.open_connections())).is_silent = True
        self.network.heal()

    async def _start_again(self) -> None:
        while not self.node.is_running:
            try:
                await self.node.start()
            except NodeDied:
                continue

    async def _keep_working(self, world: ClientWorld, number: int) -> None:
        """A worker that vanishes now and then, without a goodbye, and is replaced by another one of the same name."""
        life_number = 0
        while not self.is_done:
            life_number += 1
            life = Life(f"worker {number} life {life_number}")
            own = self.world(life, life.name)
            task = self.loop.create_task(self._work(own, number), context=life.context.copy())
            life.tasks.append(task)
            lives_ms = self.chance.randrange(2_000, 20_000)
            until = world.clock.monotonic_ms() + lives_ms
            while not task.done() and not self.is_done:
                await world.tasks.sleep_ms(100)
                if world.clock.monotonic_ms() >= until and world.clock.monotonic_ms() < TROUBLE_MS:
                    break
            if not task.done():
                life.end()
                self.died += 1
            elif task.exception() is not None:
                raise task.exception() or AssertionError
            await world.tasks.sleep_ms(200)

    async def _work(self, world: ClientWorld, number: int) -> None:
        """Copy until something is wrong that only a new worker mends."""
        settings: dict[str, Any] = {"bootstrap_servers": "node:9092", "request_timeout_ms": 3_000, "world": world}
        producer = AsyncProducer(
            **settings, transactional_id=f"copy-{number}", transaction_timeout_ms=8_000, max_block_ms=20_000,
            delivery_timeout_ms=20_000,
        )  # fmt: skip
        is_classic = self.protocol == "classic"
        classic: dict[str, Any] = {"session_timeout_ms": 3_000, "heartbeat_interval_ms": 400} if is_classic else {}
        consumer: AsyncConsumer[bytes, bytes] = AsyncConsumer(
            **settings, group_id="copy", group_protocol=self.protocol, enable_auto_commit=False,
            auto_offset_reset="earliest", isolation_level="read_committed", max_poll_records=20,
            **classic,
        )  # fmt: skip
        try:
            await producer.init_transactions()
            await consumer.subscribe("source")
            while not self.is_done:
                records = await consumer.poll(0.5)
                if not records:
                    continue
                await producer.begin_transaction()
                for record in records:
                    await producer.send("sink", record.value, partition=record.partition)
                ends = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
                await producer.send_offsets_to_transaction(ends, consumer.group_metadata())
                await producer.commit_transaction()
        except KafkaError as error:
            # Whatever it was: the transaction did not commit, and the next worker begins at the committed offsets.
            logging.getLogger("ottla.client").info("worker %d begins again: %s", number, error)
        # Not for a worker that vanishes: nobody closes what has lost its process.
        await consumer.close(1.0)
        await producer.close(1.0)

    async def _read_sink(self, world: ClientWorld) -> dict[int, list[bytes]]:
        found: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
        consumer: AsyncConsumer[bytes, bytes] = AsyncConsumer(
            world=world, bootstrap_servers="node:9092", auto_offset_reset="earliest", isolation_level="read_committed"
        )
        await consumer.assign([TopicPartition("sink", index) for index in range(PARTITIONS)])
        quiet = 0
        while quiet < 10 and world.clock.monotonic_ms() < LIMIT_MS:
            records = await consumer.poll(1.0)
            for record in records:
                found[record.partition].append(record.value)
            is_all = sum(map(len, found.values())) >= RECORDS
            quiet = quiet + 1 if is_all and not records else 0
        await consumer.close()
        return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_copy_is_exact_whatever_dies(seed: int) -> None:
    copy = Copy(seed)
    found = copy.run()
    assert found == copy.sent, f"{copy.protocol}, {copy.died} workers vanished"

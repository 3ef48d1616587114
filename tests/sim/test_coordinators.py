"""Coordinators of a cluster: transactions, groups and share state over three brokers, and when their leaders die.

Real nodes and Ottla's own clients on virtual time. Group, transactional id and share partition are chosen so that their
coordinators and the data are on brokers of the test's choice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from random import Random

import pytest

from ottla.client import (
    AlterConfigOp,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    AsyncShareConsumer,
    ConfigResource,
    NewTopic,
    TopicPartition,
)
from ottla.coordinator import coordinator_partition
from ottla.coordinator.share import SharePartitionKey
from ottla.errors import NotCoordinator
from ottla.node import Node
from ottla.server import GROUP_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from ottla.sim import VirtualLoop, VirtualNetwork, client_world
from ottla.sim.cluster import SimulatedCluster, layout
from ottla.sim.logs import LogCapture
from ottla.world import Promise

SETTINGS = {
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.num.partitions": "6",
    "share.coordinator.state.topic.num.partitions": "6",
    "group.initial.rebalance.delay.ms": "0",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "100",
}
SERVERS = "node1:9092,node2:9092,node3:9092"
DATA = "data"


class Three:
    """Three nodes of both roles, with internal topics of factor 3, and a host for the clients."""

    def __init__(self, seed: int) -> None:
        self.loop = VirtualLoop()
        self.errors: list[str] = []
        self.logs = LogCapture(lambda line: None, self.errors.append)
        self.network = VirtualNetwork(self.loop, Random(f"{seed} network"))
        self.cluster = SimulatedCluster(
            self.network, layout(3, settings=SETTINGS), self.logs, lambda line: None, str(seed)
        )
        self.client = client_world(self.network, "client", str(seed))
        self.world = self.client.as_client

    def run(self, main: Callable[[], Awaitable[None]]) -> None:
        async def everything() -> None:
            await self.cluster.start()
            async with self.admin() as admin:
                (await admin.create_topics([NewTopic(DATA, 6, 3)])).all()
            await main()

        with self.logs:
            try:
                task = self.loop.create_task(everything(), context=self.client.life.context.copy())
                self.loop.run_until_complete(task)
            finally:
                self.logs.is_muted = True
                self.client.life.end()
                self.cluster.kill(is_power_loss=False)
                self.loop.close()
        assert not self.errors

    # Clients

    def admin(self) -> AsyncAdmin:
        return AsyncAdmin(bootstrap_servers=SERVERS, world=self.world, request_timeout_ms=5_000)

    def producer(self, **settings: object) -> AsyncProducer:
        return AsyncProducer({"bootstrap_servers": SERVERS, "request_timeout_ms": 5_000, **settings}, world=self.world)

    def consumer(self, **settings: object) -> AsyncConsumer[bytes, bytes]:
        return AsyncConsumer(
            {"bootstrap_servers": SERVERS, "auto_offset_reset": "earliest", "request_timeout_ms": 5_000, **settings},
            world=self.world,
        )

    # Who is where

    def node(self, broker_id: int) -> Node:
        node = self.cluster[f"node{broker_id}"].node
        assert node is not None, f"node{broker_id} is not running"
        return node

    @property
    def nodes(self) -> list[Node]:
        return [one.node for one in self.cluster if one.node is not None]

    def leader(self, topic: str, index: int) -> int:
        return self.nodes[0].context.image.topics.by_name[topic].partitions[index].leader

    async def until(self, is_so: Callable[[], bool], seconds: float = 60) -> None:
        end_us = self.loop.now_us + seconds * 1_000_000
        while not is_so():
            assert self.loop.now_us < end_us, "it does not come to be"
            await self.client.tasks.sleep_ms(50)

    async def make_internal_topics(self) -> None:
        """Have the topics of the coordinators made, by asking for coordinators."""
        async with self.producer(transactional_id="first of all") as producer:
            await producer.init_transactions()
        async with self.consumer(group_id="first of all") as consumer:
            await consumer.assign([TopicPartition(DATA, 0)])
            await consumer.commit({TopicPartition(DATA, 0): 0})

    def key_led_by(self, broker_id: int, topic: str, prefix: str) -> str:
        """A group or transactional id whose coordinator is that broker."""
        partitions = len(self.nodes[0].context.image.topics.by_name[topic].partitions)
        assert broker_id in {self.leader(topic, index) for index in range(partitions)}, f"{broker_id} leads none"
        keys = (f"{prefix}{number}" for number in count())
        return next(key for key in keys if self.leader(topic, coordinator_partition(key, partitions)) == broker_id)

    def coordinator(self, topic: str, key: str) -> int:
        partitions = self.nodes[0].context.image.topics.by_name[topic].partitions
        return self.leader(topic, coordinator_partition(key, len(partitions)))

    def data_led_by(self, broker_id: int) -> int:
        return next(index for index in range(6) if self.leader(DATA, index) == broker_id)


async def read_committed(three: Three, index: int) -> list[bytes]:
    """Everything of a partition that is committed and stable."""
    partition = TopicPartition(DATA, index)
    async with three.consumer(isolation_level="read_committed") as consumer:
        await consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        found: list[bytes] = []
        while await consumer.position(partition) < end:
            found += [record.value for record in await consumer.poll(0.5) if record.value is not None]
        return found


async def committed(three: Three, group: str) -> dict[int, int]:
    async with three.admin() as admin:
        found = (await admin.list_consumer_group_offsets([group], require_stable=True))[group].result()
    return {partition.partition: one.offset for partition, one in found.items() if one is not None}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_ends_whose_coordinator_data_and_group_are_on_three_brokers(seed: int, is_commit: bool) -> None:
    three = Three(seed)

    async def main() -> None:
        await three.make_internal_topics()
        tx = three.key_led_by(1, TRANSACTION_TOPIC, "tx")
        group = three.key_led_by(2, GROUP_TOPIC, "group")
        index = three.data_led_by(3)
        async with three.producer(transactional_id=tx) as producer, three.consumer(group_id=group) as consumer:
            await producer.init_transactions()
            for number in range(3):
                await producer.begin_transaction()
                await (await producer.send(DATA, b"%d" % number, partition=index))
                offsets = {TopicPartition(DATA, 0): number + 1}
                await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
                await (producer.commit_transaction() if is_commit else producer.abort_transaction())
        log = three.node(3).replicas.partition_by_name(DATA, index).local_log()
        await three.until(lambda: log.last_stable_offset == 6)  # three records and their markers, on all replicas
        assert await read_committed(three, index) == ([b"0", b"1", b"2"] if is_commit else [])
        assert await committed(three, group) == ({0: 3} if is_commit else {})

    three.run(main)


class Death:
    """In the place of a `MarkerSender`: the transaction is prepared for good, and the node dies before its markers."""

    def __init__(self, three: Three, name: str) -> None:
        self._three = three
        self._name = name

    def send(self, *_: object, transaction_version: int) -> Promise[Mapping[TopicPartition, int]]:
        self._three.cluster[self._name].kill(is_power_loss=False)
        return self._three.client.tasks.promise()


@pytest.mark.parametrize("seed", range(3))
def test_a_coordinator_that_dies_between_prepare_and_the_markers_is_followed_by_one_that_writes_them(
    seed: int,
) -> None:
    three = Three(seed)

    async def main() -> None:
        await three.make_internal_topics()
        tx = three.key_led_by(1, TRANSACTION_TOPIC, "tx")
        group = three.key_led_by(2, GROUP_TOPIC, "group")
        index = three.data_led_by(3)
        producer = three.producer(transactional_id=tx)
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send(DATA, b"value", partition=index))
        async with three.consumer(group_id=group) as consumer:
            await producer.send_offsets_to_transaction({TopicPartition(DATA, 0): 1}, consumer.group_metadata())
        log = three.node(3).replicas.partition_by_name(DATA, index).local_log()
        completions = three.node(1).broker.transactions.completions
        completions._markers = Death(three, "node1")
        await producer.commit_transaction()
        assert not three.cluster["node1"].is_running
        await three.until(lambda: log.log_end_offset == 2)
        assert await read_committed(three, index) == [b"value"]
        assert await committed(three, group) == {0: 1}
        await three.until(lambda: three.coordinator(TRANSACTION_TOPIC, tx) != 1)
        await producer.begin_transaction()
        await producer.send(DATA, b"next", partition=index)
        await producer.commit_transaction()
        await producer.close()
        assert await read_committed(three, index) == [b"value", b"next"]

    three.run(main)


def test_a_group_goes_on_with_its_members_and_offsets_at_the_next_coordinator() -> None:
    three = Three(1)

    async def main() -> None:
        await three.make_internal_topics()
        group = three.key_led_by(2, GROUP_TOPIC, "group")
        index = three.data_led_by(1)
        async with three.producer() as producer:
            for number in range(10):
                await producer.send(DATA, b"%d" % number, partition=index)
        async with three.consumer(
            group_id=group, enable_auto_commit=False, session_timeout_ms=30_000, max_poll_records=5
        ) as consumer:
            await consumer.subscribe(DATA)
            found: list[bytes | None] = []
            while len(found) < 5:
                found += [record.value for record in await consumer.poll(0.5)]
            await consumer.commit({TopicPartition(DATA, index): 5})
            before = consumer.group_metadata()
            three.cluster["node2"].kill(is_power_loss=False)
            while len(found) < 10:
                found += [record.value for record in await consumer.poll(0.5)]
            await consumer.commit({TopicPartition(DATA, index): 10})
            assert three.coordinator(GROUP_TOPIC, group) != 2
            after = consumer.group_metadata()
            assert (after.member_id, after.generation_id) == (before.member_id, before.generation_id)
        assert found == [b"%d" % number for number in range(10)]
        assert await committed(three, group) == {index: 10}

    three.run(main)


def test_share_state_is_kept_by_another_broker_and_by_the_next_one_when_that_dies() -> None:
    three = Three(2)

    async def take(group: str, wanted: int) -> list[bytes | None]:
        found: list[bytes | None] = []
        async with AsyncShareConsumer[bytes, bytes](
            {"bootstrap_servers": SERVERS, "group_id": group, "request_timeout_ms": 5_000}, world=three.world
        ) as consumer:
            await consumer.subscribe(DATA)
            while len(found) < wanted:
                found += [record.value for record in await consumer.poll(0.5)]
                outcomes = await consumer.commit()
                assert not any(outcomes.values()), outcomes
        return found

    async def main() -> None:
        await three.make_internal_topics()
        index = three.data_led_by(1)
        # Which broker keeps the state follows from the group: __share_group_state is made for the first of them.
        await share_group(three, "first share")
        async with three.producer() as producer:
            await (await producer.send(DATA, b"first", partition=index))
        assert await take("first share", 1) == [b"first"]
        topic_id = three.nodes[0].context.image.topics.by_name[DATA].id
        groups = (f"share{number}" for number in count())
        group = next(
            one
            for one in groups
            if three.coordinator(SHARE_TOPIC, SharePartitionKey(one, topic_id, index).coordinator_key) == 3
            and three.coordinator(GROUP_TOPIC, one) == 2
        )
        await share_group(three, group)
        assert await take(group, 1) == [b"first"]
        three.cluster["node3"].kill(is_power_loss=False)
        async with three.producer() as producer:
            await (await producer.send(DATA, b"second", partition=index))
        assert await take(group, 1) == [b"second"], "what was acknowledged is not delivered again"
        key = SharePartitionKey(group, topic_id, index).coordinator_key
        assert three.coordinator(SHARE_TOPIC, key) != 3

    three.run(main)


async def share_group(three: Three, group: str) -> None:
    async with three.admin() as admin:
        change = {ConfigResource.group(group): [AlterConfigOp.set("share.auto.offset.reset", "earliest")]}
        (await admin.incremental_alter_configs(change)).all()


def test_each_broker_answers_for_its_own_shards_and_an_admin_finds_all_of_them() -> None:
    three = Three(3)

    async def main() -> None:
        await three.make_internal_topics()
        ids = {broker_id: three.key_led_by(broker_id, TRANSACTION_TOPIC, "tx") for broker_id in (1, 2, 3)}
        for tx in ids.values():
            async with three.producer(transactional_id=tx) as producer:
                await producer.init_transactions()
        async with three.admin() as admin:
            listed = {one.transactional_id for one in await admin.list_transactions()}
            assert {*ids.values(), "first of all"} == listed
            described = (await admin.describe_transactions(ids.values())).all()
        assert described.keys() == set(ids.values())
        for broker_id, tx in ids.items():
            for node in three.nodes:
                coordinator = node.broker.transactions
                asked = coordinator.describe(tx)
                if node.config.node_id == broker_id:
                    await asked
                    continue
                with pytest.raises(NotCoordinator):
                    await asked
        led = [set(node.broker.transactions.runtime.led_indexes) for node in three.nodes]
        assert set.union(*led) == set(range(6))
        assert sum(map(len, led)) == 6

    three.run(main)

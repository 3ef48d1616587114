"""Clusters of several nodes: stock clients on them, while nodes and the links between them break and are mended."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.testing import AsyncCluster, Cluster, ClusterError
from tests.testing.test_cluster import can_connect
from tests.testing.test_faults import client_settings, eventually, producer_of, write

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # how kafka-python reads its own schemas
    from kafka import KafkaConsumer, KafkaProducer

PATIENCE_S = 60.0
COUNT = 200
VALUES = [f"value {number}" for number in range(COUNT)]


@pytest.fixture(params=[False, True], ids=["threads", "processes"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(3, processes=request.param) as running:
        yield running


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    """One that no test breaks."""
    with Cluster(3) as running:
        yield running


def read(cluster: Cluster, topic: str) -> list[str]:
    """Everything in partition 0."""
    consumer = Consumer(client_settings(cluster, group_id="reader", enable_auto_commit=False, fetch_wait_max_ms=50))
    try:
        first, end = watermarks(consumer, topic)
        consumer.assign([TopicPartition(topic, 0, first)])
        found: list[str] = []
        while len(found) < end - first:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"only {found} came"
            if message.error() is None:
                found.append((message.value() or b"").decode())
        return found
    finally:
        consumer.close()


def watermarks(consumer: Consumer, topic: str) -> tuple[int, int]:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            first, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S)
            return first, end
        except KafkaException:
            assert time.monotonic() < deadline, "nobody tells the watermarks"
            time.sleep(0.1)


def another(*numbers: int) -> int:
    """A node that is none of these."""
    return next(number for number in range(3) if number not in numbers)


def leads_elsewhere(cluster: Cluster, topic: str, than: int) -> Callable[[], bool]:
    def claim() -> bool:
        try:
            return cluster.leader(topic) != than
        except ClusterError:
            return False

    return claim


def test_every_node_is_a_broker_and_topics_have_a_replica_on_each(shared: Cluster) -> None:
    topic = shared.create_topic("everywhere", 6)
    assert len(shared.bootstrap_servers.split(",")) == 3
    for address in shared.bootstrap_servers.split(","):
        seen = AdminClient({"bootstrap.servers": address}).list_topics(topic, timeout=PATIENCE_S)
        assert {f"{broker.host}:{broker.port}" for broker in seen.brokers.values()} == {
            *shared.bootstrap_servers.split(",")
        }
        partitions = seen.topics[topic].partitions.values()
        assert [sorted(one.replicas) for one in partitions] == [[1, 2, 3]] * 6
        assert {one.leader for one in partitions} == {1, 2, 3}, "leaders are spread"
    assert shared.controller() in range(3)


def test_confluent_kafka_writes_to_all_replicas_and_reads_in_a_group(shared: Cluster) -> None:
    topic = shared.create_topic("confluent", 3)
    producer = Producer({"bootstrap.servers": shared.bootstrap_servers, "acks": "all", "enable.idempotence": True})
    for value in VALUES:
        producer.produce(topic, value.encode())
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer(
        {"bootstrap.servers": shared.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[str] = []
    while len(found) < COUNT:
        messages = consumer.consume(COUNT, timeout=PATIENCE_S)
        assert messages, f"only {len(found)} came"
        found += [(message.value() or b"").decode() for message in messages]
    assert sorted(found) == sorted(VALUES)
    shared.wait_for_group(topic, state="Stable", members=1)
    consumer.close()
    shared.wait_for_group(topic, state="Empty", members=0)


def test_kafka_python_writes_to_all_replicas_and_reads_in_a_group(shared: Cluster) -> None:
    topic = shared.create_topic("kafka-python", 3)
    servers = shared.bootstrap_servers.split(",")
    producer = KafkaProducer(bootstrap_servers=servers, acks="all")
    futures = [producer.send(topic, value.encode()) for value in VALUES]
    assert all(future.get(PATIENCE_S).offset >= 0 for future in futures)
    producer.close()
    consumer = KafkaConsumer(topic, bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest")
    found = [next(consumer).value.decode() for _ in VALUES]
    consumer.close()
    assert sorted(found) == sorted(VALUES)


def test_aiokafka_writes_to_all_replicas_and_reads_in_a_group(shared: Cluster) -> None:
    topic = shared.create_topic("aiokafka", 3)

    async def main() -> list[str]:
        servers = shared.bootstrap_servers
        async with AIOKafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True) as producer:
            await asyncio.gather(*[await producer.send(topic, value.encode()) for value in VALUES])
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest"
        ) as consumer:
            return [((await consumer.getone()).value or b"").decode() for _ in VALUES]

    assert sorted(asyncio.run(asyncio.wait_for(main(), PATIENCE_S))) == sorted(VALUES)


def test_a_killed_leader_is_replaced_and_is_in_sync_again_after_its_restart(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", min_insync_replicas=2)
    producer = producer_of(cluster, acks="all", enable_idempotence=True)
    assert write(producer, topic, *VALUES[:10]) == [None] * 10
    leader = cluster.leader(topic)
    address = cluster.bootstrap_servers.split(",")[leader]
    cluster.kill(leader)
    assert not cluster.is_running(leader)
    assert write(producer, topic, *VALUES[10:20]) == [None] * 10
    assert cluster.leader(topic) != leader
    cluster.restart(leader)
    assert cluster.bootstrap_servers.split(",")[leader] == address
    cluster.wait_for_replicas(topic, PATIENCE_S)
    assert read(cluster, topic) == VALUES[:20]


def test_a_node_that_stands_still_is_missed_and_comes_back(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", min_insync_replicas=2)
    # The client's patience with a broker that does not answer is a minute.
    producer = producer_of(cluster, acks="all", enable_idempotence=True, socket_timeout_ms=2000)
    assert write(producer, topic, "before") == [None]
    leader = cluster.leader(topic)
    cluster.pause(leader)
    assert cluster.is_running(leader)
    with pytest.raises(ClusterError, match=rf"node {leader} is paused: resume\({leader}\) lets it go on"):
        cluster.connection_count(leader)
    eventually(leads_elsewhere(cluster, topic, leader), "nobody else leads")
    assert write(producer, topic, "meanwhile") == [None]
    cluster.resume(leader)
    cluster.wait_for_replicas(topic, PATIENCE_S)
    assert read(cluster, topic) == ["before", "meanwhile"]


def test_a_node_that_is_killed_while_it_stands_still_can_be_restarted(cluster: Cluster) -> None:
    topic = cluster.create_topic("t")
    cluster.pause(1)
    cluster.kill(1)
    assert not cluster.is_running(1)
    cluster.restart(1)
    cluster.wait_for_replicas(topic, PATIENCE_S)
    cluster.pause(2)
    cluster.restart(2)
    cluster.wait_for_replicas(topic, PATIENCE_S)


def test_a_leader_that_is_cut_off_is_replaced_and_follows_when_it_is_healed(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", min_insync_replicas=2)
    producer = producer_of(cluster, acks="all", enable_idempotence=True)
    assert write(producer, topic, "before") == [None]
    leader = cluster.leader(topic)
    cluster.cut(leader)
    assert not can_connect(cluster.bootstrap_servers.split(",")[leader])
    eventually(leads_elsewhere(cluster, topic, leader), "nobody else leads")
    assert write(producer, topic, "meanwhile") == [None]
    cluster.heal(leader)
    cluster.wait_for_replicas(topic, PATIENCE_S)
    assert read(cluster, topic) == ["before", "meanwhile"]


@pytest.mark.parametrize("silent", [False, True])
def test_a_link_between_two_nodes_is_cut_and_everyone_else_goes_on(silent: bool) -> None:
    """The follower leaves the ISR, because it cannot fetch; clients and the third node still reach both."""
    with Cluster(3, settings={"replica.lag.time.max.ms": "1000"}) as cluster:
        topic = cluster.create_topic("t", min_insync_replicas=2)
        cluster.wait_for_replicas(topic, PATIENCE_S)
        producer = producer_of(cluster, acks="all")
        leader = cluster.leader(topic)
        # A leader that is cut off from the active controller goes on without being able to, and its clients with it.
        follower = another(leader, cluster.controller())
        cluster.cut(leader, follower, silent=silent)
        assert write(producer, topic, "meanwhile") == [None]
        # The node that is asked may be the follower itself, which hears of it later, or not while it is cut off.
        eventually(
            lambda: follower + 1 not in cluster_partition(cluster, topic).isrs, "the follower is still in the ISR"
        )
        assert all(map(can_connect, cluster.bootstrap_servers.split(",")))
        cluster.heal(leader, follower)
        cluster.wait_for_replicas(topic, PATIENCE_S)
        assert read(cluster, topic) == ["meanwhile"]


def cluster_partition(cluster: Cluster, topic: str):  # type: ignore[no-untyped-def]  # confluent-kafka has no name for it
    admin = AdminClient(client_settings(cluster))
    return admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions[0]


def test_clients_are_cut_off_from_a_node_that_stays_in_sync() -> None:
    with Cluster(3) as cluster:
        topic = cluster.create_topic("t")
        cluster.wait_for_replicas(topic, PATIENCE_S)
        leader = cluster.leader(topic)
        follower = another(leader)
        cluster.cut(follower, "clients")
        assert not can_connect(cluster.bootstrap_servers.split(",")[follower])
        assert write(producer_of(cluster, acks="all"), topic, *VALUES) == [None] * COUNT
        assert sorted(cluster_partition(cluster, topic).isrs) == [1, 2, 3]
        cluster.heal()
        assert can_connect(cluster.bootstrap_servers.split(",")[follower])


def test_a_cut_link_stays_cut_when_its_nodes_are_restarted() -> None:
    with Cluster(3) as cluster:
        topic = cluster.create_topic("t")
        leader = cluster.leader(topic)
        cluster.cut(leader)
        other = another(leader)
        cluster.restart(other)
        time.sleep(0.5)
        eventually(leads_elsewhere(cluster, topic, leader), "nobody else leads")
        assert leader + 1 not in cluster_partition(cluster, topic).isrs
        cluster.restart(leader)  # it is not cut off any more
        cluster.wait_for_replicas(topic, PATIENCE_S)


def test_all_nodes_are_killed_and_restarted_together(cluster: Cluster) -> None:
    topic = cluster.create_topic("t")
    assert write(producer_of(cluster, acks="all"), topic, *VALUES) == [None] * COUNT
    cluster.kill()
    with pytest.raises(ClusterError, match=r"node 0 does not run: restart\(0\) starts it"):
        cluster.leader(topic)
    cluster.restart()
    cluster.wait_for_replicas(topic, PATIENCE_S)
    assert read(cluster, topic) == VALUES


def test_all_nodes_are_stopped_in_order_together(cluster: Cluster) -> None:
    topic = cluster.create_topic("t")
    assert write(producer_of(cluster, acks="all"), topic, *VALUES) == [None] * COUNT
    cluster.stop()
    assert not any(cluster.is_running(node) for node in range(3))
    cluster.restart([0, 1, 2])
    assert read(cluster, topic) == VALUES


def test_a_link_has_two_ends() -> None:
    with Cluster(2) as cluster:
        with pytest.raises(ClusterError, match="a link is between two nodes: name both"):
            cluster.cut(1, 1)
        with pytest.raises(ClusterError, match="a link is between two nodes: name both"):
            cluster.cut(peer=1)
        with pytest.raises(ClusterError, match="there is no node 2"):
            cluster.cut(0, 2)
        with pytest.raises(ClusterError, match="peer is the number of a node, or 'clients', and not 'friends'"):
            cluster.cut(0, "friends")  # type: ignore[arg-type]  # that is the mistake


def test_the_async_twin_has_many_nodes_too() -> None:
    async def main() -> None:
        async with AsyncCluster(3) as cluster:
            topic = await cluster.create_topic("t")
            leader = await cluster.leader(topic)
            assert await cluster.controller() in range(3)
            await cluster.cut(leader, (leader + 1) % 3)
            await cluster.heal()
            await cluster.pause(leader)
            await cluster.resume(leader)
            await cluster.kill(leader)
            await cluster.restart(leader)
            await cluster.wait_for_replicas(topic, PATIENCE_S)

    asyncio.run(main())


_SCRIPT = """
from ottla.testing import Cluster

with Cluster(nodes=3, topics={"orders": 1}) as cluster:
    leader = cluster.leader("orders", 0)
    cluster.kill(leader)
    cluster.restart(leader)
"""


def test_a_script_without_logging_is_told_nothing_of_what_nodes_think_of_faults_that_it_asked_for() -> None:
    """Python writes the warnings of whoever has no handler to standard error: there were dozens of lines."""
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    heard = f"import logging\nlogging.basicConfig(level=logging.INFO)\n{_SCRIPT}"
    done = subprocess.run([sys.executable, "-c", heard], capture_output=True, text=True, timeout=60, check=True)
    assert "[Node 1] Kafka-compatible server started" in done.stderr, "whoever wants to know does"

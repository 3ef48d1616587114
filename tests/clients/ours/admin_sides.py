"""The three that the tests of an admin run on: `FakeAdmin`, an Ottla broker, a real Kafka. Each test holds on each.

A `Side` is an admin and what a test must be able to do beside it: write records, and have members in a group.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import confluent_kafka
import pytest

from ottla.client.admin import Admin, FakeAdmin, FakeCluster, FakeMember, GroupType, NewTopic
from ottla.types import TopicPartition
from tests.support import nodes
from tests.support.clients import eventually, new_topic
from tests.support.nodes import NODE_COUNT, REPLICAS, Nodes
from tests.support.server import Server

SETTINGS = {
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}
SECURITY = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


class Side(Protocol):
    name: str
    broker_id: int
    """One of the brokers, and the only one where there is one."""

    @property
    def admin(self) -> Admin: ...

    def put_records(self, partition: TopicPartition, count: int, timestamp_ms: int) -> None:
        """Append records of a timestamp."""
        ...

    def joined(self, group_id: str, topic: str, protocol: str) -> AbstractContextManager[str]:
        """A group with one static member, whose instance id it is, that reads the whole topic."""
        ...


def created(side: Side, *, partitions: int = 1, configs: dict[str, str] | None = None) -> str:
    """A new topic that every broker knows of."""
    name = new_topic("admin")
    side.admin.create_topics([NewTopic(name, partitions, REPLICAS, configs=configs or {})]).all()
    known(side, name)
    return name


def known(side: Side, topic: str) -> None:
    """Wait until every broker has heard of a topic that the controller has made."""
    if isinstance(side, RealSide) and isinstance(side.server, Nodes):
        side.server.await_topic(topic)
    eventually(lambda: not side.admin.describe_topics([topic]).errors, f"{topic} is known")


class FakeSide:
    """Nothing behind it."""

    name = "fake"
    broker_id = 1

    def __init__(self) -> None:
        self.admin = FakeAdmin(FakeCluster(NODE_COUNT))

    def put_records(self, partition: TopicPartition, count: int, timestamp_ms: int) -> None:
        self.admin.cluster.put_records(partition, count, timestamp_ms=timestamp_ms)

    @contextmanager
    def joined(self, group_id: str, topic: str, protocol: str) -> Iterator[str]:
        cluster = self.admin.cluster
        partitions = frozenset(TopicPartition(topic, index) for index in range(len(cluster.topics[topic].partitions)))
        member = FakeMember("m-1", "client", "/127.0.0.1", "static-1", (topic,), partitions)
        kind = GroupType.CONSUMER if protocol == "consumer" else GroupType.CLASSIC
        group = cluster.put_group(group_id, [member], type=kind)
        try:
            yield "static-1"
        finally:
            group.members.clear()


class RealSide:
    """Broker processes, Ottla's or Kafka's."""

    broker_id = 1

    def __init__(self, name: str, server: Server | Nodes) -> None:
        self.name = name
        self.server = server
        self.admin = Admin(bootstrap_servers=server.address)
        servers = server.servers if isinstance(server, Nodes) else {1: server}
        self.controllers = {number: one.controller for number, one in servers.items()}

    def put_records(self, partition: TopicPartition, count: int, timestamp_ms: int) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": self.server.address})
        for index in range(count):
            producer.produce(partition.topic, f"record-{index}", partition=partition.partition, timestamp=timestamp_ms)
        assert producer.flush(20) == 0

    @contextmanager
    def joined(self, group_id: str, topic: str, protocol: str) -> Iterator[str]:
        settings = {
            "bootstrap.servers": self.server.address,
            "group.id": group_id,
            "group.instance.id": "static-1",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
        if protocol == "classic":
            settings["session.timeout.ms"] = "6000"
        consumer = confluent_kafka.Consumer(settings)
        is_over = threading.Event()
        has_partitions = threading.Event()
        consumer.subscribe([topic], on_assign=lambda consumer, partitions: has_partitions.set())
        polling = threading.Thread(target=_poll, args=(consumer, is_over), daemon=True)
        polling.start()
        try:
            assert has_partitions.wait(20), f"{group_id} did not get partitions"
            yield "static-1"
        finally:
            is_over.set()
            polling.join(20)
            consumer.close()


def _poll(consumer: confluent_kafka.Consumer, is_over: threading.Event) -> None:
    while not is_over.is_set():
        consumer.poll(0.1)


@contextmanager
def running(kind: str, directory: Path) -> Iterator[RealSide]:
    """A cluster of nodes with both roles, and an admin of it."""
    settings = {**SETTINGS, **SECURITY} if kind == "kafka" else SETTINGS
    with nodes.running(kind, directory, settings) as server:
        side = RealSide(kind, server)
        with side.admin:
            yield side
        if kind == "ottla":
            assert server.errors() == []


REAL = ["ottla", pytest.param("kafka", marks=pytest.mark.java)]


@pytest.fixture(scope="module", params=["fake", *REAL])
def side(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """Each of the three in turn."""
    if request.param == "fake":
        yield FakeSide()
        return
    with running(request.param, tmp_path_factory.mktemp(request.param)) as real:
        yield real


@pytest.fixture(scope="module", params=REAL)
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSide]:
    """Each of the two brokers in turn."""
    with running(request.param, tmp_path_factory.mktemp(request.param)) as started:
        yield started


def within(limit_s: float, work: Callable[[], object]) -> None:
    """Whether it takes no longer."""
    begun = time.monotonic()
    work()
    assert time.monotonic() - begun < limit_s

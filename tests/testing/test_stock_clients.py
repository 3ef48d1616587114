"""Stock clients against a cluster inside their own process, where both share an interpreter."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from ottla.testing import Cluster

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # how kafka-python reads its own schemas
    from kafka import KafkaConsumer, KafkaProducer

COUNT = 500
VALUES = [f"value {number}".encode() for number in range(COUNT)]
PATIENCE_S = 30.0


@pytest.fixture(scope="module", params=[False, True], ids=["thread", "process"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(processes=request.param) as running:
        yield running


def test_confluent_kafka_writes_and_reads_in_a_group(cluster: Cluster) -> None:
    topic = cluster.create_topic("confluent")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "confluent",
            "auto.offset.reset": "earliest",
            "group.protocol": "consumer",
        }
    )
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    while len(found) < COUNT:
        messages = consumer.consume(COUNT, timeout=PATIENCE_S)
        assert messages, f"only {len(found)} came"
        found += [message.value() for message in messages]
    assert found == VALUES
    cluster.wait_for_group("confluent", state="Stable", members=1)
    consumer.close()
    cluster.wait_for_group("confluent", state="Empty", members=0)


def test_kafka_python_writes_and_reads_in_a_group(cluster: Cluster) -> None:
    topic = cluster.create_topic("kafka-python")
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    for value in VALUES:
        producer.send(topic, value)
    producer.flush(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap_servers, group_id="kafka-python", auto_offset_reset="earliest"
    )
    try:
        found = [next(consumer).value for _ in range(COUNT)]
        cluster.wait_for_group("kafka-python", members=1)
    finally:
        consumer.close()
    assert found == VALUES


async def _aiokafka(cluster: Cluster, topic: str) -> list[bytes]:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, enable_idempotence=True) as producer:
        for value in VALUES:
            await producer.send(topic, value)
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap_servers, group_id="aiokafka", auto_offset_reset="earliest"
    ) as consumer:
        return [(await asyncio.wait_for(consumer.getone(), PATIENCE_S)).value for _ in range(COUNT)]


def test_aiokafka_writes_and_reads_in_a_group(cluster: Cluster) -> None:
    topic = cluster.create_topic("aiokafka")
    assert asyncio.run(_aiokafka(cluster, topic)) == VALUES

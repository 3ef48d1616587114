"""aiokafka against the broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError

from tests.support.clients import CODECS, PATIENCE_S, new_topic
from tests.support.nodes import NODE_IDS, REPLICAS, Brokers, Nodes, made_known


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 100))


async def read(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    return [await asyncio.wait_for(consumer.getone(), PATIENCE_S) for _ in range(count)]


def test_every_codec_and_acks_arrives_as_it_was_sent(broker: Brokers) -> None:
    async def work() -> None:
        for codec in CODECS:
            for acks in (0, 1, "all"):
                topic = made_known(broker, new_topic(f"aio-{codec}"))
                kind = None if codec == "none" else codec
                async with AIOKafkaProducer(
                    bootstrap_servers=broker.address, compression_type=kind, acks=acks, linger_ms=5,
                    enable_idempotence=acks == "all",
                ) as producer:  # fmt: skip
                    for i in range(50):
                        await producer.send(topic, b"v%d" % i * 20, key=b"k", partition=0)
                async with AIOKafkaConsumer(bootstrap_servers=broker.address) as consumer:
                    consumer.assign([TopicPartition(topic, 0)])
                    await consumer.seek_to_beginning()
                    records = await read(consumer, 50)
                assert [(r.offset, r.value) for r in records] == [(i, b"v%d" % i * 20) for i in range(50)]

    run(work())


def test_fields_positions_and_sizes(broker: Brokers) -> None:
    async def work() -> None:
        topic = new_topic("aio-where")
        where = TopicPartition(topic, 0)
        base_ms = int(time.time() * 1000) - 60_000
        async with (
            AIOKafkaProducer(bootstrap_servers=broker.address, acks="all", max_request_size=8 << 20) as producer,
            AIOKafkaConsumer(bootstrap_servers=broker.address, auto_offset_reset="none") as consumer,
        ):
            headers = [("h", b"1"), ("h", b"2")]
            await producer.send_and_wait(topic, None, key=b"gone", partition=0, timestamp_ms=base_ms, headers=headers)
            for i in range(1, 20):
                await producer.send_and_wait(topic, b"%d" % i, partition=0, timestamp_ms=base_ms + i * 1000)
            consumer.assign([where])
            consumer.seek(where, 0)
            (first,) = await read(consumer, 1)
            assert (first.key, first.value, list(first.headers), first.timestamp) == (b"gone", None, headers, base_ms)
            assert await consumer.beginning_offsets([where]) == {where: 0}
            assert await consumer.end_offsets([where]) == {where: 20}
            found = (await consumer.offsets_for_times({where: base_ms + 6500}))[where]
            assert (found.offset, found.timestamp) == (7, base_ms + 7000)
            consumer.seek(where, 7)
            assert (await read(consumer, 1))[0].value == b"7"
            await consumer.seek_to_end(where)
            await producer.send_and_wait(topic, b"new", partition=0)
            assert (await read(consumer, 1))[0].offset == 20
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(topic, b"x" * (2 << 20), partition=0)
            consumer.seek(where, 500)
            with pytest.raises(OffsetOutOfRangeError):
                await read(consumer, 1)

    run(work())


def test_topics_and_settings_are_administered(broker: Brokers) -> None:
    async def work() -> None:
        topic = new_topic("aio-admin")
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
        await admin.start()
        try:
            made = await admin.create_topics([NewTopic(topic, 2, REPLICAS, topic_configs={"retention.ms": "60000"})])
            assert [error for _, error, *_ in made.topic_errors] == [0]
            again = await admin.create_topics([NewTopic(topic, 2, REPLICAS)])
            assert [error for _, error, *_ in again.topic_errors] == [36]
            grown = await admin.create_partitions({topic: NewPartitions(5)})
            assert [error for _, error, _ in grown.topic_errors] == [0]
            if isinstance(broker, Nodes):
                broker.await_topic(topic, partitions=5)
            (described,) = await admin.describe_topics([topic])
            assert len(described["partitions"]) == 5
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"max.message.bytes": "3000"})
            await admin.alter_configs([resource])
            if isinstance(broker, Nodes):
                broker.await_setting(topic, "max.message.bytes", "3000")
            (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            settings = {entry[0]: entry[1] for entry in answer.resources[0][4]}
            assert settings["max.message.bytes"] == "3000"
            assert settings["retention.ms"] == "604800000", "the old AlterConfigs replaces all of a topic's settings"
            async with AIOKafkaProducer(bootstrap_servers=broker.address, acks="all") as producer:
                for _ in range(10):
                    await producer.send_and_wait(topic, b"x", partition=0)
            where = TopicPartition(topic, 0)
            assert await admin.delete_records({where: RecordsToDelete(before_offset=4)}) == {where: 4}
            await admin.delete_topics([topic])
            if isinstance(broker, Nodes):
                broker.await_deletion(topic)
            assert topic not in await admin.list_topics()
            assert (await admin.describe_cluster())["controller_id"] in NODE_IDS
        finally:
            await admin.close()

    run(work())

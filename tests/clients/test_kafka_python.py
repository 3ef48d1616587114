"""kafka-python against the broker."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clients import CODECS, PATIENCE_S, new_topic
from tests.support.nodes import NODE_IDS, REPLICAS, Brokers, Nodes, made_known

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # how kafka-python reads its own schemas
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic, OffsetSpec
    from kafka.codec import has_lz4, has_snappy, has_zstd
    from kafka.errors import InvalidTopicError, MessageSizeTooLargeError, TopicAlreadyExistsError


@pytest.fixture(scope="module")
def admin(broker: Brokers) -> Iterator[Any]:
    opened = KafkaAdminClient(bootstrap_servers=broker.address)
    yield opened
    opened.close()


def read(consumer: Any, count: int) -> list[Any]:
    records: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records"
        for batch in consumer.poll(500, max_records=count - len(records)).values():
            records += batch
    return records


def test_every_codec_and_acks_arrives_as_it_was_sent(broker: Brokers) -> None:
    has = {"snappy": has_snappy(), "lz4": has_lz4(), "zstd": has_zstd()}  # by what is installed beside the client
    codecs = [codec for codec in CODECS if has.get(codec, True)]
    assert {"none", "gzip", "lz4"} <= set(codecs)
    for codec in codecs:
        for acks in (0, 1, "all"):
            topic = made_known(broker, new_topic(f"kp-{codec}"))
            producer = KafkaProducer(
                bootstrap_servers=broker.address, compression_type=None if codec == "none" else codec, acks=acks,
                linger_ms=5, enable_idempotence=acks == "all",
            )  # fmt: skip
            for i in range(50):
                producer.send(topic, b"v%d" % i * 20, key=b"k", partition=0)
            producer.flush(PATIENCE_S)
            producer.close()
            consumer = KafkaConsumer(bootstrap_servers=broker.address, group_id=None)
            where = TopicPartition(topic, 0)
            consumer.assign([where])
            consumer.seek_to_beginning(where)
            records = read(consumer, 50)
            consumer.close()
            assert [(r.offset, r.value) for r in records] == [(i, b"v%d" % i * 20) for i in range(50)]


def test_fields_positions_and_sizes(broker: Brokers) -> None:
    topic = new_topic("kp-where")
    where = TopicPartition(topic, 0)
    base_ms = int(time.time() * 1000) - 60_000
    producer = KafkaProducer(bootstrap_servers=broker.address, max_request_size=8 << 20)
    consumer = KafkaConsumer(bootstrap_servers=broker.address, group_id=None, auto_offset_reset="latest")
    headers = [("h", b"1"), ("h", b"2")]
    producer.send(topic, None, key=b"gone", partition=0, timestamp_ms=base_ms, headers=headers).get(PATIENCE_S)
    for i in range(1, 20):
        producer.send(topic, b"%d" % i, partition=0, timestamp_ms=base_ms + i * 1000).get(PATIENCE_S)
    consumer.assign([where])
    consumer.seek(where, 0)
    (first,) = read(consumer, 1)
    assert (first.key, first.value, list(first.headers), first.timestamp) == (b"gone", None, headers, base_ms)
    assert consumer.beginning_offsets([where]) == {where: 0}
    assert consumer.end_offsets([where]) == {where: 20}
    found = consumer.offsets_for_times({where: base_ms + 6500})[where]
    assert (found.offset, found.timestamp) == (7, base_ms + 7000)
    consumer.seek(where, 7)
    assert read(consumer, 1)[0].value == b"7"
    consumer.seek_to_end(where)
    assert consumer.position(where) == 20
    producer.send(topic, b"new", partition=0).get(PATIENCE_S)
    assert read(consumer, 1)[0].offset == 20
    with pytest.raises(MessageSizeTooLargeError):
        producer.send(topic, b"x" * (2 << 20), partition=0).get(PATIENCE_S)
    consumer.close()
    producer.close()


def test_topics_and_settings_are_administered(broker: Brokers, admin: Any) -> None:
    topic = new_topic("kp-admin")
    where = TopicPartition(topic, 0)
    admin.create_topics([NewTopic(topic, 2, REPLICAS, topic_configs={"retention.ms": "60000"})])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(topic, 2, REPLICAS)])
    with pytest.raises(InvalidTopicError):
        admin.create_topics([NewTopic("not a name", 2, 1)])
    admin.create_partitions({topic: NewPartitions(5)})
    if isinstance(broker, Nodes):
        broker.await_topic(topic, partitions=5)
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 5
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={"max.message.bytes": "3000"})])
    if isinstance(broker, Nodes):
        broker.await_setting(topic, "max.message.bytes", "3000")
    producer = KafkaProducer(bootstrap_servers=broker.address)
    with pytest.raises(MessageSizeTooLargeError):
        producer.send(topic, b"x" * 4000, partition=0).get(PATIENCE_S)
    producer.close()  # the client takes this error to be fatal
    producer = KafkaProducer(bootstrap_servers=broker.address, acks="all")
    for _ in range(10):
        producer.send(topic, b"x", partition=0).get(PATIENCE_S)
    producer.close()
    admin.delete_records({where: 4})
    assert admin.list_partition_offsets({where: OffsetSpec.EARLIEST})[where].offset == 4
    assert admin.list_partition_offsets({where: OffsetSpec.LATEST})[where].offset == 10
    admin.delete_topics([topic])
    if isinstance(broker, Nodes):
        broker.await_deletion(topic)
    assert topic not in admin.list_topics()
    assert admin.describe_cluster()["controller_id"] in NODE_IDS

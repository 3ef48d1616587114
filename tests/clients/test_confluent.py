"""confluent-kafka (librdkafka) against the broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it has no __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.support.clients import CODECS, PATIENCE_S, eventually, new_topic, segment_names
from tests.support.nodes import NODE_COUNT, NODE_IDS, REPLICAS, Brokers, Nodes

SPEC: Any = OffsetSpec  # without types
NOW_MS = time.time_ns() // 1_000_000
HOUR_MS = 3_600_000


def quiet(_: KafkaError) -> None:
    """librdkafka reports a broker that is away here, and goes on."""


QUIET: dict[str, Any] = {"error_cb": quiet, "log_level": 2}


@pytest.fixture(scope="module")
def admin(broker: Brokers) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.address, **QUIET})


@pytest.fixture
def consumer(broker: Brokers) -> Iterator[Consumer]:
    opened = Consumer(consumer_config(broker))
    yield opened
    opened.close()


def consumer_config(broker: Brokers) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.address,
        "group.id": "none",  # partitions are assigned by hand: no group is joined
        "enable.auto.commit": False,
        "enable.partition.eof": False,
        "auto.offset.reset": "error",
        **QUIET,
    }


def create(
    broker: Brokers, admin: AdminClient, topic: str, partitions: int = 1, config: dict[str, str] | None = None
) -> str:
    admin.create_topics([NewTopic(topic, partitions, REPLICAS, config=config or {})])[topic].result(PATIENCE_S)
    if isinstance(broker, Nodes):
        broker.await_topic(topic)  # the controller has made it, and brokers hear of it a moment later
    return topic


def send(broker: Brokers, topic: str, values: list[bytes | None], **settings: Any) -> list[Message]:
    """Produce the values to partition 0 and return what was acknowledged; the first failure is raised."""
    config = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer({"bootstrap.servers": broker.address, **QUIET, **config})
    failures: list[KafkaError] = []
    delivered: list[Message] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is None:
            delivered.append(message)
        else:
            failures.append(error)

    for value in values:
        producer.produce(topic, value, key=b"k", partition=0, on_delivery=on_delivery)
    assert producer.flush(PATIENCE_S) == 0
    if failures:
        raise KafkaException(failures[0])
    return delivered


def read(consumer: Consumer, count: int, timeout_s: float = PATIENCE_S) -> list[Message]:
    messages: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} messages"
        for message in consumer.consume(count - len(messages), 0.5):
            assert message.error() is None, message.error()
            messages.append(message)
    return messages


def read_all(broker: Brokers, topic: str, count: int) -> list[Message]:
    consumer = Consumer(consumer_config(broker))
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    try:
        return read(consumer, count)
    finally:
        consumer.close()


def error_of(raised: pytest.ExceptionInfo[KafkaException]) -> int:
    code: int = raised.value.args[0].code()
    return code


def test_topics_are_created_described_grown_and_deleted(broker: Brokers, admin: AdminClient) -> None:
    topic = create(broker, admin, new_topic("life"), 2)
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(PATIENCE_S)
    assert [one.id for one in described.partitions] == [0, 1]
    for one in described.partitions:
        assert one.leader.id == one.replicas[0].id
        assert sorted(r.id for r in one.replicas) == sorted(r.id for r in one.isr) == NODE_IDS
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(PATIENCE_S)
    eventually(lambda: len(admin.list_topics(topic).topics[topic].partitions) == 5, "five partitions")
    with pytest.raises(KafkaException) as raised:
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENCE_S)
    assert error_of(raised) == KafkaError.INVALID_PARTITIONS
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    eventually(lambda: topic not in admin.list_topics().topics, "the topic is gone")
    create(broker, admin, topic)
    assert len(admin.list_topics(topic).topics[topic].partitions) == 1, "the same name begins anew"


def test_a_topic_that_cannot_be_is_refused_with_kafkas_code(broker: Brokers, admin: AdminClient) -> None:
    topic = create(broker, admin, new_topic("refused"))
    cases = [
        (NewTopic(topic, 1, 1), KafkaError.TOPIC_ALREADY_EXISTS),
        (NewTopic("no spaces", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("..", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic(new_topic("too-many"), 1, NODE_COUNT + 1), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic(new_topic("p0"), 0, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic(new_topic("cfg"), 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        (NewTopic(new_topic("cfg"), 1, 1, config={"no.such.setting": "1"}), KafkaError.INVALID_CONFIG),
    ]
    for wanted, code in cases:
        with pytest.raises(KafkaException) as raised:
            admin.create_topics([wanted])[wanted.topic].result(PATIENCE_S)
        assert error_of(raised) == code, wanted.topic
    with pytest.raises(KafkaException) as raised:
        admin.delete_topics(["never-was"])["never-was"].result(PATIENCE_S)
    assert error_of(raised) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_validate_only_makes_nothing(broker: Brokers, admin: AdminClient) -> None:
    topic = new_topic("validated")
    admin.create_topics([NewTopic(topic, 1, REPLICAS)], validate_only=True)[topic].result(PATIENCE_S)
    assert topic not in admin.list_topics().topics
    create(broker, admin, topic)
    admin.create_partitions([NewPartitions(topic, 4)], validate_only=True)[topic].result(PATIENCE_S)
    assert len(admin.list_topics(topic).topics[topic].partitions) == 1


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_codec_arrives_as_it_was_sent(broker: Brokers, admin: AdminClient, acks: str) -> None:
    for codec in CODECS:
        topic = create(broker, admin, new_topic(f"codec-{codec}-{acks}"))
        values: list[bytes | None] = [b"%d " % i * 50 for i in range(200)]
        send(broker, topic, values, compression_type=codec, acks=acks, linger_ms=50)
        messages = read_all(broker, topic, 200)
        assert [m.value() for m in messages] == values
        assert [m.offset() for m in messages] == list(range(200))


def test_a_topics_codec_rules_over_the_producers(broker: Brokers, admin: AdminClient) -> None:
    values: list[bytes | None] = [b"the same words again " * 20] * 50
    for codec in CODECS:
        config = {"compression.type": "uncompressed" if codec == "none" else codec}
        topic = create(broker, admin, new_topic("recompress"), config=config)
        send(broker, topic, values, compression_type="lz4", linger_ms=50)
        assert [m.value() for m in read_all(broker, topic, 50)] == values


def test_an_idempotent_producer_writes_each_record_once_in_order(broker: Brokers, admin: AdminClient) -> None:
    topic = create(broker, admin, new_topic("idempotent"))
    values: list[bytes | None] = [b"%d" % i for i in range(3000)]
    delivered = send(broker, topic, values, enable_idempotence=True, batch_num_messages=50)
    assert sorted(m.offset() or 0 for m in delivered) == list(range(3000))
    assert [m.value() for m in read_all(broker, topic, 3000)] == values


def test_headers_tombstones_keys_and_timestamps_survive(broker: Brokers, consumer: Consumer) -> None:
    topic = create(broker, AdminClient({"bootstrap.servers": broker.address, **QUIET}), new_topic("fields"))
    producer = Producer({"bootstrap.servers": broker.address, **QUIET})
    headers: list[tuple[str, str | bytes | None]] = [("a", b"1"), ("a", b"2"), ("ü", b""), ("none", None)]
    producer.produce(topic, None, key=b"gone", partition=0, timestamp=NOW_MS - HOUR_MS, headers=headers)
    producer.produce(topic, b"", key=None, partition=0, timestamp=NOW_MS)
    assert producer.flush(PATIENCE_S) == 0
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    first, second = read(consumer, 2)
    assert (first.key(), first.value(), first.headers()) == (b"gone", None, headers)
    assert first.timestamp() == (1, NOW_MS - HOUR_MS)
    assert (second.key(), second.value() or b"", second.headers()) == (None, b"", None)


def test_consuming_begins_where_it_is_told(broker: Brokers, admin: AdminClient, consumer: Consumer) -> None:
    topic = create(broker, admin, new_topic("seek"))
    producer = Producer({"bootstrap.servers": broker.address, **QUIET})
    for i in range(100):
        producer.produce(topic, b"%d" % i, partition=0, timestamp=NOW_MS - HOUR_MS + i * 1000)
    assert producer.flush(PATIENCE_S) == 0
    where = TopicPartition(topic, 0)
    assert consumer.get_watermark_offsets(where, timeout=PATIENCE_S) == (0, 100)
    found = consumer.offsets_for_times([TopicPartition(topic, 0, NOW_MS - HOUR_MS + 41_500)], timeout=PATIENCE_S)
    assert found[0].offset == 42
    consumer.assign(found)
    assert read(consumer, 1)[0].value() == b"42"
    consumer.seek(TopicPartition(topic, 0, 7))
    assert [m.offset() for m in read(consumer, 3)] == [7, 8, 9]
    consumer.seek(TopicPartition(topic, 0, OFFSET_BEGINNING))
    assert read(consumer, 1)[0].offset() == 0
    consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
    first: list[Message] = []
    deadline = time.monotonic() + PATIENCE_S
    while not first and time.monotonic() < deadline:
        # The client asks for the end when it gets round to it: what is written afterwards is what it reads.
        send(broker, topic, [b"new"])
        first = consumer.consume(1, 0.5)
    assert [message.value() for message in first] == [b"new"]


def test_an_offset_out_of_range_is_an_error_where_no_reset_is_wanted(
    broker: Brokers, admin: AdminClient, consumer: Consumer
) -> None:
    topic = create(broker, admin, new_topic("range"))
    send(broker, topic, [b"x"])
    consumer.assign([TopicPartition(topic, 0, 50)])
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET


def test_offsets_are_listed_by_every_kind(broker: Brokers, admin: AdminClient) -> None:
    topic = create(broker, admin, new_topic("offsets"))
    producer = Producer({"bootstrap.servers": broker.address, **QUIET})
    for stamp in (1000, 9000, 3000):
        producer.produce(topic, b"x", partition=0, timestamp=NOW_MS - HOUR_MS + stamp)
        assert producer.flush(PATIENCE_S) == 0
    where = TopicPartition(topic, 0)
    for spec, offset in (
        (SPEC.earliest(), 0),
        (SPEC.latest(), 3),
        (SPEC.max_timestamp(), 1),
        (SPEC.for_timestamp(NOW_MS - HOUR_MS + 2000), 1),
        (SPEC.for_timestamp(NOW_MS - HOUR_MS + 9001), -1),
    ):
        listed = admin.list_offsets({where: spec})[where].result(PATIENCE_S)
        assert listed.offset == offset, spec


def test_deleted_records_are_gone_from_the_front(broker: Brokers, admin: AdminClient, consumer: Consumer) -> None:
    topic = create(broker, admin, new_topic("trim"))
    send(broker, topic, [b"%d" % i for i in range(10)])
    deleted = admin.delete_records([TopicPartition(topic, 0, 4)])
    assert [f.result(PATIENCE_S).low_watermark for f in deleted.values()] == [4]
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert read(consumer, 6)[0].offset() == 4
    deleted = admin.delete_records([TopicPartition(topic, 0, OFFSET_END)])
    assert [f.result(PATIENCE_S).low_watermark for f in deleted.values()] == [10]
    deleted = admin.delete_records([TopicPartition(topic, 0, 99)])
    with pytest.raises(KafkaException) as raised:
        next(iter(deleted.values())).result(PATIENCE_S)
    assert error_of(raised) == KafkaError.OFFSET_OUT_OF_RANGE


def alter(admin: AdminClient, kind: ResourceType, name: str, **settings: str | None) -> None:
    """Set, or with None unset, settings; underscores stand for dots."""
    entries = [
        ConfigEntry(
            setting.replace("_", "."),
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for setting, value in settings.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(PATIENCE_S)


def described(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    (future,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    entries: dict[str, ConfigEntry] = future.result(PATIENCE_S)
    return entries


def test_a_topics_settings_act_at_once(broker: Brokers, admin: AdminClient) -> None:
    topic = create(broker, admin, new_topic("settings"))
    send(broker, topic, [b"x" * 2000])
    alter(admin, ResourceType.TOPIC, topic, max_message_bytes="1500")
    if isinstance(broker, Nodes):  # at once on the node that answered; the others hear of it
        broker.await_setting(topic, "max.message.bytes", "1500")
    entry = described(admin, ResourceType.TOPIC, topic)["max.message.bytes"]
    assert (entry.value, entry.is_default) == ("1500", False)
    with pytest.raises(KafkaException) as raised:
        send(broker, topic, [b"x" * 2000])
    assert error_of(raised) == KafkaError.MSG_SIZE_TOO_LARGE
    alter(admin, ResourceType.TOPIC, topic, max_message_bytes=None, segment_bytes=str(1 << 20))
    if isinstance(broker, Nodes):
        broker.await_setting(topic, "segment.bytes", str(1 << 20))
    assert described(admin, ResourceType.TOPIC, topic)["max.message.bytes"].is_default
    for _ in range(3):
        send(broker, topic, [b"x" * 900_000])
    assert len(segment_names(broker, topic)) == 3
    alter(admin, ResourceType.TOPIC, topic, retention_bytes="1000000")
    eventually(lambda: len(segment_names(broker, topic)) < 3, "retention by size")
    alter(admin, ResourceType.TOPIC, topic, retention_ms="1")
    where = TopicPartition(topic, 0)
    eventually(
        lambda: admin.list_offsets({where: SPEC.earliest()})[where].result(PATIENCE_S).offset == 4,
        "retention by time",
    )
    with pytest.raises(KafkaException) as raised:
        alter(admin, ResourceType.TOPIC, topic, retention_ms="-5")
    assert error_of(raised) == KafkaError.INVALID_CONFIG


def test_a_brokers_settings_change_while_it_runs(broker: Brokers, admin: AdminClient) -> None:
    topic = create(broker, admin, new_topic("dynamic"))
    leader = str(admin.list_topics(topic).topics[topic].partitions[0].leader)
    alter(admin, ResourceType.BROKER, leader, message_max_bytes="1500")

    def limit() -> str:
        return str(described(admin, ResourceType.BROKER, leader)["message.max.bytes"].value)

    eventually(lambda: limit() == "1500", "the broker has heard of it", 0 if NODE_COUNT == 1 else PATIENCE_S)
    with pytest.raises(KafkaException) as raised:
        send(broker, topic, [b"x" * 2000])
    assert error_of(raised) == KafkaError.MSG_SIZE_TOO_LARGE
    alter(admin, ResourceType.BROKER, leader, message_max_bytes=None)
    eventually(lambda: limit() != "1500", "the broker has the default again", 0 if NODE_COUNT == 1 else PATIENCE_S)
    send(broker, topic, [b"x" * 2000])
    with pytest.raises(KafkaException) as raised:
        alter(admin, ResourceType.BROKER, leader, log_dirs="/elsewhere")
    assert error_of(raised) == KafkaError.INVALID_REQUEST


def test_a_message_of_megabytes_passes_where_the_topic_allows_it(broker: Brokers, admin: AdminClient) -> None:
    topic = create(broker, admin, new_topic("large"), config={"max.message.bytes": str(20 << 20)})
    value = bytes(range(256)) * (16 << 12)
    send(broker, topic, [value], message_max_bytes=20 << 20)
    assert read_all(broker, topic, 1)[0].value() == value
    small = create(broker, admin, new_topic("small"))
    with pytest.raises(KafkaException) as raised:
        send(broker, small, [value], message_max_bytes=20 << 20)
    assert error_of(raised) == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_topic_is_made_when_a_producer_asks_for_it(broker: Brokers, admin: AdminClient) -> None:
    topic = new_topic("auto")
    send(broker, topic, [b"x"])
    assert len(admin.list_topics(topic).topics[topic].partitions) == 1
    unknown = new_topic("unknown")
    consumer = Consumer(consumer_config(broker))
    error = consumer.list_topics(unknown, timeout=PATIENCE_S).topics[unknown].error
    consumer.close()
    assert error is not None
    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert unknown not in admin.list_topics().topics, "a consumer does not ask for topics to be made"


def test_the_cluster_describes_itself(admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(PATIENCE_S)
    assert sorted(node.id for node in cluster.nodes) == NODE_IDS
    assert cluster.controller.id in NODE_IDS
    assert len(cluster.cluster_id) == 22


def test_two_thousand_partitions_are_made_served_and_deleted(broker: Brokers, admin: AdminClient) -> None:
    topic = create(broker, admin, new_topic("many"), 2000)

    def leaders() -> list[int]:
        return [one.leader for one in admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions.values()]

    eventually(lambda: len(leaders()) == 2000 and set(leaders()) == set(NODE_IDS), "leaders")
    producer = Producer({"bootstrap.servers": broker.address, **QUIET, "linger.ms": 20})
    chosen = range(0, 2000, 37)
    for partition in chosen:
        producer.produce(topic, b"%d" % partition, partition=partition)
    assert producer.flush(60) == 0
    consumer = Consumer(consumer_config(broker))
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(2000)])
    messages = read(consumer, len(chosen))
    consumer.close()
    assert sorted(int(m.value() or b"") for m in messages) == list(chosen)
    admin.delete_topics([topic])[topic].result(60)
    eventually(lambda: topic not in admin.list_topics().topics, "the topic is gone")

"""`Producer` and `AsyncProducer` against a broker: what they promise, read back by a stock client."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ottla.client import AsyncProducer, Producer, ProducerRecord, RecordMetadata
from ottla.client.errors import (
    BufferExhausted,
    ClientClosed,
    DeliveryTimeout,
    IllegalState,
    KafkaTimeout,
    SerializationError,
)
from ottla.errors import InvalidConfig, InvalidTopicException, KafkaError, MessageTooLarge
from ottla.records import partition_of
from ottla.types import TopicPartition
from tests.clients.ours.reading import create_topic, read_all, restartable, values
from tests.support.clients import CODECS, PATIENCE_S, eventually, new_topic
from tests.support.high_sequences import begin_at
from tests.support.nodes import Nodes, kill_all
from tests.support.server import Server


@pytest.fixture
def producer(address: str) -> Iterator[Producer]:
    with Producer(bootstrap_servers=address) as made:
        yield made


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server | Nodes]:
    with restartable(tmp_path) as running:
        yield running


# Sending


def test_sequence_numbers_go_on_over_the_wrap_with_retries_and_splits(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of small records are too large for the topic and are split. Between them is always one large record that
    is not: in flight behind a refused batch it comes out of order, and is sent again."""
    first = 2**31 - 30
    begin_at(monkeypatch, first)
    topic = create_topic(address, new_topic("wrapped"), max_message_bytes="1500")
    sent = [b"%03d" % number + bytes(100 if number % 17 < 15 else 1300) for number in range(200)]
    with Producer(bootstrap_servers=address, batch_size=2000, linger_ms=50) as producer:
        producer.send_and_wait(topic, b"before")
        deliveries = [producer.send(topic, value) for value in sent]
        assert [one.result(PATIENCE_S).offset for one in deliveries] == list(range(1, 201))
        assert producer.metrics().value("batch-split-total") >= 5
        assert producer.metrics().value("record-retry-total") > 0
        manager = producer._core.manager
        assert manager is not None
        assert manager.sequences[TopicPartition(topic, 0)].next_sequence == 201 - 30
        assert manager.producer.epoch == 0, "no new epoch has hidden that the numbers were wrong"
    assert values(address, topic) == [b"before", *sent]


def test_a_record_arrives_with_its_key_value_headers_and_time(address: str, producer: Producer) -> None:
    topic = create_topic(address, new_topic("whole"), 3)
    an_hour_ago = int(time.time() * 1000) - 3_600_000
    headers = [("trace", b"1"), ("none", None), ("trace", b"2")]
    sent = producer.send(topic, b"value", b"key", timestamp_ms=an_hour_ago, headers=headers)
    told = sent.result(PATIENCE_S)
    assert told == RecordMetadata(topic, partition_of(b"key", 3), 0, an_hour_ago, 3, 5)
    (read,) = read_all(address, topic)
    assert (read.partition, read.offset, read.timestamp) == (told.partition, 0, an_hour_ago)
    assert (read.key, read.value, read.headers) == (b"key", b"value", tuple(headers))


def test_nothing_is_a_key_and_a_value_too(address: str, producer: Producer) -> None:
    topic = create_topic(address, new_topic("nothing"))
    producer.send(topic)
    producer.send(topic, b"", b"")
    producer.send(topic, key=bytearray(b"k"), value=memoryview(b"v"))
    producer.flush(PATIENCE_S)
    assert [(one.key, one.value) for one in read_all(address, topic)] == [(None, None), (b"", b""), (b"k", b"v")]


def test_the_brokers_time_is_told_where_the_topic_keeps_it(address: str, producer: Producer) -> None:
    topic = create_topic(address, new_topic("append-time"), message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000) - 1000
    told = producer.send_and_wait(topic, b"v", timestamp_ms=5)
    (read,) = read_all(address, topic)
    assert read.timestamp_type == "append"
    assert told.timestamp == read.timestamp > before


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_and_level_is_read_back(address: str, codec: str) -> None:
    topic = create_topic(address, new_topic(f"codec-{codec}"))
    settings: dict[str, Any] = {"compression.type": codec}
    if codec in ("gzip", "lz4", "zstd"):
        settings[f"compression.{codec}.level"] = 1
    sent = [b"%06d" % number * 20 for number in range(2000)]
    with Producer(settings, bootstrap_servers=address) as producer:
        for value in sent:
            producer.send(topic, value)
        producer.flush(PATIENCE_S)
        size = producer.metrics().value("byte-total", tags={"topic": topic})
    assert values(address, topic) == sent
    assert (size < 2000 * 60) == (codec != "none")


def test_keys_go_where_every_kafka_client_puts_them_and_the_rest_sticks_to_a_partition(
    address: str, producer: Producer
) -> None:
    topic = create_topic(address, new_topic("partitions"), 5)
    for number in range(200):
        producer.send(topic, b"v", b"%d" % number)
    producer.flush(PATIENCE_S)
    assert all(one.partition == partition_of(one.key or b"", 5) for one in read_all(address, topic))
    for _ in range(50):
        producer.send(topic, b"without")
    producer.flush(PATIENCE_S)
    assert len({one.partition for one in read_all(address, topic) if one.key is None}) <= 2


def test_records_without_a_key_reach_all_partitions_when_there_are_many(address: str) -> None:
    topic = create_topic(address, new_topic("spread"), 4)
    with Producer(bootstrap_servers=address, batch_size=500) as producer:
        for number in range(2000):
            producer.send(topic, b"%d" % number)
        producer.flush(PATIENCE_S)
    read = read_all(address, topic)
    counts = [sum(one.partition == index for one in read) for index in range(4)]
    assert sum(counts) == 2000
    assert min(counts) > 0


def test_a_partitioner_of_ones_own_chooses(address: str) -> None:
    topic = create_topic(address, new_topic("own-partitioner"), 3)

    def by_length(topic: str, key: Any, key_bytes: bytes, value: Any, value_bytes: bytes, cluster: Any) -> int:
        return len(value_bytes) % int(cluster.partition_count(topic))

    with Producer(bootstrap_servers=address, partitioner_class=by_length) as producer:
        told = [producer.send(topic, bytes(size)) for size in range(6)]
        assert [one.result(PATIENCE_S).partition for one in told] == [0, 1, 2, 0, 1, 2]
        assert producer.send(topic, b"", partition=2).result(PATIENCE_S).partition == 2


def test_serializers_make_bytes_and_may_add_headers(address: str) -> None:
    class Counted:
        def serialize(self, topic: str, value: Any, headers: list[tuple[str, bytes | None]]) -> bytes | None:
            headers.append(("type", type(value).__name__.encode()))
            return str(value).encode()

    topic = create_topic(address, new_topic("serialized"))
    with Producer(bootstrap_servers=address, key_serializer=str.encode, value_serializer=Counted()) as producer:
        producer.send_and_wait(topic, 12, "ä")
        with pytest.raises(SerializationError):
            producer.send(topic, 12, 7)
    (read,) = read_all(address, topic)
    assert (read.key, read.value, read.headers) == ("ä".encode(), b"12", (("type", b"int"),))


def test_what_is_not_bytes_needs_a_serializer(address: str, producer: Producer) -> None:
    topic = create_topic(address, new_topic("not-bytes"))
    for key, value in ((None, "text"), ("text", None), (1, b"v"), (b"k", {"a": 1})):
        with pytest.raises(SerializationError, match="bytes or None where no serializer is set"):
            producer.send(topic, value, key)
    with pytest.raises(ValueError, match="Invalid timestamp: -2"):
        producer.send(topic, b"v", timestamp_ms=-2)
    with pytest.raises(ValueError, match="Invalid partition: -1"):
        producer.send(topic, b"v", partition=-1)
    assert producer.send(topic, b"fine").result(PATIENCE_S).offset == 0
    assert producer.metrics().value("buffer-available-bytes") == producer.metrics().value("buffer-total-bytes")


def test_interceptors_see_every_record_and_its_fate(address: str) -> None:
    topic = create_topic(address, new_topic("intercepted"))
    told: list[tuple[int | None, str | None]] = []

    class Stamp:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return record._replace(headers=[*record.headers, ("seen", b"yes")])

        def on_acknowledgement(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            told.append((None if metadata is None else metadata.offset, None if error is None else error.name))

    class Broken:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            raise RuntimeError("mine")

    with Producer(
        bootstrap_servers=address, interceptor_classes=[Broken(), Stamp()], max_request_size=1000
    ) as producer:
        producer.send(topic, b"v")
        producer.flush(PATIENCE_S)
        with pytest.raises(MessageTooLarge):
            producer.send(topic, bytes(2000))
    assert told == [(0, None), (None, "MESSAGE_TOO_LARGE")]
    assert read_all(address, topic)[0].headers == (("seen", b"yes"),)


# Deliveries


def test_a_delivery_tells_its_record_s_fate_in_every_way(address: str, producer: Producer) -> None:
    topic = create_topic(address, new_topic("deliveries"))
    told: list[Any] = []
    delivery = producer.send(topic, b"v", on_delivery=lambda metadata, error: told.append((metadata, error)))
    delivery.add_done_callback(told.append)
    metadata = delivery.result(PATIENCE_S)
    assert delivery.done()
    assert delivery.exception() is None
    eventually(lambda: len(told) == 2, "both callbacks")
    assert told == [(metadata, None), delivery]
    delivery.add_done_callback(told.append)
    assert told[2:] == [delivery]


def test_a_callback_must_not_wait_for_its_own_producer(address: str, producer: Producer) -> None:
    topic = create_topic(address, new_topic("callbacks"))
    caught: list[BaseException] = []

    def waits(metadata: Any, error: Any) -> None:
        for call in (producer.flush, lambda: producer.send(topic, b"again").result()):
            try:
                call()
            except IllegalState as refused:
                caught.append(refused)

    producer.send(topic, b"v", on_delivery=waits)
    eventually(lambda: len(caught) == 2, "both refusals")
    producer.flush(PATIENCE_S)
    assert values(address, topic) == [b"v", b"again"]


def test_many_threads_share_a_producer(address: str) -> None:
    topic = create_topic(address, new_topic("threads"), 2)
    with Producer(bootstrap_servers=address, batch_size=1000) as producer:

        def work(worker: int) -> list[int]:
            deliveries = [producer.send(topic, b"%d %d" % (worker, number)) for number in range(2000)]
            return [delivery.result(PATIENCE_S).offset for delivery in deliveries]

        with ThreadPoolExecutor(8) as pool:
            offsets = list(pool.map(work, range(8)))
    read = values(address, topic)
    assert len(read) == len(set(read)) == 16_000 == sum(map(len, offsets))
    # Of one thread, the records of a partition are in the order it sent them.
    for partition in (0, 1):
        in_order = [one.value for one in read_all(address, topic) if one.partition == partition]
        numbers: dict[bytes, int] = {}
        for value in in_order:
            worker, number = (value or b"").split()
            assert numbers.get(worker, -1) < int(number)
            numbers[worker] = int(number)


# Refusals


def test_a_record_that_no_request_could_hold_is_refused_at_once(address: str) -> None:
    topic = create_topic(address, new_topic("large"))
    with Producer(bootstrap_servers=address, max_request_size=10_000, buffer_memory=8_000, batch_size=100) as producer:
        with pytest.raises(MessageTooLarge, match=r"larger than 10000, which is the value of the max.request.size"):
            producer.send(topic, bytes(10_000))
        with pytest.raises(MessageTooLarge, match=r"total memory buffer"):
            producer.send(topic, bytes(9_000))
        producer.send_and_wait(topic, bytes(5_000))


def test_a_record_that_the_topic_does_not_take_is_not_retried(address: str, producer: Producer) -> None:
    topic = create_topic(address, new_topic("small-messages"), max_message_bytes="1000")
    delivery = producer.send(topic, bytes(5000))
    with pytest.raises(MessageTooLarge) as caught:
        delivery.result(PATIENCE_S)
    assert not caught.value.retriable
    assert producer.metrics().value("record-retry-total") == 0
    # Batches that are only together too large are split.
    deliveries = [producer.send(topic, bytes(300)) for _ in range(20)]
    assert [one.result(PATIENCE_S).offset for one in deliveries] == list(range(20))


def test_a_topic_whose_name_is_not_valid_is_refused_without_waiting(address: str, producer: Producer) -> None:
    started = time.monotonic()
    with pytest.raises(InvalidTopicException):
        producer.send("no/topic", b"v")
    assert time.monotonic() - started < 10


def test_a_broker_that_is_not_there_is_waited_for_as_long_as_asked() -> None:
    with Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=300) as producer:
        started = time.monotonic()
        with pytest.raises(KafkaTimeout, match=r"0\.3 s passed; .*127\.0\.0\.1:1: connection refused") as caught:
            producer.send("topic", b"v")
        assert isinstance(caught.value, TimeoutError)
        assert caught.value.retriable
        assert time.monotonic() - started < 5


def test_settings_are_refused_in_one_line(address: str) -> None:
    with pytest.raises(InvalidConfig, match=r"did you mean linger.ms\?"):
        Producer(bootstrap_servers=address, lingr_ms=5)
    with pytest.raises(InvalidConfig, match="idempotent"):
        Producer(bootstrap_servers=address, enable_idempotence=True, acks=1)
    assert Producer.__module__.startswith("ottla.client")
    assert threading.active_count() < 50


# Ending


def test_closing_sends_what_lingers(address: str) -> None:
    topic = create_topic(address, new_topic("closing"))
    producer = Producer(bootstrap_servers=address, linger_ms=60_000, delivery_timeout_ms=120_000)
    deliveries = [producer.send(topic, b"%d" % number) for number in range(10)]
    producer.close(PATIENCE_S)
    assert all(delivery.done() for delivery in deliveries)
    assert values(address, topic) == [b"%d" % number for number in range(10)]
    for call in (lambda: producer.send(topic, b"v"), producer.flush, lambda: producer.partitions_for(topic)):
        with pytest.raises(ClientClosed):
            call()
    producer.close()


def test_a_producer_leaves_no_thread_and_no_file_behind(address: str) -> None:
    topic = create_topic(address, new_topic("leaks"))
    with Producer(bootstrap_servers=address) as producer:
        producer.send_and_wait(topic, b"v")
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for _ in range(30):
        with Producer(bootstrap_servers=address) as producer:
            producer.send_and_wait(topic, b"v")
    assert threading.active_count() <= threads
    assert len(os.listdir("/proc/self/fd")) <= files


def test_closing_from_a_callback_ends_at_once(address: str) -> None:
    topic = create_topic(address, new_topic("closing-itself"))
    producer = Producer(bootstrap_servers=address)
    closed = threading.Event()

    def close(metadata: Any, error: Any) -> None:
        producer.close()
        closed.set()

    producer.send(topic, b"v", on_delivery=close)
    assert closed.wait(PATIENCE_S)
    with pytest.raises(ClientClosed):
        producer.send(topic, b"v")


# Brokers that come and go


def test_kill_9_of_the_broker_loses_nothing_and_repeats_nothing(server: Server | Nodes) -> None:
    topic = create_topic(server.address, "killed", 2)
    count = 6000
    with Producer(
        bootstrap_servers=server.address, batch_size=500, linger_ms=1, delivery_timeout_ms=300_000
    ) as producer:
        deliveries = []
        for number in range(count):
            deliveries.append(producer.send(topic, b"%d" % number, partition=number % 2))
            if number in (count // 3, 2 * count // 3):
                deliveries[number // 2].result(PATIENCE_S)
                server.kill()
                time.sleep(0.2)
                server.start()
        producer.flush(60)
        assert all(delivery.exception() is None for delivery in deliveries)
    read = read_all(server.address, topic)
    for partition in (0, 1):
        sent = [b"%d" % number for number in range(partition, count, 2)]
        assert [one.value for one in read if one.partition == partition] == sent


def test_a_broker_that_stays_away_fails_records_after_the_delivery_time_out(server: Server | Nodes) -> None:
    topic = create_topic(server.address, "away")
    # The broker that is back must be tried again before the delivery's time is up, however long its start has taken.
    backoff = {"reconnect.backoff.max.ms": 100, "retry.backoff.max.ms": 100}
    settings = {"request.timeout.ms": 300, "delivery.timeout.ms": 1000, "linger.ms": 0, **backoff}
    with Producer(settings, bootstrap_servers=server.address) as producer:
        producer.send_and_wait(topic, b"v")
        kill_all(server)
        started = time.monotonic()
        with pytest.raises(DeliveryTimeout, match=r"Expiring 1 record\(s\) for away-0"):
            producer.send(topic, b"lost").result(PATIENCE_S)
        assert 0.9 < time.monotonic() - started < 10
        server.start()
        assert producer.send(topic, b"again").result(PATIENCE_S).offset >= 1


def test_a_full_buffer_blocks_and_then_raises(server: Server | Nodes) -> None:
    topic = create_topic(server.address, "full")
    settings = {"buffer.memory": 100_000, "batch.size": 10_000, "max.block.ms": 400}
    with Producer(settings, bootstrap_servers=server.address) as producer:
        for _ in range(1000):
            producer.send(topic, bytes(1000))  # ten times the buffer: held back, and let go on
        producer.flush(PATIENCE_S)
        kill_all(server)
        started = time.monotonic()
        with pytest.raises(BufferExhausted, match="within the configured max blocking time 400 ms"):
            [producer.send(topic, bytes(1000)) for _ in range(200)]
        assert 0.3 < time.monotonic() - started < 10
        server.start()
        producer.flush(60)
        producer.send_and_wait(topic, b"after")


# The async face


def test_the_async_face_does_the_same(address: str) -> None:
    topic = create_topic(address, new_topic("async"), 2)

    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=address) as producer:
            assert (await producer.send_and_wait(topic, b"v", b"k", headers=[("h", b"1")])).offset == 0
            deliveries = [await producer.send(topic, b"%d" % number, partition=1) for number in range(100)]
            told = await asyncio.gather(*deliveries)
            first = told[0].offset
            assert [one.offset - first for one in told] == list(range(100))
            assert len(await producer.partitions_for(topic)) == 2
            with pytest.raises(IllegalState, match="is awaited"):
                (await producer.send(topic, b"v")).result()
            with pytest.raises(SerializationError):
                await producer.send(topic, "text")
            await producer.flush(PATIENCE_S)
            assert producer.metrics().value("record-send-total") == 102
        with pytest.raises(ClientClosed):
            await producer.send(topic, b"late")

    asyncio.run(main())
    assert len(values(address, topic)) == 102


def test_an_async_send_waits_for_memory_without_holding_up_the_loop(address: str) -> None:
    topic = create_topic(address, new_topic("async-full"))

    async def main() -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        async with AsyncProducer(bootstrap_servers=address, buffer_memory=50_000, batch_size=5000) as producer:
            for _ in range(500):
                await producer.send(topic, bytes(1000))
            await producer.flush(PATIENCE_S)
        ticking.cancel()
        assert ticks > 10

    asyncio.run(main())
    assert len(values(address, topic)) == 500

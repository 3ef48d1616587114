"""The jobs that librdkafka does, through confluent-kafka. Every producing one ends by asking for the end offsets."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.rivals.job import TIMEOUT_S, Job, Measured, Meter

CALL_RECORDS = 6_000
"""How many records one call hands to librdkafka."""
QUEUE_RECORDS = 60_000
"""How many records wait in librdkafka at most."""


def produce(job: Job) -> Measured:
    """As many records as the broker takes, round robin over the partitions; ends with the last acknowledgement."""
    return _produce(job, [_value(job.record_bytes)])


def produce_events(job: Job) -> Measured:
    """The same with values that compress as real ones do."""
    return _produce(job, _events(job.record_bytes, CALL_RECORDS))


def _produce(job: Job, values: Sequence[bytes]) -> Measured:
    create(job)
    producer = Producer({
        "bootstrap.servers": job.address, "log_level": 3, "acks": "all", "linger.ms": 5,
        "queue.buffering.max.messages": QUEUE_RECORDS + CALL_RECORDS, "queue.buffering.max.kbytes": 1 << 20,
        "delivery.report.only.error": True,
        **job.settings,
    })  # fmt: skip
    before = end_offsets(job)
    records: list[dict[str, Any]] = [
        {"value": values[index % len(values)], "partition": index % job.partition_count}
        for index in range(CALL_RECORDS)
    ]
    producer.list_topics(job.topic, timeout=10)
    meter = Meter(job)
    left = job.record_count
    while left:
        part = records if left >= CALL_RECORDS else records[:left]
        queued = producer.produce_batch(job.topic, part, on_delivery=_failed)
        assert queued == len(part), "the queue has room for one more call"
        left -= queued
        while len(producer) > QUEUE_RECORDS:
            producer.poll(0.001)
    assert producer.flush(TIMEOUT_S) == 0, "not everything was acknowledged"
    measured = meter.read(job.record_count)
    written = end_offsets(job) - before
    assert written == job.record_count, f"{written} of {job.record_count} acknowledged records are in the log"
    return measured


def round_trip(job: Job) -> Measured:
    """One record at a time, each sent when the one before is acknowledged."""
    create(job)
    producer = Producer(
        {"bootstrap.servers": job.address, "log_level": 3, "acks": "all", "linger.ms": 0, **job.settings}
    )
    value = _value(job.record_bytes)
    acknowledged = 0

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        nonlocal acknowledged
        if error is not None:
            raise KafkaException(error)
        acknowledged += 1

    def one(index: int) -> float:
        started = time.perf_counter()
        producer.produce(job.topic, value, partition=index % job.partition_count, on_delivery=on_delivery)
        while acknowledged == done:
            producer.poll(1)
        return time.perf_counter() - started

    done = 0
    for index in range(min(200, job.record_count)):  # connections, codecs, caches
        one(index)
        done += 1
    meter = Meter(job)
    latencies_s = []
    for index in range(job.record_count):
        latencies_s.append(one(index))
        done += 1
    return meter.read(job.record_count, latencies_s)


def consume(job: Job) -> Measured:
    """The topic's records from the beginning of every partition, until `record_count` have come."""
    consumer = Consumer({
        "bootstrap.servers": job.address, "log_level": 3, "group.id": "bench", "enable.auto.commit": False,
        "auto.offset.reset": "error", "fetch.wait.max.ms": 100,
        # Otherwise librdkafka, once 100,000 records wait for Python, stops fetching for up to a second.
        "queued.min.messages": 10_000_000, "queued.max.messages.kbytes": 2_097_151,
        **job.settings,
    })  # fmt: skip
    consumer.list_topics(job.topic, timeout=10)
    meter = Meter(job)
    consumer.assign([TopicPartition(job.topic, index, 0) for index in range(job.partition_count)])
    left = job.record_count
    deadline = time.monotonic() + TIMEOUT_S
    while left > 0:
        for record in consumer.consume(min(left, 10_000), timeout=0.5):
            error = record.error()
            if error is not None:
                raise KafkaException(error)
            left -= 1
        assert time.monotonic() < deadline, f"{left} records did not come"
    measured = meter.read(job.record_count)
    consumer.close()
    return measured


def create(job: Job) -> None:
    admin = AdminClient({"bootstrap.servers": job.address, "log_level": 3})
    made = admin.create_topics([NewTopic(job.topic, job.partition_count, job.replicas)])[job.topic]
    try:
        made.result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def end_offsets(job: Job) -> int:
    """The sum of the partitions' end offsets, once all have a leader: just after a topic is made some may not."""
    consumer = Consumer({"bootstrap.servers": job.address, "log_level": 3, "group.id": "bench"})
    try:
        return sum(_end_offset(consumer, TopicPartition(job.topic, index)) for index in range(job.partition_count))
    finally:
        consumer.close()


def _end_offset(consumer: Consumer, partition: TopicPartition) -> int:
    deadline = time.monotonic() + 10
    while True:
        try:
            return consumer.get_watermark_offsets(partition, timeout=10)[1]
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _failed(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        raise KafkaException(error)


def _value(size: int) -> bytes:
    return bytes(index * 31 % 251 for index in range(size))


def _events(size: int, count: int) -> list[bytes]:
    """JSON of a web shop, cut at `size` bytes: the same field names, words that come again, numbers that do not.

    gzip and zstd make about a quarter of it, lz4 and snappy about two fifths.
    """
    chance = random.Random(1)
    words = ["".join(chance.choices("etaoinshrdlucm", k=chance.randint(3, 10))) for _ in range(2_000)]

    def event(number: int) -> str:
        lines = ", ".join(
            f'{{"sku": "{chance.randrange(10**8):08}", "name": "{" ".join(chance.choices(words, k=3))}", '
            f'"count": {chance.randrange(1, 9)}, "price": {chance.randrange(10**5) / 100}, "currency": "EUR"}}'
            for _ in range(1 + size // 100)
        )
        return (
            f'{{"event_id": "{chance.getrandbits(128):032x}", "time_ms": {1_790_000_000_000 + number}, '
            f'"user_id": {chance.randrange(10**6)}, "session": "{chance.getrandbits(64):016x}", "items": [{lines}]}}'
        )

    return [event(number).encode()[:size] for number in range(count)]

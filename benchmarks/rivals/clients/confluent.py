"""confluent-kafka: librdkafka's threads, one call a record to produce, thousands a call to consume."""

from __future__ import annotations

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from benchmarks.rivals.clients import TIMEOUT_S, ClientJob, ClientMeasured

QUEUE_RECORDS = 500_000


def _failed(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        raise KafkaException(error)


def produce(job: ClientJob) -> ClientMeasured:
    producer = Producer({
        "bootstrap.servers": job.address, "log_level": 3, "acks": "all", "linger.ms": 5, "compression.type": job.codec,
        "queue.buffering.max.messages": QUEUE_RECORDS, "queue.buffering.max.kbytes": 1 << 20,
        "delivery.report.only.error": True, "batch.size": 1_000_000,
    })  # fmt: skip
    producer.list_topics(job.topic, timeout=10)
    value = bytes(job.record_bytes)
    started = time.perf_counter()
    send, poll, topic = producer.produce, producer.poll, job.topic
    for index in range(job.record_count):
        try:
            send(topic, value, on_delivery=_failed)
        except BufferError:
            while len(producer) > QUEUE_RECORDS // 2:
                poll(0.01)
            send(topic, value, on_delivery=_failed)
        if not index & 0x3FF:
            poll(0)
    assert producer.flush(TIMEOUT_S) == 0, "not everything was acknowledged"
    return ClientMeasured(time.perf_counter() - started, job.record_count)


def _consumer(job: ClientJob) -> Consumer:
    consumer = Consumer({
        "bootstrap.servers": job.address, "log_level": 3, "group.id": "bench", "enable.auto.commit": False,
        "auto.offset.reset": "error", "queued.min.messages": 10_000_000, "queued.max.messages.kbytes": 2_097_151,
        "fetch.wait.max.ms": 100,
    })  # fmt: skip
    consumer.assign([TopicPartition(job.topic, index, OFFSET_BEGINNING) for index in range(job.partition_count)])
    return consumer


def consume(job: ClientJob) -> ClientMeasured:
    started = time.perf_counter()
    consumer = _consumer(job)
    count = size = 0
    first_s = 0.0
    while count < job.record_count:
        for record in consumer.consume(min(10_000, job.record_count - count), timeout=1.0):
            if record.error() is not None:
                raise KafkaException(record.error())
            size += len(record.value() or b"")
            count += 1
        if not first_s:
            first_s = time.perf_counter() - started
    wall_s = time.perf_counter() - started
    assert size == count * job.record_bytes
    consumer.close()
    return ClientMeasured(wall_s, count, first_record_s=first_s)


def round_trip(job: ClientJob) -> ClientMeasured:
    """A record at a time, from `produce` until a consumer has it."""
    producer = Producer({"bootstrap.servers": job.address, "log_level": 3, "acks": "all", "linger.ms": 0})
    consumer = _consumer(job)
    value = bytes(job.record_bytes)
    latencies = []
    for index in range(job.record_count + 100):
        started = time.perf_counter()
        producer.produce(job.topic, value, partition=0)
        producer.poll(0)
        while (record := consumer.poll(5)) is None:
            pass
        if record.error() is not None:
            raise KafkaException(record.error())
        if index >= 100:
            latencies.append(time.perf_counter() - started)
    producer.flush(10)
    consumer.close()
    return ClientMeasured(sum(latencies), len(latencies), latencies)


def first_record(job: ClientJob) -> ClientMeasured:
    """From nothing to the first record sent and acknowledged."""
    started = time.perf_counter()
    producer = Producer({"bootstrap.servers": job.address, "log_level": 3, "linger.ms": 0})
    producer.produce(job.topic, bytes(job.record_bytes), on_delivery=_failed)
    assert producer.flush(10) == 0
    took_s = time.perf_counter() - started
    return ClientMeasured(took_s, 1, first_record_s=took_s)

"""Ottla's own client, the blocking face."""

from __future__ import annotations

import time

from benchmarks.rivals.clients import ClientJob, ClientMeasured
from ottla.client import Consumer, Producer, TopicPartition

BATCH_BYTES = 1_000_000


def produce(job: ClientJob) -> ClientMeasured:
    producer = Producer(
        bootstrap_servers=job.address, acks="all", linger_ms=5, compression_type=job.codec, batch_size=BATCH_BYTES,
        buffer_memory=1 << 28,
    )  # fmt: skip
    producer.partitions_for(job.topic)
    value = bytes(job.record_bytes)
    send, topic = producer.send, job.topic
    started = time.perf_counter()
    for _ in range(job.record_count):
        send(topic, value)
    producer.flush()
    wall_s = time.perf_counter() - started
    failed = producer.metrics().value("record-error-total")
    assert not failed, f"{failed} records failed"
    producer.close()
    return ClientMeasured(wall_s, job.record_count)


def consumer_of(job: ClientJob) -> Consumer[bytes, bytes]:
    consumer: Consumer[bytes, bytes] = Consumer(
        bootstrap_servers=job.address, enable_auto_commit=False, fetch_max_wait_ms=100, max_poll_records=10_000
    )
    partitions = [TopicPartition(job.topic, index) for index in range(job.partition_count)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(partitions)
    return consumer


def consume(job: ClientJob) -> ClientMeasured:
    started = time.perf_counter()
    consumer = consumer_of(job)
    count = size = 0
    first_s = 0.0
    while count < job.record_count:
        records = consumer.poll(1.0)
        for record in records:
            size += len(record.value)
        count += len(records)
        if count and not first_s:
            first_s = time.perf_counter() - started
    wall_s = time.perf_counter() - started
    assert size == count * job.record_bytes
    consumer.close()
    return ClientMeasured(wall_s, count, first_record_s=first_s)


def round_trip(job: ClientJob) -> ClientMeasured:
    producer = Producer(bootstrap_servers=job.address, acks="all", linger_ms=0)
    consumer = consumer_of(job)
    value = bytes(job.record_bytes)
    latencies = []
    for index in range(job.record_count + 100):
        started = time.perf_counter()
        producer.send(job.topic, value, partition=0)
        while not consumer.poll(5.0):
            pass
        if index >= 100:
            latencies.append(time.perf_counter() - started)
    producer.close()
    consumer.close()
    return ClientMeasured(sum(latencies), len(latencies), latencies)


def first_record(job: ClientJob) -> ClientMeasured:
    started = time.perf_counter()
    producer = Producer(bootstrap_servers=job.address, linger_ms=0)
    producer.send(job.topic, bytes(job.record_bytes)).result()
    took_s = time.perf_counter() - started
    producer.close()
    return ClientMeasured(took_s, 1, first_record_s=took_s)

"""Ottla's own client, whole columns at a time."""

from __future__ import annotations

import time

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.rivals.clients import ClientJob, ClientMeasured
from benchmarks.rivals.clients.ours import BATCH_BYTES, consumer_of
from ottla.client import Producer

ROWS = 50_000


def produce(job: ClientJob) -> ClientMeasured:
    # The default of buffer.memory: whole batches have nothing to wait for in a larger one.
    producer = Producer(
        bootstrap_servers=job.address, acks="all", linger_ms=5, compression_type=job.codec, batch_size=BATCH_BYTES
    )
    producer.partitions_for(job.topic)
    batch = pa.record_batch({"value": _values(job.record_bytes)})
    started = time.perf_counter()
    left = job.record_count
    deliveries = []
    while left > 0:
        part = batch if left >= ROWS else batch.slice(0, left)
        deliveries.append(producer.send_arrow(job.topic, part))
        left -= part.num_rows
    producer.flush()
    wall_s = time.perf_counter() - started
    for delivery in deliveries:
        delivery.result()
    producer.close()
    return ClientMeasured(wall_s, job.record_count)


def consume(job: ClientJob) -> ClientMeasured:
    started = time.perf_counter()
    consumer = consumer_of(job)
    count = size = 0
    first_s = 0.0
    while count < job.record_count:
        batch = consumer.poll_arrow(1.0)
        if batch is None:
            continue
        values = batch.column("value")
        size += _bytes_in(values)
        count += batch.num_rows
        if count % job.held_count == 0 and count < job.record_count:
            consumer.seek_to_beginning()
        if not first_s:
            first_s = time.perf_counter() - started
    wall_s = time.perf_counter() - started
    assert size == count * job.record_bytes, f"{size} bytes in {count} records"
    consumer.close()
    return ClientMeasured(wall_s, count, first_record_s=first_s)


def _values(size: int) -> pa.Array:
    """Values for all rows, made without the pandas that `pa.array` would import."""
    zeros = pa.py_buffer(bytes(size * ROWS))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), ROWS, [None, zeros]).cast(pa.binary())


def _bytes_in(values: pa.Array) -> int:
    """What the values hold, from the ends of their offsets."""
    total: int = pc.sum(pc.binary_length(values)).as_py()
    return total

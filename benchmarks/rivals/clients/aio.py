"""aiokafka: asyncio, in pure Python but for its record codec."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from benchmarks.rivals.clients import ClientJob, ClientMeasured

WAITING = 20_000


def produce(job: ClientJob) -> ClientMeasured:
    async def main() -> ClientMeasured:
        codec = None if job.codec == "none" else job.codec
        producer = AIOKafkaProducer(
            bootstrap_servers=job.address, acks="all", linger_ms=5, compression_type=codec, max_batch_size=1_000_000
        )
        await producer.start()
        await producer.partitions_for(job.topic)
        value = bytes(job.record_bytes)
        started = time.perf_counter()
        waiting: list[Any] = []
        for _ in range(job.record_count):
            waiting.append(await producer.send(job.topic, value))
            if len(waiting) == WAITING:
                await asyncio.gather(*waiting)
                waiting.clear()
        await asyncio.gather(*waiting)
        wall_s = time.perf_counter() - started
        await producer.stop()
        return ClientMeasured(wall_s, job.record_count)

    return asyncio.run(main())


async def _consumer(job: ClientJob) -> Any:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=job.address,
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
        max_partition_fetch_bytes=1 << 20,
    )
    await consumer.start()
    partitions = [TopicPartition(job.topic, index) for index in range(job.partition_count)]
    consumer.assign(partitions)
    await consumer.seek_to_beginning(*partitions)
    return consumer


def consume(job: ClientJob) -> ClientMeasured:
    async def main() -> ClientMeasured:
        started = time.perf_counter()
        consumer = await _consumer(job)
        count = size = 0
        first_s = 0.0
        while count < job.record_count:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                for record in records:
                    size += len(record.value)
                count += len(records)
            if count and not first_s:
                first_s = time.perf_counter() - started
        wall_s = time.perf_counter() - started
        assert size == count * job.record_bytes
        await consumer.stop()
        return ClientMeasured(wall_s, count, first_record_s=first_s)

    return asyncio.run(main())


def round_trip(job: ClientJob) -> ClientMeasured:
    async def main() -> ClientMeasured:
        producer = AIOKafkaProducer(bootstrap_servers=job.address, acks="all", linger_ms=0)
        await producer.start()
        consumer = await _consumer(job)
        value = bytes(job.record_bytes)
        latencies = []
        for index in range(job.record_count + 100):
            started = time.perf_counter()
            await producer.send(job.topic, value, partition=0)
            await consumer.getone()
            if index >= 100:
                latencies.append(time.perf_counter() - started)
        await producer.stop()
        await consumer.stop()
        return ClientMeasured(sum(latencies), len(latencies), latencies)

    return asyncio.run(main())


def first_record(job: ClientJob) -> ClientMeasured:
    async def main() -> ClientMeasured:
        started = time.perf_counter()
        producer = AIOKafkaProducer(bootstrap_servers=job.address, linger_ms=0)
        await producer.start()
        await producer.send_and_wait(job.topic, bytes(job.record_bytes))
        took_s = time.perf_counter() - started
        await producer.stop()
        return ClientMeasured(took_s, 1, first_record_s=took_s)

    return asyncio.run(main())

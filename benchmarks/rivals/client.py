"""The load: librdkafka through confluent-kafka, in a process of its own, so that nothing of it is charged to a broker.

`load(...)` runs one job in a new process (`python -m benchmarks.rivals.client JOB`) and returns what it measured. The
broker's CPU time is read by that process at the beginning and the end of the measured part, so that connecting,
creating topics and starting Python stay outside. Every producing job ends by asking the broker for its end offsets.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.rivals.process import TICK_S, cpu_s

TIMEOUT_S = 300.0
CALL_RECORDS = 6_000
"""How many records one call hands to librdkafka."""
QUEUE_RECORDS = 60_000
"""How many records wait in librdkafka at most."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to do with one topic of one broker."""

    kind: str
    address: str
    pid: int
    topic: str
    partition_count: int
    record_count: int
    record_bytes: int
    settings: dict[str, Any] = field(default_factory=dict)
    """librdkafka's, on top of the job's own."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of it. `client_cpu_s` tells whether the client was the limit."""

    wall_s: float
    broker_cpu_s: float
    client_cpu_s: float
    record_count: int
    record_bytes: int
    latencies_s: list[float] = field(default_factory=list)

    @property
    def gigabytes(self) -> float:
        return self.record_count * self.record_bytes / 1e9

    @property
    def broker_cpu_s_per_gb(self) -> float:
        return self.broker_cpu_s / self.gigabytes

    @property
    def broker_cpu_s_per_record(self) -> float:
        return self.broker_cpu_s / self.record_count

    @property
    def bytes_per_s(self) -> float:
        return self.record_count * self.record_bytes / self.wall_s

    def percentile_s(self, percent: float) -> float:
        ordered = sorted(self.latencies_s)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def load(job: Job) -> Measured:
    """Run `job` in a new process."""
    command = [sys.executable, "-m", "benchmarks.rivals.client", json.dumps(asdict(job))]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=TIMEOUT_S)
    return Measured(**json.loads(done.stdout))


# In the client's process


class _Meter:
    """Wall clock, the broker's CPU and the client's own, from when it was made."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._client_s = time.process_time()
        self._broker_s = cpu_s(job.pid)
        self._wall_s = time.perf_counter()

    def read(self, record_count: int, latencies_s: list[float] | None = None) -> Measured:
        return Measured(
            wall_s=time.perf_counter() - self._wall_s,
            broker_cpu_s=max(TICK_S, cpu_s(self._job.pid) - self._broker_s),
            client_cpu_s=time.process_time() - self._client_s,
            record_count=record_count,
            record_bytes=self._job.record_bytes,
            latencies_s=latencies_s or [],
        )


def produce(job: Job) -> Measured:
    """As many records as the broker takes, round robin over the partitions; ends with the last acknowledgement."""
    _create(job)
    producer = Producer({
        "bootstrap.servers": job.address, "log_level": 3, "acks": "all", "linger.ms": 5,
        "queue.buffering.max.messages": QUEUE_RECORDS + CALL_RECORDS, "queue.buffering.max.kbytes": 1 << 20,
        "delivery.report.only.error": True,
        **job.settings,
    })  # fmt: skip
    before = _end_offsets(job)
    value = _value(job.record_bytes)
    records: list[dict[str, Any]] = [
        {"value": value, "partition": index % job.partition_count} for index in range(CALL_RECORDS)
    ]
    producer.list_topics(job.topic, timeout=10)
    meter = _Meter(job)
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
    written = _end_offsets(job) - before
    assert written == job.record_count, f"{written} of {job.record_count} acknowledged records are in the log"
    return measured


def round_trip(job: Job) -> Measured:
    """One record at a time, each sent when the one before is acknowledged."""
    _create(job)
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
    meter = _Meter(job)
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
    meter = _Meter(job)
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


def _create(job: Job) -> None:
    admin = AdminClient({"bootstrap.servers": job.address, "log_level": 3})
    made = admin.create_topics([NewTopic(job.topic, job.partition_count, 1)])[job.topic]
    try:
        made.result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _end_offsets(job: Job) -> int:
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


JOBS: dict[str, Callable[[Job], Measured]] = {"produce": produce, "round_trip": round_trip, "consume": consume}


if __name__ == "__main__":
    asked = Job(**json.loads(sys.argv[1]))
    print(json.dumps(asdict(JOBS[asked.kind](asked))))

"""Transactions through librdkafka: a producer that commits ten records at a time, and a read_committed consumer.

`run(job)` runs in a new process. A transaction's latency is from its begin to the moment that its last record reached
the consumer, which reads committed records only.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.rivals.process import TICK_S, cpu_s

TIMEOUT_S = 300.0
RECORDS = 10
"""In each transaction."""
WARM_UP = 50


@dataclass(frozen=True, slots=True)
class Job:
    """How many transactions to run on which broker."""

    address: str
    pid: int
    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it: the producer's own time, and for each transaction the time until it was read."""

    count: int
    wall_s: float
    broker_cpu_s: float
    client_cpu_s: float
    latencies_s: list[float] = field(default_factory=list)

    @property
    def per_s(self) -> float:
        return self.count / self.wall_s

    def percentile_s(self, percent: float) -> float:
        ordered = sorted(self.latencies_s)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def run(job: Job) -> Outcome:
    """Run `job` in a new process."""
    command = [sys.executable, "-m", "benchmarks.rivals.transactions", json.dumps(asdict(job))]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=TIMEOUT_S)
    return Outcome(**json.loads(done.stdout))


# In the client's process


def work(job: Job) -> Outcome:
    admin = AdminClient({"bootstrap.servers": job.address, "log_level": 3})
    admin.create_topics([NewTopic(job.name, 1, 1)])[job.name].result()
    producer = Producer(
        {"bootstrap.servers": job.address, "log_level": 3, "transactional.id": job.name, "linger.ms": 0}
    )
    producer.init_transactions(TIMEOUT_S)
    consumer = Consumer({
        "bootstrap.servers": job.address, "log_level": 3, "group.id": job.name, "enable.auto.commit": False,
        "isolation.level": "read_committed", "auto.offset.reset": "error", "fetch.wait.max.ms": 100,
    })  # fmt: skip
    consumer.assign([TopicPartition(job.name, 0, 0)])
    began: list[float] = []
    latencies_s: list[float] = []
    total = job.count + WARM_UP

    def read() -> None:
        wanted = RECORDS
        left = total * RECORDS
        while left:
            for record in consumer.consume(RECORDS, timeout=1.0):
                error = record.error()
                if error is not None:
                    raise KafkaException(error)
                left -= 1
                if total * RECORDS - left == wanted:
                    latencies_s.append(time.perf_counter() - began[wanted // RECORDS - 1])
                    wanted += RECORDS

    reader = threading.Thread(target=read)
    reader.start()
    started = broker_s = client_s = 0.0
    for number in range(total):
        if number == WARM_UP:
            started, broker_s, client_s = time.perf_counter(), cpu_s(job.pid), time.process_time()
        began.append(time.perf_counter())
        producer.begin_transaction()
        for index in range(RECORDS):
            producer.produce(job.name, b"%d-%d" % (number, index))
        producer.commit_transaction(TIMEOUT_S)
    wall_s = time.perf_counter() - started
    reader.join(TIMEOUT_S)
    assert len(latencies_s) == total, f"{len(latencies_s)} of {total} transactions were read"
    consumer.close()
    return Outcome(
        job.count,
        wall_s,
        max(TICK_S, cpu_s(job.pid) - broker_s),
        time.process_time() - client_s,
        latencies_s[WARM_UP:],
    )


if __name__ == "__main__":
    print(json.dumps(asdict(work(Job(**json.loads(sys.argv[1]))))))

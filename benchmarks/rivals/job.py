"""A job for a client, run in a process of its own, so that nothing of it is charged to a broker.

`load(...)` runs one job in a new process (`python -m benchmarks.rivals.job JOB`) and returns what it measured. The
broker's CPU time is read by that process at the beginning and the end of the measured part, so that connecting,
creating topics and starting Python stay outside. `client` has the jobs of librdkafka, `frames` those without a client.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.rivals.process import TICK_S, cpu_s, minor_faults

TIMEOUT_S = 300.0
MODULES = {
    "produce": "client",
    "produce_events": "client",
    "round_trip": "client",
    "consume": "client",
    "produce_frames": "frames",
    "fetch_frames": "frames",
}
"""Which module has the function that does a kind of job."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to do with one topic of one broker."""

    kind: str
    address: str
    pids: list[int]
    """Of every node of the broker: their CPU is what is charged to it."""
    topic: str
    partition_count: int
    record_count: int
    record_bytes: int
    settings: dict[str, Any] = field(default_factory=dict)
    """librdkafka's, on top of the job's own."""
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of it. `client_cpu_s` tells whether the client was the limit."""

    wall_s: float
    broker_cpu_s: float
    client_cpu_s: float
    broker_faults: int
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
    def broker_faults_per_gb(self) -> float:
        return self.broker_faults / self.gigabytes

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
    command = [sys.executable, "-m", "benchmarks.rivals.job", json.dumps(asdict(job))]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=TIMEOUT_S)
    return Measured(**json.loads(done.stdout))


# In the client's process


class Meter:
    """Wall clock, the broker's CPU and page faults and the client's CPU, from when it was made."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._client_s = time.process_time()
        self._broker_s = sum(map(cpu_s, job.pids))
        self._broker_faults = sum(map(minor_faults, job.pids))
        self._wall_s = time.perf_counter()

    def read(self, record_count: int, latencies_s: list[float] | None = None) -> Measured:
        return Measured(
            wall_s=time.perf_counter() - self._wall_s,
            broker_cpu_s=max(TICK_S, sum(map(cpu_s, self._job.pids)) - self._broker_s),
            client_cpu_s=time.process_time() - self._client_s,
            broker_faults=sum(map(minor_faults, self._job.pids)) - self._broker_faults,
            record_count=record_count,
            record_bytes=self._job.record_bytes,
            latencies_s=latencies_s or [],
        )


if __name__ == "__main__":
    asked = Job(**json.loads(sys.argv[1]))
    done: Measured = getattr(importlib.import_module(f"benchmarks.rivals.{MODULES[asked.kind]}"), asked.kind)(asked)
    print(json.dumps(asdict(done)))

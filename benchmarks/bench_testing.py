"""A broker inside a test: how long until it serves, and how long a test pays for it in all."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from benchmarks import AtMost, Bench, Result, Unit, benchmark
from ottla.testing import Cluster

FIRST = """
import time
begun = time.perf_counter()
import ottla.testing
with ottla.testing.Cluster() as cluster:
    print(time.perf_counter() - begun)
"""


@benchmark("testing", "first cluster ready", bar=AtMost(0.3, Unit.SECONDS))
def first_ready(bench: Bench) -> Result:
    """A fresh interpreter: import of `ottla.testing`, and a cluster until clients are served; the best of ten."""
    times = [
        float(subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True).stdout)
        for _ in range(bench.pick(10, 1))
    ]
    return Result(min(times), Unit.SECONDS, note=f"median {statistics.median(times):.3f} s")


def ready_s(nodes: int = 1, *, processes: bool) -> float:
    begun = time.perf_counter()
    with Cluster(nodes, processes=processes):
        return time.perf_counter() - begun


@benchmark("testing", "next cluster ready", bar=AtMost(0.3, Unit.SECONDS))
def next_ready(bench: Bench) -> Result:
    """In a process that had one before, as every test but the first; the median of twenty."""
    ready_s(processes=False)
    times = [ready_s(processes=False) for _ in range(bench.pick(20, 1))]
    return Result(statistics.median(times), Unit.SECONDS)


@benchmark("testing", "cluster in a process ready")
def process_ready(bench: Bench) -> Result:
    """`Cluster(processes=True)`, start of the interpreter included; the best of ten."""
    times = [ready_s(processes=True) for _ in range(bench.pick(10, 1))]
    return Result(min(times), Unit.SECONDS, note=f"median {statistics.median(times):.3f} s")


@benchmark("testing", "three nodes ready", bar=AtMost(1.0, Unit.SECONDS))
def three_ready(bench: Bench) -> Result:
    """`Cluster(nodes=3)` in a process that had one before, until all of them serve clients; the median of ten."""
    ready_s(3, processes=False)
    times = [ready_s(3, processes=False) for _ in range(bench.pick(10, 1))]
    return Result(statistics.median(times), Unit.SECONDS, note=f"best {min(times):.3f} s")


@benchmark("testing", "three nodes in processes ready")
def three_processes_ready(bench: Bench) -> Result:
    """`Cluster(nodes=3, processes=True)`, start of the interpreters included; the median of five."""
    times = [ready_s(3, processes=True) for _ in range(bench.pick(5, 1))]
    return Result(statistics.median(times), Unit.SECONDS, note=f"best {min(times):.3f} s")


@benchmark("testing", "cluster from start to close")
def open_close(bench: Bench) -> Result:
    """A cluster with a topic, gone again; the median of twenty."""

    def cycle() -> None:
        with Cluster(topics={"t": 1}):
            pass

    return Result(bench.measure(cycle, rounds=20).median_s, Unit.SECONDS)

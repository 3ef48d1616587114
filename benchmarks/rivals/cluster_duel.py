"""One run of two clusters of three nodes, side by side and in turns, as `duel` does it for single nodes.

Promises: both clusters run all the time, on the same disk, with the same settings, which are Kafka's defaults; before
anything is measured both get the same load; who goes first changes every round.

`python -m benchmarks.rivals.cluster_duel [SCENARIO ...]` prints the figures of some scenarios, for work on one of them.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.harness import Bench, opened
from benchmarks.rivals.cluster import NODE_COUNT, Cluster
from benchmarks.rivals.duel import KIB, OURS, PARTITION_COUNT, THEIRS, rivals
from benchmarks.rivals.job import TIMEOUT_S, Job, Measured, load

__all__ = ["OURS", "THEIRS", "ClusterDuel", "run"]

BUSY_S = 0.001
"""How often the writer of the failovers looks for acknowledgements."""
TOPIC_PARTITIONS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    starts: int = 2
    idle_s: float = 5.0
    rounds: int = 5
    latency_rounds: int = 10
    warm_up_rounds: int = 1
    warm_up_records: int = 1_000_000
    records: int = 500_000
    round_trips: int = 2_000
    created_partitions: int = 2_000
    created_rounds: int = 2
    kills: int = 3
    settle_s: float = 1.0
    """How long the writer of the failovers goes on before a node dies."""
    many_partitions: int = 5_000
    restarts: int = 2


QUICK = Sizes(1, 0.1, 1, 1, 0, 1_000, 1_000, 20, 20, 1, 1, 0.2, 20, 1)


@dataclass(slots=True)
class ClusterDuel:
    """What was found, by scenario and cluster."""

    no_rival: str = ""
    seconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """By scenario and cluster, one a round."""
    idle_bytes: dict[str, float] = field(default_factory=dict)
    """Of a node."""
    runs: dict[tuple[str, str], list[Measured]] = field(default_factory=dict)

    def median(self, scenario: str, figure: Callable[[Measured], float]) -> dict[str, float]:
        return {
            name: statistics.median(map(figure, rounds))
            for (found, name), rounds in self.runs.items()
            if found == scenario
        }

    def best(self, scenario: str, figure: Callable[[Measured], float]) -> dict[str, float]:
        return {name: min(map(figure, rounds)) for (found, name), rounds in self.runs.items() if found == scenario}

    def median_s(self, scenario: str) -> dict[str, float]:
        return {name: statistics.median(found) for (one, name), found in self.seconds.items() if one == scenario}

    def best_s(self, scenario: str) -> dict[str, float]:
        return {name: min(found) for (one, name), found in self.seconds.items() if one == scenario}

    def add(self, scenario: str, cluster: Cluster, seconds: float) -> None:
        self.seconds.setdefault((scenario, cluster.name), []).append(seconds)
        _say(f"{scenario:>18} {cluster.name}: {seconds:7.3f} s")


def run(bench: Bench, only: frozenset[str] = frozenset()) -> ClusterDuel:
    """Run every scenario, or those named in `only`."""
    sizes = bench.pick(Sizes(), QUICK)
    kinds, no_rival = rivals()
    duel = ClusterDuel(no_rival)
    for round_ in range(sizes.starts if not only or "ready" in only else 0):
        for kind in kinds if round_ % 2 == 0 else reversed(kinds):
            with Cluster(kind, Path(bench.temp_dir())) as cluster:
                duel.add("ready", cluster, cluster.start())
                if not round_:
                    time.sleep(sizes.idle_s)
                    duel.idle_bytes[cluster.name] = cluster.resident_bytes
    with ExitStack() as stack:
        scenarios = {name: one for name, one in _scenarios(sizes).items() if not only or name in only}
        clusters = [stack.enter_context(Cluster(kind, Path(bench.temp_dir()))) for kind in kinds]
        for cluster in clusters if scenarios else ():
            cluster.start()
            load(_job("produce", cluster, "warm-up", sizes.warm_up_records))
        for scenario, rounds, warm_up_rounds in scenarios.values():
            for round_ in range(warm_up_rounds + rounds):
                for cluster in clusters if round_ % 2 == 0 else reversed(clusters):
                    scenario(duel if round_ >= warm_up_rounds else ClusterDuel(), cluster, round_)
    if not only or "restart" in only:
        # In clusters of their own: the other scenarios' partitions would be opened as well.
        for kind in kinds:
            with Cluster(kind, Path(bench.temp_dir())) as cluster:
                cluster.start()
                _restart(duel, cluster, sizes)
    return duel


Scenario = Callable[[ClusterDuel, Cluster, int], None]


def _scenarios(sizes: Sizes) -> dict[str, tuple[Scenario, int, int]]:
    """By name: what to do, how often, and how often before that for nothing but warmth."""

    def produce(duel: ClusterDuel, cluster: Cluster, round_: int) -> None:
        _measure(duel, cluster, "produce", _job("produce", cluster, f"produce-{round_}", sizes.records))

    def round_trip(duel: ClusterDuel, cluster: Cluster, round_: int) -> None:
        job = _job("round_trip", cluster, "round-trip", sizes.round_trips, record_bytes=100)
        _measure(duel, cluster, "round-trip", job)

    def create(duel: ClusterDuel, cluster: Cluster, round_: int) -> None:
        duel.add("create", cluster, cluster.create(f"created-{round_}", sizes.created_partitions))

    def kill(duel: ClusterDuel, cluster: Cluster, round_: int) -> None:
        duel.add("kill", cluster, _gap(cluster, f"kill-{round_}", sizes, is_kill=True))

    def shut_down(duel: ClusterDuel, cluster: Cluster, round_: int) -> None:
        duel.add("shutdown", cluster, _gap(cluster, f"shutdown-{round_}", sizes, is_kill=False))

    return {
        "produce": (produce, sizes.rounds, sizes.warm_up_rounds),
        "round-trip": (round_trip, sizes.latency_rounds, sizes.warm_up_rounds),
        "kill": (kill, sizes.kills, 0),
        "shutdown": (shut_down, sizes.kills, 0),
        "create": (create, sizes.created_rounds, 0),
    }


def _restart(duel: ClusterDuel, cluster: Cluster, sizes: Sizes) -> None:
    """Stop a node with many partitions and start it; kill it and start it."""
    _fill(cluster, sizes)
    for round_ in range(sizes.restarts):
        node = cluster.nodes[1 + round_ % NODE_COUNT]
        node.stop()
        duel.add("restart", cluster, node.start())
        node.kill()
        duel.add("restart after kill", cluster, node.start())


def _job(kind: str, cluster: Cluster, topic: str, record_count: int, *, record_bytes: int = KIB) -> Job:
    return Job(kind, cluster.address, cluster.pids, topic, PARTITION_COUNT, record_count, record_bytes, {}, NODE_COUNT)


def _measure(duel: ClusterDuel, cluster: Cluster, scenario: str, job: Job) -> None:
    measured = load(job)
    duel.runs.setdefault((scenario, cluster.name), []).append(measured)
    _say(f"{scenario:>18} {cluster.name}: {measured.wall_s:6.2f} s, nodes {measured.broker_cpu_s:6.2f} CPU-s, "
         f"client {measured.client_cpu_s:6.2f} CPU-s")  # fmt: skip


def _gap(cluster: Cluster, topic: str, sizes: Sizes, *, is_kill: bool) -> float:
    """End the leader of a partition that is not the active controller; the longest time without an acknowledgement."""
    cluster.create(topic, PARTITION_COUNT)
    controller = cluster.active_controller()
    partition, leader = next((one, node) for one, node in cluster.leaders(topic).items() if node != controller)
    writer = Writer(cluster.address, topic, partition)
    writer.start()
    time.sleep(sizes.settle_s)
    if cluster.leaders(topic)[partition] != leader:
        raise RuntimeError(f"{cluster.name}: the leader of {topic}-{partition} has moved by itself")
    node = cluster.nodes[leader]
    if is_kill:
        node.kill()
    else:
        node.stop()
    writer.await_progress()
    gap = writer.finish()
    node.start()
    cluster.await_in_sync(topic, PARTITION_COUNT, node_id=controller)
    return gap


class Writer:
    """One record after the other to one partition, in a thread; `finish` says how long the longest wait was."""

    def __init__(self, address: str, topic: str, partition: int) -> None:
        # What a client waits by itself is kept short: it is the brokers that are measured.
        self._producer = Producer({
            "bootstrap.servers": address, "log_level": 2, "acks": "all", "linger.ms": 0, "retry.backoff.ms": 10,
            "retry.backoff.max.ms": 20, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 20,
            "topic.metadata.refresh.fast.interval.ms": 10, "error_cb": lambda _: None,
        })  # fmt: skip
        self._topic, self._partition = topic, partition
        self._acknowledged_s: list[float] = []
        self._failures: list[str] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def await_progress(self) -> None:
        """Until two records more are acknowledged: the first may have been on its way."""
        asked_s = time.perf_counter()
        enough = len(self._acknowledged_s) + 2
        while len(self._acknowledged_s) < enough:
            if time.perf_counter() - asked_s > TIMEOUT_S:
                raise RuntimeError(f"nothing is acknowledged any more: {self._failures[:3]}")
            time.sleep(BUSY_S)

    def finish(self) -> float:
        self._is_over.set()
        self._thread.join()
        if self._failures:
            raise RuntimeError(f"not acknowledged: {self._failures[:3]}")
        return max(later - one for one, later in zip(self._acknowledged_s, self._acknowledged_s[1:], strict=False))

    def _run(self) -> None:
        sent = 0
        while not self._is_over.is_set():
            self._producer.produce(self._topic, b"x" * 100, partition=self._partition, on_delivery=self._on_delivery)
            sent += 1
            while len(self._acknowledged_s) + len(self._failures) < sent:
                self._producer.poll(BUSY_S)

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._acknowledged_s.append(time.perf_counter())
        else:
            self._failures.append(str(error))


def _fill(cluster: Cluster, sizes: Sizes) -> None:
    """Many partitions with a record in each."""
    producer = Producer({"bootstrap.servers": cluster.address, "log_level": 2, "acks": "all", "linger.ms": 50})
    left = sizes.many_partitions
    while left:
        count = min(left, TOPIC_PARTITIONS_MAX)
        left -= count
        topic = f"many-{left}"
        cluster.create(topic, count)
        for partition in range(count):
            producer.produce(topic, b"x" * 100, partition=partition)
        if producer.flush(TIMEOUT_S):
            raise RuntimeError(f"{cluster.name} did not acknowledge a record for every partition")
    _say(f"{cluster.name} has {sizes.many_partitions} partitions more")


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def _main() -> None:
    with opened(quick="--quick" in sys.argv) as bench:
        duel = run(bench, frozenset(sys.argv[1:]) - {"--quick"})
    for name, size in duel.idle_bytes.items():
        print(f"{'idle':>18} {name}: {size / 1e6:.0f} MB a node")
    for (scenario, name), seconds in duel.seconds.items():
        print(f"{scenario:>18} {name}: {', '.join(f'{one:.3f}' for one in seconds)} s")
    for (scenario, name), rounds in duel.runs.items():
        print(f"{scenario:>18} {name}: {statistics.median(one.bytes_per_s for one in rounds) / 1e6:.0f} MB/s, "
              f"{min(one.broker_cpu_s_per_gb for one in rounds):.2f} CPU-s/GB")  # fmt: skip


if __name__ == "__main__":
    _main()

"""Python clients on one broker, in turns: everything `bench_clients` prints comes from one run of this.

Every job runs in a process of its own and is measured from when its client is asked to begin, in several rounds whose
order changes; the figure is the median round. Slow clients get fewer records and fast ones more: what counts is the
rate, and half a second would mostly tell how a process begins. The topics that are consumed are filled once, by
librdkafka, with values that differ; columns are read from them several times over.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness import Bench
from benchmarks.rivals.clients import (
    AIOKAFKA,
    ARROW,
    CONFLUENT,
    KAFKA_PYTHON,
    NAMES,
    OURS,
    OURS_ASYNC,
    ClientJob,
    ClientMeasured,
    run_client,
)
from benchmarks.rivals.clients.fill import fill
from benchmarks.rivals.server import Server, ottla_kind

PARTITION_COUNT = 6
CLIENTS = (OURS, OURS_ASYNC, CONFLUENT, AIOKAFKA, KAFKA_PYTHON)
PACE = {OURS: 1.0, OURS_ASYNC: 1.0, ARROW: 3.0, CONFLUENT: 1.0, AIOKAFKA: 0.1, KAFKA_PYTHON: 0.05}
"""How many records a client gets, against the others."""
COLUMNS_READ_AGAIN = 3
"""How often columns are read beyond that: they take a tenth of the others' time, of which the first fetch is a part."""


@dataclass(frozen=True, slots=True)
class Sizes:
    rounds: int = 3
    produced: int = 600_000
    consumed: int = 3_000_000
    consumed_large: int = 600_000
    round_trips: int = 2_000


QUICK = Sizes(rounds=1, produced=2_000, consumed=4_000, consumed_large=2_000, round_trips=50)


@dataclass(slots=True)
class ClientDuel:
    """What was found, by scenario and client, one a round."""

    runs: dict[tuple[str, str], list[ClientMeasured]] = field(default_factory=dict)

    def median(self, scenario: str, client: str, figure: Callable[[ClientMeasured], float]) -> float:
        return statistics.median(map(figure, self.runs[scenario, client]))


def run(bench: Bench) -> ClientDuel:
    """Every scenario with every client."""
    sizes = bench.pick(Sizes(), QUICK)
    duel = ClientDuel()
    with ExitStack() as stack:
        server = stack.enter_context(Server(ottla_kind(), Path(bench.temp_dir())))
        server.start()
        contents = {
            "100 B": ("small", sizes.consumed, 100, "none"),
            "1 KiB": ("large", sizes.consumed_large, 1024, "none"),
            "100 B, zstd": ("packed", sizes.consumed, 100, "zstd"),
            "100 B, lz4": ("packed-lz4", sizes.consumed, 100, "lz4"),
        }
        for topic, count, size, codec in contents.values():
            fill(server.address, topic, PARTITION_COUNT, count, size, codec)
        for what, size in (("100 B", 100), ("1 KiB", 1024)):
            count = sizes.produced if size == 100 else sizes.produced // 3
            for round_ in range(sizes.rounds):
                for client in _turn((*CLIENTS, ARROW), round_):
                    topic = f"produced-{size}-{client}-{round_}"
                    fill(server.address, topic, PARTITION_COUNT, 0, size, "none")
                    job = ClientJob("produce", server.address, topic, PARTITION_COUNT, _count(count, client), size)
                    _run(duel, f"produce {what}", client, job)
        for what, (topic, count, size, codec) in contents.items():
            clients = (*CLIENTS, ARROW) if codec == "none" else (OURS, CONFLUENT, ARROW)
            for round_ in range(sizes.rounds):
                for client in _turn(clients, round_):
                    wanted = _count(count, client) * (COLUMNS_READ_AGAIN if client == ARROW else 1)
                    job = ClientJob("consume", server.address, topic, PARTITION_COUNT, wanted, size, codec, count)
                    _run(duel, f"consume {what}", client, job)
        for round_ in range(sizes.rounds):
            for client in _turn(CLIENTS, round_):
                topic = f"round-trip-{client}-{round_}"
                fill(server.address, topic, 1, 0, 100, "none")
                trips = ClientJob("round_trip", server.address, topic, 1, sizes.round_trips, 100)
                _run(duel, "round trip", client, trips)
                _run(duel, "first record", client, ClientJob("first_record", server.address, topic, 1, 1, 100))
    return duel


def _count(count: int, client: str) -> int:
    return max(1, int(count * PACE[client]))


def _turn(clients: tuple[str, ...], round_: int) -> tuple[str, ...]:
    start = round_ % len(clients)
    return clients[start:] + clients[:start]


def _run(duel: ClientDuel, scenario: str, client: str, job: ClientJob) -> None:
    measured = run_client(client, job)
    duel.runs.setdefault((scenario, client), []).append(measured)
    print(
        f"  {scenario:>20} {NAMES[client]:<16} {measured.per_s:12,.0f} /s, {measured.cpu_s:6.2f} CPU-s, "
        f"{measured.memory_bytes / 1e6:6.0f} MB",
        file=sys.stderr,
        flush=True,
    )

"""One run of both brokers with groups and transactions, side by side and in turns, as `duel` does it for records.

`python -m benchmarks.rivals.group_duel [SCENARIO ...]` prints the figures of some scenarios, for work on one of them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.harness import Bench, opened
from benchmarks.rivals import members, transactions
from benchmarks.rivals.duel import rivals
from benchmarks.rivals.server import Server


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    rounds: int = 3
    stable_groups: int = 40
    large_members: int = 100
    large_partitions: int = 500
    large_rounds: int = 20
    idle_groups: int = 1000
    idle_s: float = 20.0
    committers: int = 50
    commits: int = 200
    commit_rounds: int = 8
    """Short ones, and more of them: the best of many is found between other work on the machine, and Kafka's compiler
    is still at it after the first 30,000 commits."""
    transactions: int = 400
    offset_groups: int = 1000
    offset_partitions: int = 100
    starts: int = 2
    warm_up_rounds: int = 1
    """They do not count: each scenario has code of its own for Kafka's compiler."""


QUICK = Sizes(1, 2, 5, 10, 1, 3, 0.2, 3, 5, 1, 5, 3, 4, 1, warm_up_rounds=0)


@dataclass(slots=True)
class GroupDuel:
    """What was found, by scenario and broker, one a round."""

    no_rival: str = ""
    runs: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    start_s: dict[str, float] = field(default_factory=dict)
    """From the start of the process until all committed offsets are served."""

    def best(self, scenario: str, figure: Callable[[Any], float], *, highest: bool = False) -> dict[str, float]:
        choose = max if highest else min
        return {name: choose(map(figure, rounds)) for (found, name), rounds in self.runs.items() if found == scenario}


def run(bench: Bench, only: frozenset[str] = frozenset()) -> GroupDuel:
    """Run every scenario, or those named in `only`."""
    sizes = bench.pick(Sizes(), QUICK)
    kinds, no_rival = rivals()
    duel = GroupDuel(no_rival)
    with ExitStack() as stack:
        servers = [stack.enter_context(Server(kind, Path(bench.temp_dir()))) for kind in kinds]
        for server in servers:
            server.start()
        for name, scenario in SCENARIOS.items():
            if only and name not in only:
                continue
            counted = {"idle": 1, "commit": sizes.commit_rounds}.get(name, sizes.rounds)
            for round_ in range(sizes.warm_up_rounds + counted):
                for server in servers if round_ % 2 == 0 else reversed(servers):
                    is_warm_up = round_ < sizes.warm_up_rounds
                    outcome = scenario(server, f"{name}-{round_}", sizes, is_warm_up)
                    if not is_warm_up:
                        duel.runs.setdefault((name, server.name), []).append(outcome)
                    _say(f"{name:>18} {server.name}: {outcome.wall_s:6.2f} s, broker "
                         f"{outcome.broker_cpu_s:6.2f} CPU-s, client {outcome.client_cpu_s:6.2f} CPU-s")  # fmt: skip
    if not only or "start" in only:
        # In directories of their own: what the scenarios above have left behind is not what this row is about.
        for kind in kinds:
            with Server(kind, Path(bench.temp_dir())) as server:
                server.start()
                duel.start_s[server.name] = _start_with_offsets(server, sizes)
    return duel


def _members(kind: str, **sizes: Any) -> Callable[[Server, str, Sizes, bool], members.Outcome]:
    def scenario(server: Server, name: str, all_sizes: Sizes, is_warm_up: bool) -> members.Outcome:
        values = {key: getattr(all_sizes, value) if isinstance(value, str) else value for key, value in sizes.items()}
        job = members.Job(kind, server.address, server.pid, name, **values)
        if is_warm_up and kind == "idle":
            job = replace(job, groups=min(20, job.groups), duration_s=0.2)
        return members.run(job)

    return scenario


def _transactions(server: Server, name: str, sizes: Sizes, is_warm_up: bool) -> transactions.Outcome:
    return transactions.run(transactions.Job(server.address, server.pid, name, sizes.transactions))


SCENARIOS: dict[str, Callable[[Server, str, Sizes, bool], Any]] = {
    "classic-stable": _members("classic_stable", members=3, partitions=6, rounds="stable_groups"),
    "consumer-stable": _members("consumer_stable", members=3, partitions=6, rounds="stable_groups"),
    "classic-rebalance": _members("classic_rebalance", members="large_members", partitions="large_partitions",
                                  rounds="large_rounds"),
    "consumer-rebalance": _members("consumer_rebalance", members="large_members", partitions="large_partitions",
                                   rounds="large_rounds"),
    "commit": _members("commit", members="committers", partitions=6, rounds="commits"),
    "transactions": _transactions,
    "idle": _members("idle", groups="idle_groups", members=5, partitions=6, heartbeat_ms=3000.0, duration_s="idle_s"),
}  # fmt: skip


def _start_with_offsets(server: Server, sizes: Sizes) -> float:
    """Fill, stop, start, and ask for everything; the best of a few starts."""
    job = members.Job("fill", server.address, server.pid, "start", groups=sizes.offset_groups,
                      partitions=sizes.offset_partitions)  # fmt: skip
    members.run(job)
    best = float("inf")
    for _ in range(sizes.starts):
        server.stop()
        started = time.perf_counter()
        server.start()
        members.run(replace(job, kind="fetch_all", pid=server.pid))
        best = min(best, time.perf_counter() - started)
        _say(f"{server.name} serves {sizes.offset_groups * sizes.offset_partitions} offsets after {best:.2f} s")
    return best


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def _main() -> None:
    with opened(quick=False) as bench:
        duel = run(bench, frozenset(sys.argv[1:]))
    print(f"start {duel.start_s}")
    for (scenario, name), rounds in duel.runs.items():
        best = min(rounds, key=lambda one: one.broker_cpu_s)
        print(f"{scenario:>18} {name}: {best.broker_cpu_s / best.count * 1e6:.1f} µs each, {best.wall_s:.2f} s")


if __name__ == "__main__":
    _main()

"""`python -m ottla.sim --seeds 500`: many seeds, side by side; `--seed 8472`: one again, with its trace.

`make sim SEEDS=500` and `make sim SEED=8472` call this. A seed that fails prints the command that replays it. With
`--nodes 3` (`make sim NODES=3 ...`) the seeds are those of clusters.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

from ottla.sim.many import CLUSTER_CHECKS, CLUSTER_FAULTS, run_cluster_seed
from ottla.sim.run import Outcome, run_seed

PROGRESS_S = 5.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ottla.sim", description="Runs a node on virtual time, by seeds.")
    parser.add_argument("--seed", type=int, help="run this one seed and print its trace")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: %(default)s)")
    parser.add_argument("--nodes", type=int, help="run clusters of so many brokers instead of the single node's seeds")
    parser.add_argument("--combined", action="store_true", help="with --nodes: every node is broker and controller")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--stop", action="store_true", help="stop at the first seed that fails")
    parser.add_argument("--lines", type=int, default=120, help="how much of a failing trace to print")
    parser.add_argument("--digests", action="store_true", help="print the digest of every seed's trace")
    options = parser.parse_args(arguments)
    gc.freeze()  # what is imported stays: no need to look through it before every seed
    if options.seed is not None:
        return _replay(options)
    return _run_many(range(options.first, options.first + options.seeds), options)


def _replay(options: argparse.Namespace) -> int:
    outcome = _run(options.seed, options)
    print(outcome.failure or _line(outcome))
    return 1 if outcome.failure else 0


def _run(seed: int, options: argparse.Namespace) -> Outcome:
    if options.nodes is None:
        return run_seed(seed, trace_lines=options.lines)
    return run_cluster_seed(seed, options.nodes, is_combined=options.combined, trace_lines=options.lines)


def _run_many(seeds: range, options: argparse.Namespace) -> int:
    begun = told = time.monotonic()
    failed: list[Outcome] = []
    counts: Counter[str] = Counter()
    if (options.nodes or 0) > 1:  # what never happens is to be seen too
        counts.update(dict.fromkeys([*CLUSTER_CHECKS, *(f"fault: {fault}" for fault in CLUSTER_FAULTS)], 0))
    virtual_ms = step_count = done = 0
    command = "make sim" if options.nodes is None else f"make sim NODES={options.nodes}"
    command += " ARGS=--combined" if options.combined else ""
    for outcome in _outcomes(seeds, options):
        done += 1
        counts.update(outcome.counts)
        virtual_ms += outcome.virtual_ms
        step_count += outcome.step_count
        if options.digests:
            print(f"{outcome.seed} {outcome.digest}")
        if outcome.failure:
            failed.append(outcome)
            print(f"{outcome.failure}\n\nreplay: {command} SEED={outcome.seed}\n", flush=True)
            if options.stop:
                break
        if time.monotonic() - told > PROGRESS_S:
            told = time.monotonic()
            print(f"{done} of {len(seeds)} seeds, {len(failed)} failed, {told - begun:.0f} s", flush=True)
    seconds = time.monotonic() - begun
    print(f"{done} seeds in {seconds:.1f} s: {virtual_ms / 1000:.0f} s of virtual time in {step_count} steps")
    for name, count in sorted(counts.items()):
        print(f"  {count:>10}  {name}")
    for outcome in failed:
        print(f"FAILED {outcome.failure.splitlines()[0][:200] if outcome.failure else ''}")
        print(f"       replay: {command} SEED={outcome.seed}")
    return 1 if failed else 0


def _outcomes(seeds: range, options: argparse.Namespace) -> Iterator[Outcome]:
    """Every seed's outcome, as they come; never more than a few ahead of what is asked for."""
    jobs = options.jobs
    if jobs == 1:
        yield from (_run(seed, options) for seed in seeds)
        return
    waiting = iter(seeds)
    pool = ProcessPoolExecutor(jobs)
    try:
        running: set[Future[Outcome]] = {
            pool.submit(_run, seed, options) for _, seed in zip(range(2 * jobs), waiting, strict=False)
        }
        while running:
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            running |= {pool.submit(_run, seed, options) for _, seed in zip(finished, waiting, strict=False)}
            yield from sorted((future.result() for future in finished), key=lambda outcome: outcome.seed)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _line(outcome: Outcome) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in sorted(outcome.counts.items()))
    return (
        f"seed {outcome.seed} is clean: digest {outcome.digest}, {outcome.virtual_ms / 1000:.1f} s of virtual time, "
        f"{outcome.step_count} steps; {counts}"
    )


if __name__ == "__main__":
    sys.exit(main())

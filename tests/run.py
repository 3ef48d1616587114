"""The test phases of `make test`, in turn: `python -m tests.run unit nodes pipelines [-- pytest's own arguments]`.

A test that fails is run once more, alone. If it passes then, the run goes on, and its end names the test as flaky: a
bug, in the test or in Ottla, that somebody has to find. If it fails again, or if more than `RETRIED_MAX` fail, the run
fails. Called by the Makefile.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

RETRIED_MAX = 20
"""So many failures at once are not flaky tests but a broken build: a second try would only take time."""

ON_THREE_NODES = [
    f"tests/clients/{name}"
    for name in (
        "groups/test_aiokafka_groups.py",
        "groups/test_franz_go.py",
        "groups/test_java_groups.py",
        "groups/test_kafka_python_groups.py",
        "groups/test_kafkajs.py",
        "ours/test_consumer_groups.py",
        "ours/test_share.py",
        "ours/test_transactions.py",
        "test_aiokafka.py",
        "test_confluent.py",
        "test_java_clients.py",
        "test_java_share.py",
        "test_java_tools.py",
        "test_kafka_python.py",
        "test_kcat.py",
        "test_restarts.py",
    )
]
PHASES = {
    # A file stays in one process, so that its Kafka or broker starts once; in the order of their names, because those
    # that take longest (cli, clients, durability) come first then, and none of them is left for the end.
    "unit": ["--dist", "loadfile", "--no-loadscope-reorder", "--ignore", "tests/pipelines"],
    # Once more on three nodes: a stock client of each family, and Kafka's tools. `make soak` has all of tests/clients.
    "nodes": ["--dist", "loadfile", "--no-loadscope-reorder", *ON_THREE_NODES],
    # A Spark serves all tests of a process. A task or a JVM of one waits often enough for two to gain by it.
    "pipelines": ["tests/pipelines", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"],
}
SWITCHES = {"nodes": {"OTTLA_TESTS_NODES": "3"}}
"""What the environment tells a phase's tests."""
SLOWEST = ["--durations", "25", "--durations-min", "5"]
"""A phase ends with the tests that took longest: whoever adds one sees what it costs."""
TESTS_FAILED = 1
"""pytest's exit code where tests ran and some failed; others mean that they could not run."""


@dataclass
class Outcome:
    """How a phase ended: pytest's exit code, and the tests that passed only when they were tried again."""

    phase: str
    exit_code: int
    seconds: float
    flaky: list[str] = field(default_factory=list)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.run", description="Run test phases, failures once more.")
    parser.add_argument("phases", nargs="+", choices=list(PHASES))
    parser.add_argument("--jobs", type=int, default=1, help="processes of the phases without Spark")
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    asked, extra = parser.parse_args(arguments[:cut]), arguments[cut + 1 :]
    outcomes = []
    for phase in asked.phases:
        jobs = ["-n", str(asked.jobs)] if phase in ("unit", "nodes") else []
        outcomes.append(run_phase(phase, [*PHASES[phase], *jobs, *extra]))
        if outcomes[-1].exit_code:
            break
    print(report(outcomes), flush=True)
    return outcomes[-1].exit_code


def run_phase(phase: str, arguments: Sequence[str]) -> Outcome:
    """Run pytest with these arguments, and what failed once more, alone."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        first, second = Path(directory) / "first.txt", Path(directory) / "second.txt"
        exit_code = _pytest(phase, [*SLOWEST, *arguments, "--failed-to", str(first)])
        failed, flaky = _lines(first), []
        if exit_code == TESTS_FAILED and 0 < len(failed) <= RETRIED_MAX:
            print(f"A second try, alone, of the {len(failed)} that failed above:", flush=True)
            exit_code = _pytest(phase, [f"@{first}", "--failed-to", str(second)])
            flaky = [test for test in failed if test not in _lines(second)] if exit_code in (0, TESTS_FAILED) else []
    return Outcome(phase, exit_code, time.monotonic() - began, flaky)


def report(outcomes: Sequence[Outcome]) -> str:
    """What `make test` prints at the very end."""
    lines = []
    for one in outcomes:
        minutes, seconds = divmod(round(one.seconds), 60)
        verdict = "passed" if one.exit_code == 0 else f"FAILED (pytest's exit code {one.exit_code})"
        lines.append(f"{one.phase:<10} {minutes:>3} min {seconds:02} s  {verdict}")
    flaky = [test for one in outcomes for test in one.flaky]
    lines.append(f"flaky tests: {len(flaky) or 'none'}")
    lines.extend(f"  FLAKY {test}: failed, and passed on its second try; find out why" for test in flaky)
    return "\n".join(lines)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _pytest(phase: str, arguments: Sequence[str]) -> int:
    command = [sys.executable, "-m", "pytest", "-p", "tests.failures", *arguments]
    return subprocess.run(command, env={**os.environ, **SWITCHES.get(phase, {})}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

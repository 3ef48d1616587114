"""Seeds of the simulator: each is a node, its clients and its troubles, and nothing that was promised may be broken.

A failure prints the command that replays it: `make sim SEED=8472`. `make sim SEEDS=500` runs many.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ottla.sim.run import run_seed
from ottla.sim.scenario import FAULTS, MILD_FAULTS, POWER_FAULTS, WORKER_FAULTS, make_scenario

SEEDS = range(500 if os.environ.get("OTTLA_SOAK") else 24)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_was_promised_is_broken(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.failure is None, f"{outcome.failure}\n\nreplay: make sim SEED={seed}"
    assert outcome.counts.get("batches sent", 0) > 0, "a run without records proves nothing"
    groups = make_scenario(seed).groups
    if any(group.is_transactional for group in groups):
        assert outcome.counts.get("copies shown", 0) > 0, "a run without transactions proves nothing"
    if not all(group.is_transactional for group in groups):
        assert outcome.counts.get("offsets committed", 0) > 0, "a run without commits proves nothing"


@pytest.mark.parametrize("more", [[], ["--nodes", "1"]], ids=["single node", "cluster"])
def test_a_seed_replays_exactly_under_any_hash_seed(more: list[str]) -> None:
    """The digest covers every line of the trace: connections, faults, errors, answers, with their virtual times."""
    digests = []
    for hash_seed in ("1", "4242"):
        done = subprocess.run(
            [sys.executable, "-m", "ottla.sim", "--first", "100", "--seeds", "3", "--jobs", "2", "--digests", *more],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=False,
        )
        lines = sorted(line for line in done.stdout.splitlines() if line[:2] == "10" and len(line.split()) == 2)
        assert len(lines) == 3, done.stdout + done.stderr
        digests.append(lines)
    assert digests[0] == digests[1]


def test_different_seeds_are_different_runs() -> None:
    scenarios = [make_scenario(seed) for seed in range(200)]
    assert {fault for scenario in scenarios for fault in scenario.faults} == {*FAULTS, *WORKER_FAULTS}
    assert len({scenario.describe() for scenario in scenarios}) == 200
    assert {scenario.is_synced for scenario in scenarios} == {True, False}
    assert any(scenario.has_follower and scenario.faults == MILD_FAULTS for scenario in scenarios)
    assert any(not scenario.faults for scenario in scenarios)


def test_pipelines_have_groups_of_every_kind_and_lose_nothing_to_power() -> None:
    pipelines = [scenario for scenario in map(make_scenario, range(200)) if scenario.groups]
    assert 60 < len(pipelines) < 140, "about half of the seeds"
    kinds = {(one.has_consumer_protocol, one.is_transactional) for scenario in pipelines for one in scenario.groups}
    assert len(kinds) == 4
    assert {scenario.is_synced for scenario in pipelines} == {True, False}
    for scenario in pipelines:
        assert scenario.is_synced or not set(scenario.faults) & set(POWER_FAULTS), scenario.describe()

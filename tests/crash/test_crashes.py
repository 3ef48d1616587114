"""Crashes at random points of everything a log does, from printed seeds, each judged against the model.

Power cuts and failing devices on a virtual disk; a process that is killed is in `tests/durability`. A failure names its
seed, the crash point, the last operations and the command that replays it. `make soak` runs many more seeds.
"""

from __future__ import annotations

import logging
import os
from collections import Counter

import pytest

from tests.crash import power_loss
from tests.crash.device_errors import DeviceErrors
from tests.crash.power_loss import PowerLoss
from tests.crash.run import Run

SEEDS = 1000 if os.environ.get("OTTLA_SOAK") else 20
"""How many seeds a block has; each dies two to five times."""


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """What is logged here is the damage that was ordered. The level is given back for the tests that follow."""
    caplog.set_level(logging.CRITICAL, "ottla")


def run_block(kind: type[Run], block: int) -> Counter[str]:
    points: Counter[str] = Counter()
    first, last = block * SEEDS, (block + 1) * SEEDS
    for seed in range(first, last):
        points += kind(seed).go()
    print(f"{kind.command}, seeds {first} to {last - 1}: {sum(points.values())} crashes, {dict(points)}")
    assert sum(points.values()) >= 2 * SEEDS
    return points


@pytest.mark.parametrize("block", range(10))
def test_power_cuts_take_nothing_that_was_flushed_and_nothing_torn_is_served(block: int) -> None:
    points = run_block(PowerLoss, block)
    assert {"append", "flush", "roll"} <= set(points), f"not every kind of operation was hit: {points}"


def test_power_cuts_during_compaction_lose_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power_loss, "TARGETS", ("compaction",))
    points = run_block(PowerLoss, 50)
    assert points["compaction"] + points["swap"] >= 2, f"compaction was hardly hit: {points}"


@pytest.mark.parametrize("block", range(2))
def test_a_device_that_fails_takes_its_own_logs_offline_and_nothing_else(block: int) -> None:
    points = run_block(DeviceErrors, block)
    assert points["device"], f"no device failed while it was used: {points}"

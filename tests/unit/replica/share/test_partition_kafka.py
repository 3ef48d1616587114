"""Share partitions beside Kafka's own: the same commands, and the answers, what is stored and the state compared."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.kafka import run_java
from tests.unit.replica.share.scripts import ScriptWriter

pytestmark = pytest.mark.java

ORACLE = Path(__file__).parents[3] / "support" / "SharePartitionOracle.java"
SCRIPT_COUNT = 400 if os.environ.get("OTTLA_SOAK") else 25


def test_random_commands_lead_to_the_state_that_kafka_comes_to() -> None:
    """Acquisition in both modes, acknowledgements of all kinds, time-outs, writes that fail or wait, deleted records,
    and states restored with gaps."""
    commands: list[str] = []
    printed: list[str] = []
    for seed in range(SCRIPT_COUNT):
        script = ScriptWriter(seed)
        script.write(80)
        commands += script.commands
        printed += script.printed
    done = run_java(str(ORACLE), [], stdin="".join(f"{line}\n" for line in commands))
    expected = done.stdout.splitlines()
    for place, (ours, kafkas) in enumerate(zip(printed, expected, strict=False)):
        assert ours == kafkas, "\n".join(expected[max(0, place - 12) : place + 2])
    assert done.returncode == 0, done.stderr
    assert len(printed) == len(expected)

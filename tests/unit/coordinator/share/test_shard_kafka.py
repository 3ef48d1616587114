"""The share coordinator's shard beside Kafka's own: the same commands, and the answers and records compared."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.kafka import run_java
from tests.unit.coordinator.share.scripts import TOPIC_ID, SharePlay, random_script

pytestmark = pytest.mark.java

ORACLE = Path(__file__).parents[3] / "support" / "ShareStateOracle.java"
SCRIPT_COUNT = 300 if os.environ.get("OTTLA_SOAK") else 25


def test_random_commands_are_answered_and_written_as_kafka_does() -> None:
    """Snapshots are due after a few updates, and cold ones after two seconds, so that both are common."""
    scripts: list[str] = []
    printed: list[str] = []
    for seed in range(SCRIPT_COUNT):
        updates, interval_ms = str(seed % 7), "2000"
        play = SharePlay(updates, interval_ms)
        begin = f"begin {play.node.world.clock.now_ms()} {updates} {interval_ms} {TOPIC_ID}"
        script = random_script(seed, 120)
        scripts += [begin, *script]
        printed.append(f"> {begin}")
        for place, line in enumerate(script):
            if place % 50 == 49:
                play.restart()  # nothing may come of it: the log has everything
            printed += [f"> {line}", *play.execute(line)]
    done = run_java(str(ORACLE), [], stdin="".join(f"{line}\n" for line in scripts))
    assert done.returncode == 0, done.stderr
    expected = done.stdout.splitlines()
    assert sum(line.startswith("error 0") for line in expected) > 50 * SCRIPT_COUNT
    for place, (ours, kafkas) in enumerate(zip(printed, expected, strict=False)):
        assert ours == kafkas, "\n".join(expected[max(0, place - 6) : place + 3])
    assert len(printed) == len(expected)

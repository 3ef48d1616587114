"""Ottla's assignors and topic hashes beside Kafka's own, on random groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kafka import run_java
from tests.unit.coordinator.group.assignors.scripts import Play, hash_script, script

ORACLE = Path(__file__).parents[4] / "support" / "AssignorOracle.java"
SCRIPTS = 300
HASH_SCRIPTS = 30


@pytest.mark.java
def test_assignments_and_topic_hashes_are_kafkas_byte_for_byte(tmp_path: Path) -> None:
    scripts = [script(seed) for seed in range(SCRIPTS)] + [hash_script(seed) for seed in range(HASH_SCRIPTS)]
    commands = [command for one in scripts for command in one]
    (tmp_path / "commands").write_text("\n".join(commands), encoding="utf-8")
    ran = run_java(str(ORACLE), [str(tmp_path / "commands"), str(tmp_path / "answers")])
    assert ran.returncode == 0, ran.stderr
    answers = iter((tmp_path / "answers").read_text(encoding="utf-8").splitlines())
    for one in scripts:
        ours = Play().run(one)
        kafkas = [next(answers) for _ in ours]
        assert ours == kafkas, "\n".join(one)
    assert next(answers, None) is None, "Kafka answered more than was asked"

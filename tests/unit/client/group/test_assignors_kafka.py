"""Ottla's client-side assignors beside Kafka's own, on groups that go through random rebalances."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kafka import run_java
from tests.unit.client.group.assignor_scripts import script

ORACLE = Path(__file__).parent / "ClientAssignors.java"
SCRIPTS = 200


def gives_unwanted(answer: str, topics: dict[str, list[str]]) -> bool:
    """Whether a member is given a partition of a topic that it did not subscribe to."""
    given = (one.split("=") for one in answer.split(" "))
    return any(
        partition.rpartition("-")[0] not in topics[member]
        for member, partitions in given
        for partition in filter(None, partitions.split(","))
    )


@pytest.mark.java
def test_assignments_are_kafkas_but_for_those_that_kafka_gets_wrong(tmp_path: Path) -> None:
    """A partition may go back to who had it in an older generation; Kafka does not look whether it still subscribes."""
    scripts = [script(seed) for seed in range(SCRIPTS)]
    commands = [command for one, _ in scripts for command in one]
    (tmp_path / "commands").write_text("\n".join(commands), encoding="utf-8")
    ran = run_java(str(ORACLE), [str(tmp_path / "commands"), str(tmp_path / "answers")])
    assert ran.returncode == 0, ran.stderr
    kafkas = iter((tmp_path / "answers").read_text(encoding="utf-8").splitlines())
    wrong = 0
    for seed, (one, answers) in enumerate(scripts):
        ours = iter(answers)
        topics: dict[str, list[str]] = {}
        for command in one:
            words = command.split(" ")
            if words[0] == "new":
                topics = {}
            elif words[0] == "member":
                topics[words[1]] = words[5].split(",")
            elif words[0] == "assign":
                our, kafka = next(ours), next(kafkas)
                assert not gives_unwanted(our, topics), f"seed {seed}: {our}"
                if kafka == "fails" or gives_unwanted(kafka, topics):
                    wrong += 1
                else:
                    assert our == kafka, f"seed {seed}: {command}"
    assert next(kafkas, None) is None, "Kafka answered more than was asked"
    assert wrong < SCRIPTS // 10, "what is passed over is the exception"

"""`ottla/coordinator/group/streams/assignor.py`, held against Kafka's own assignor, and by hand."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from ottla.coordinator.group.streams.assignor import MemberSpec, SubtopologySpec, assign
from ottla.coordinator.group.streams.tasks import NO_TASKS, Tasks
from tests.support.kafka import run_java

ORACLE = Path(__file__).parents[4] / "support" / "StreamsAssignorOracle.java"
GROUPS = 200
ROUNDS = 5
"""How often each group changes and is assigned again, from what it had."""


class RandomGroup:
    """A group whose members and processes come and go."""

    def __init__(self, random: random.Random) -> None:
        self.random = random
        self.subtopologies = {
            str(id): SubtopologySpec(random.choice((1, 2, 3, 6, 10)), random.random() < 0.6)
            for id in range(random.randint(1, 4))
        }
        self.members: dict[str, MemberSpec] = {}
        self.standby_replicas = random.randint(0, 2)
        for _ in range(random.randint(1, 8)):
            self.join()

    def join(self) -> None:
        processes = [member.process_id for member in self.members.values()]
        is_new_process = not processes or self.random.random() < 0.5
        process = self._name() if is_new_process else self.random.choice(processes)
        self.members[self._name()] = MemberSpec(process, NO_TASKS)

    def _name(self) -> str:
        return f"{self.random.getrandbits(64):016x}"

    def change(self, assigned: dict[str, Tasks]) -> None:
        self.members = {id: MemberSpec(member.process_id, assigned[id]) for id, member in self.members.items()}
        if self.random.random() < 0.5 and len(self.members) > 1:
            del self.members[self.random.choice(list(self.members))]
        for _ in range(self.random.randint(0, 3)):
            self.join()
        if self.random.random() < 0.2:
            self.standby_replicas = self.random.randint(0, 2)

    def assigned(self) -> dict[str, Tasks]:
        return assign(self.members, self.subtopologies, standby_replicas=self.standby_replicas)

    def line(self) -> str:
        members = [
            {"id": id, "process": process, "active": _json(tasks.active), "standby": _json(tasks.standby)}
            for id, (process, tasks) in ((id, (one.process_id, one.tasks)) for id, one in self.members.items())
        ]
        subtopologies = {
            id: {"tasks": one.task_count, "stateful": one.is_stateful} for id, one in self.subtopologies.items()
        }
        return json.dumps({"members": members, "subtopologies": subtopologies, "standbys": self.standby_replicas})


def _json(tasks: Any) -> dict[str, list[int]]:
    return {id: sorted(partitions) for id, partitions in tasks.items()}


@pytest.mark.java
def test_random_groups_are_assigned_as_kafka_assigns_them_again_and_again() -> None:
    lines: list[str] = []
    found: list[dict[str, list[dict[str, list[int]]]]] = []
    for seed in range(GROUPS):
        group = RandomGroup(random.Random(seed))
        for _ in range(ROUNDS):
            lines.append(group.line())
            assigned = group.assigned()
            found.append({id: [_json(tasks.active), _json(tasks.standby)] for id, tasks in sorted(assigned.items())})
            group.change(assigned)
    oracle = run_java(str(ORACLE), [], stdin="\n".join(lines) + "\n")
    assert oracle.returncode == 0, oracle.stderr
    expected = [json.loads(line) for line in oracle.stdout.splitlines()]
    assert len(expected) == len(found) == GROUPS * ROUNDS
    for line, ours, theirs in zip(lines, found, expected, strict=True):
        assert ours == theirs, line


def test_every_task_has_one_active_member_and_a_process_has_a_task_once() -> None:
    for seed in range(100):
        group = RandomGroup(random.Random(seed))
        for _ in range(ROUNDS):
            assigned = group.assigned()
            active = [(id, one) for tasks in assigned.values() for id, parts in tasks.active.items() for one in parts]
            wanted = [(id, one) for id, spec in group.subtopologies.items() for one in range(spec.task_count)]
            assert sorted(active) == sorted(wanted)
            by_process = [
                (group.members[member].process_id, id, one)
                for member, tasks in assigned.items()
                for role in (tasks.active, tasks.standby)
                for id, parts in role.items()
                for one in parts
            ]
            assert len(by_process) == len(set(by_process))
            group.change(assigned)


def test_members_that_stay_keep_their_tasks_when_another_joins() -> None:
    topology = {"0": SubtopologySpec(6, is_stateful=True)}
    first = assign({"a": MemberSpec("p1", NO_TASKS), "b": MemberSpec("p2", NO_TASKS)}, topology, standby_replicas=0)
    assert [len(tasks.active["0"]) for tasks in first.values()] == [3, 3]
    members = {"a": MemberSpec("p1", first["a"]), "b": MemberSpec("p2", first["b"]), "c": MemberSpec("p3", NO_TASKS)}
    second = assign(members, topology, standby_replicas=0)
    assert second["a"].active["0"] < first["a"].active["0"]
    assert second["b"].active["0"] < first["b"].active["0"]
    assert len(second["c"].active["0"]) == 2


def test_an_active_task_moves_to_where_it_stood_by() -> None:
    topology = {"0": SubtopologySpec(2, is_stateful=True)}
    members = {"a": MemberSpec("p1", NO_TASKS), "b": MemberSpec("p2", NO_TASKS)}
    first = assign(members, topology, standby_replicas=1)
    left = assign({"b": MemberSpec("p2", first["b"])}, topology, standby_replicas=1)
    assert left["b"].active == {"0": frozenset({0, 1})}
    assert left["b"].standby == {}


def test_a_large_group_is_assigned_in_milliseconds() -> None:
    topology = {str(id): SubtopologySpec(100, is_stateful=True) for id in range(5)}
    members = {f"member-{index}": MemberSpec(f"process-{index // 4}", NO_TASKS) for index in range(100)}
    begun = time.perf_counter()
    first = assign(members, topology, standby_replicas=1)
    assign({id: MemberSpec(members[id].process_id, first[id]) for id in members}, topology, standby_replicas=1)
    assert time.perf_counter() - begun < 2

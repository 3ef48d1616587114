"""The tasks of a member: which partitions of which subtopologies it works on, stands by for, or warms up.

`Tasks` is what a member should have or says that it has; `AssignedTasks` what the coordinator has given it, with the
epoch in which each active task was given, so that commits of an earlier epoch are told from a zombie's (KIP-1071).
Both are values. Called by everything in this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

TaskMap: TypeAlias = Mapping[str, frozenset[int]]
"""The partitions of each subtopology."""
EpochMap: TypeAlias = Mapping[str, Mapping[int, int]]
"""The partitions of each subtopology, with the epoch in which they were assigned."""


class TaskIds(Protocol):
    """The tasks of one subtopology, as several messages and records write them."""

    subtopology_id: str
    partitions: list[int]


class TaskIdsWithEpochs(TaskIds, Protocol):
    assignment_epochs: list[int] | None


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks without a history."""

    active: TaskMap = field(default_factory=dict)
    standby: TaskMap = field(default_factory=dict)
    warmup: TaskMap = field(default_factory=dict)

    @classmethod
    def owned(cls, request: StreamsGroupHeartbeatRequest) -> Tasks | None:
        """What a member says it has; None when it says nothing, because nothing has changed."""
        if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
            return None
        return cls(task_map(request.active_tasks), task_map(request.standby_tasks), task_map(request.warmup_tasks))

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def overlaps(self, other: AssignedTasks) -> bool:
        """Whether a task is in both, in the same role."""
        return (
            any(not partitions.isdisjoint(other.active.get(id, ())) for id, partitions in self.active.items())
            or any(not partitions.isdisjoint(other.standby.get(id, ())) for id, partitions in self.standby.items())
            or any(not partitions.isdisjoint(other.warmup.get(id, ())) for id, partitions in self.warmup.items())
        )

    def is_within(self, assigned: AssignedTasks) -> bool:
        """Whether every task of these was assigned in the same role."""
        return (
            all(id in assigned.active and partitions <= assigned.active[id].keys()
                for id, partitions in self.active.items())
            and all(id in assigned.standby and partitions <= assigned.standby[id]
                    for id, partitions in self.standby.items())
            and all(id in assigned.warmup and partitions <= assigned.warmup[id]
                    for id, partitions in self.warmup.items())
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class AssignedTasks:
    """Tasks that a member was given; an active one with the epoch in which that was."""

    active: EpochMap = field(default_factory=dict)
    standby: TaskMap = field(default_factory=dict)
    warmup: TaskMap = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def merge(self, other: AssignedTasks) -> AssignedTasks:
        """The tasks of both; the other's epochs count."""
        active = {id: dict(epochs) for id, epochs in self.active.items()}
        for id, epochs in other.active.items():
            active.setdefault(id, {}).update(epochs)
        return AssignedTasks(active, _union(self.standby, other.standby), _union(self.warmup, other.warmup))

    def __str__(self) -> str:
        """As Kafka's log lines show it."""
        active = ", ".join(
            f"{id}-{partition}@{self.active[id][partition]}"
            for id in sorted(self.active)
            for partition in sorted(self.active[id])
        )
        return f"(active=[{active}], standby=[{_text(self.standby)}], warmup=[{_text(self.warmup)}])"


NO_TASKS = Tasks()
NOTHING_ASSIGNED = AssignedTasks()


def task_map(task_ids: Iterable[TaskIds]) -> dict[str, frozenset[int]]:
    return {one.subtopology_id: frozenset(one.partitions) for one in task_ids}


def epoch_map(task_ids: Iterable[TaskIdsWithEpochs], member_epoch: int) -> dict[str, dict[int, int]]:
    """Active tasks from a record; one from before there were epochs of assignments has the member's."""
    found = {}
    for one in task_ids:
        epochs = one.assignment_epochs
        if epochs is None or len(epochs) != len(one.partitions):
            epochs = [member_epoch] * len(one.partitions)
        found[one.subtopology_id] = dict(zip(one.partitions, epochs, strict=True))
    return found


def _union(one: TaskMap, other: TaskMap) -> TaskMap:
    merged = dict(one)
    for id, partitions in other.items():
        merged[id] = merged.get(id, frozenset()) | partitions
    return merged


def _text(tasks: TaskMap) -> str:
    return ", ".join(f"{id}-{partition}" for id in sorted(tasks) for partition in sorted(tasks[id]))

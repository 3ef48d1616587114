"""The sticky assignor: which member runs and which stands by for each task of a Streams application.

A task stays where it was while its member is below its share; otherwise it goes where a copy of its state is; otherwise
to the least loaded process, and there to the least loaded member. A process is what has one state directory: two copies
of a task in one process would be of no use, so a standby never goes to a process that has the task.
The results are Kafka's, down to the choice among equals (`HashOrder`, `priority_queue`). Called by `target`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ottla.coordinator.group.assignors import HashOrder, text_hash
from ottla.coordinator.group.streams.priority_queue import PriorityQueue
from ottla.coordinator.group.streams.tasks import Tasks

log = logging.getLogger(__name__)


class Task(NamedTuple):
    """One partition of a subtopology. Sorts by subtopology, then partition."""

    subtopology_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology_id}_{self.partition}"


@dataclass(frozen=True, slots=True)
class SubtopologySpec:
    """What the assignor knows of a subtopology."""

    task_count: int
    is_stateful: bool


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """What the assignor knows of a member: its process, and the tasks it was to have so far."""

    process_id: str
    tasks: Tasks


def assign(
    members: Mapping[str, MemberSpec], subtopologies: Mapping[str, SubtopologySpec], *, standby_replicas: int
) -> dict[str, Tasks]:
    """The tasks of each member, none for some when there are more members than tasks."""
    return _Assignment(members, subtopologies, standby_replicas).run()


class _Member(NamedTuple):
    process: _Process
    id: str


class _Process:
    """One process of the application: its members, and the tasks that they have been given so far."""

    __slots__ = ("_by_load", "active", "load", "standby", "task_count", "task_counts", "tasks")

    def __init__(self) -> None:
        self.load = 0.0
        """Tasks for each member."""
        self.task_count = 0
        self.task_counts: dict[str, int] = {}
        """By member."""
        self.tasks: set[Task] = set()
        self.active: dict[str, list[Task]] = {}
        self.standby: dict[str, list[Task]] = {}
        self._by_load: PriorityQueue[str] | None = None
        """The members, until one is given a task out of turn."""

    def add(self, member_id: str, task: Task, *, is_active: bool) -> int:
        """Give a member a task; returns how many it has now."""
        self._by_load = None
        return self._add(member_id, task, is_active)

    def add_to_least_loaded(self, task: Task, *, is_active: bool) -> int:
        counts = self.task_counts
        if len(counts) == 1:
            return self._add(next(iter(counts)), task, is_active)
        if self._by_load is None:
            self._by_load = PriorityQueue(HashOrder(text_hash, counts), lambda id: counts[id])
        member = self._by_load.poll()
        assert member is not None, "a process has members"
        count = self._add(member, task, is_active)
        self._by_load.add(member)
        return count

    def _add(self, member_id: str, task: Task, is_active: bool) -> int:
        self.tasks.add(task)
        (self.active if is_active else self.standby).setdefault(member_id, []).append(task)
        self.task_counts[member_id] += 1
        self.task_count += 1
        self.load = self.task_count / len(self.task_counts)
        return self.task_counts[member_id]


class _Share:
    """How many tasks a member may have: what is left, over the members that have not had their share, rounded up."""

    __slots__ = ("_members", "_tasks", "per_member")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.per_member = self._share()

    def note(self, count: int) -> None:
        """A member has this many tasks now; when that is its share, the others share the rest."""
        if count == self.per_member:
            self._members -= 1
            self._tasks -= count
            self.per_member = self._share()

    def _share(self) -> int:
        if not self._members:
            return 0
        # What is left can fall below zero, and Java rounds towards zero.
        whole = int(self._tasks / self._members)
        return whole + 1 if self._tasks > whole * self._members else whole


class _Assignment:
    """One run of the assignor."""

    def __init__(
        self, members: Mapping[str, MemberSpec], subtopologies: Mapping[str, SubtopologySpec], standby_replicas: int
    ) -> None:
        self.members = list(HashOrder(text_hash, members))
        self.subtopologies = subtopologies
        self.standby_replicas = standby_replicas
        active_count = sum(one.task_count for one in subtopologies.values())
        standby_count = sum(one.task_count for one in subtopologies.values() if one.is_stateful) * standby_replicas
        self.active_share = _Share(active_count, len(members))
        self.share = _Share(active_count + standby_count, len(members))
        self.processes: dict[str, _Process] = {}
        self.was_active: dict[Task, _Member] = {}
        self.was_standby: dict[Task, list[_Member]] = {}
        for member_id in self.members:
            self._take_in(member_id, members[member_id])

    def _take_in(self, member_id: str, spec: MemberSpec) -> None:
        process = self.processes.setdefault(spec.process_id, _Process())
        process.task_counts[member_id] = 0
        member = _Member(process, member_id)
        for subtopology_id, partitions in spec.tasks.active.items():
            for partition in partitions:
                self.was_active[Task(subtopology_id, partition)] = member
        for subtopology_id, partitions in spec.tasks.standby.items():
            for partition in partitions:
                self.was_standby.setdefault(Task(subtopology_id, partition), []).append(member)

    def run(self) -> dict[str, Tasks]:
        self._assign_active(self._tasks(only_stateful=False))
        if self.standby_replicas > 0:
            self._assign_standby(self._tasks(only_stateful=True))
        active = {id: tasks for process in self.processes.values() for id, tasks in process.active.items()}
        standby = {id: tasks for process in self.processes.values() for id, tasks in process.standby.items()}
        return {id: Tasks(_compact(active.get(id, [])), _compact(standby.get(id, []))) for id in self.members}

    def _tasks(self, *, only_stateful: bool) -> list[Task]:
        return [
            Task(id, partition)
            for id, spec in self.subtopologies.items()
            if spec.is_stateful or not only_stateful
            for partition in range(spec.task_count)
        ]

    def _by_load(self) -> PriorityQueue[_Process]:
        order = HashOrder(text_hash, self.processes, capacity=len(self.members))
        return PriorityQueue((self.processes[id] for id in order), lambda process: process.load)

    # Active tasks

    def _assign_active(self, tasks: list[Task]) -> None:
        tasks.sort(key=_by_partition)
        tasks = [task for task in tasks if not self._stays(self.was_active.get(task), task)]
        tasks = [task for task in tasks if not self._stays(self._least_loaded(self.was_standby.get(task)), task)]
        tasks.sort()
        queue = self._by_load()
        for task in tasks:
            process = queue.poll()
            assert process is not None, f"no process is there for task {task}"
            self._note_active(process.add_to_least_loaded(task, is_active=True))
            queue.add(process)

    def _stays(self, member: _Member | None, task: Task) -> bool:
        """Give an active task to a member that knows it, if that has not had its share."""
        if member is None or member.process.task_counts[member.id] >= self.active_share.per_member:
            return False
        self._note_active(member.process.add(member.id, task, is_active=True))
        return True

    def _note_active(self, count: int) -> None:
        self.active_share.note(count)
        self.share.note(count)

    # Standby tasks

    def _assign_standby(self, tasks: list[Task]) -> None:
        remaining: list[tuple[Task, int]] = []
        for task in sorted(tasks, key=_by_partition, reverse=True):
            for replica in range(self.standby_replicas):
                if not self._stands_by_again(task):
                    remaining.append((task, self.standby_replicas - replica))
                    break
        remaining.sort(key=lambda one: one[0], reverse=True)
        queue = self._by_load()
        for task, count in remaining:
            for replica in range(count):
                if not self._add_standby(queue, task):
                    log.warning(
                        "[StickyTaskAssignor] %d of %d standby copies of task %s found no process: more instances of "
                        "the application are needed for as many copies.",
                        self.standby_replicas - replica, self.standby_replicas, task,
                    )  # fmt: skip
                    break

    def _stands_by_again(self, task: Task) -> bool:
        """Let a member stand by that ran the task or stood by before, if there is one with room."""
        member = self.was_active.get(task)
        if member is not None and task not in member.process.tasks and self._has_room(member):
            self.share.note(member.process.add(member.id, task, is_active=False))
            return True
        member = self._least_loaded(self.was_standby.get(task), task)
        if member is not None and self._has_room(member):
            self.share.note(member.process.add(member.id, task, is_active=False))
            return True
        return False

    def _has_room(self, member: _Member) -> bool:
        return member.process.task_counts[member.id] < self.share.per_member

    def _add_standby(self, queue: PriorityQueue[_Process], task: Task) -> bool:
        """Let the least loaded process stand by that does not have the task."""
        passed: list[_Process] = []
        found = False
        while (process := queue.poll()) is not None:
            passed.append(process)
            if task not in process.tasks:
                self.share.note(process.add_to_least_loaded(task, is_active=False))
                found = True
                break
        for process in reversed(passed):
            queue.add(process)
        return found

    @staticmethod
    def _least_loaded(members: list[_Member] | None, task: Task | None = None) -> _Member | None:
        """The member with the least load, in its process and itself; with a task, one whose process lacks it."""
        if not members:
            return None
        first = candidate = members[0]
        process_load = first.process.load
        load = first.process.task_counts[first.id]
        for member in members[1:]:
            process = member.process
            if process.load < process_load and (task is None or task not in process.tasks):
                count = process.task_counts[member.id]
                if count < load:
                    process_load, load, candidate = process.load, count, member
        # Kafka looks at the first member's process here, whichever the candidate is.
        return candidate if task is None or task not in first.process.tasks else None


def _by_partition(task: Task) -> tuple[int, str]:
    return task.partition, task.subtopology_id


def _compact(tasks: list[Task]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for task in tasks:
        found.setdefault(task.subtopology_id, set()).add(task.partition)
    return {id: frozenset(partitions) for id, partitions in sorted(found.items())}

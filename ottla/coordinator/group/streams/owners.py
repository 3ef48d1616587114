"""`TaskIndex`: which process has which task now, kept up to date as members' assignments are replayed."""

from __future__ import annotations

from typing import TypeAlias

from ottla.coordinator.group.streams.member import StreamsMember
from ottla.coordinator.group.streams.tasks import AssignedTasks, TaskMap
from ottla.machine import UndoDict, UndoLog

Task: TypeAlias = tuple[str, int]
"""The id of a subtopology and a partition."""


class TaskIndex:
    """See the module. A task that a member is to give up counts as its own until it has."""

    __slots__ = ("_active", "_standby", "_warmup")

    def __init__(self, undo: UndoLog) -> None:
        self._active: UndoDict[Task, str] = UndoDict(undo)
        self._standby: UndoDict[Task, frozenset[str]] = UndoDict(undo)
        self._warmup: UndoDict[Task, frozenset[str]] = UndoDict(undo)

    def active_process(self, subtopology_id: str, partition: int) -> str | None:
        return self._active.get((subtopology_id, partition))

    def has_replica(self, subtopology_id: str, partition: int, process_id: str) -> bool:
        """Whether the process stands by for the task or warms it up."""
        task = subtopology_id, partition
        return process_id in self._standby.get(task, ()) or process_id in self._warmup.get(task, ())

    def change(self, old: StreamsMember | None, new: StreamsMember | None) -> None:
        """A member is another now, new, or gone."""
        if old is not None:
            self._remove(old.assigned, old.process_id)
            self._remove(old.pending_revocation, old.process_id)
        if new is not None:
            self._add(new.assigned, new.process_id)
            self._add(new.pending_revocation, new.process_id)

    def _add(self, tasks: AssignedTasks, process_id: str) -> None:
        for id, epochs in tasks.active.items():
            for partition in epochs:
                self._active[id, partition] = process_id
        for index, replicas in ((self._standby, tasks.standby), (self._warmup, tasks.warmup)):
            for task in _each(replicas):
                index[task] = index.get(task, frozenset()) | {process_id}

    def _remove(self, tasks: AssignedTasks, process_id: str) -> None:
        for id, epochs in tasks.active.items():
            for partition in epochs:
                # Another process may have been given the task meanwhile.
                if self._active.get((id, partition)) == process_id:
                    del self._active[id, partition]
        for index, replicas in ((self._standby, tasks.standby), (self._warmup, tasks.warmup)):
            for task in _each(replicas):
                left = index.get(task, frozenset()) - {process_id}
                if left:
                    index[task] = left
                else:
                    index.pop(task, None)


def _each(tasks: TaskMap) -> list[Task]:
    return [(id, partition) for id, partitions in tasks.items() for partition in partitions]

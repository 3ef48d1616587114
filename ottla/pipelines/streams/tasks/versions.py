"""Versioned tables (KIP-889, KIP-914): rows by the time from which they hold, out-of-order changes in their place.

`History` stands behind the table's topic: a change that is older than the history is none, as with Kafka Streams, and
where only a row's newest version counts (joins of tables, grouped tables) one that comes out of order is none either.
`VersionedLookup` is a stream's join with the table as it was at the record's time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ottla.pipelines.streams.tasks.closing import Closing, closing_of
from ottla.pipelines.streams.tasks.entries import Entries
from ottla.pipelines.streams.tasks.joining import RIGHT
from ottla.pipelines.streams.tasks.task import RESULT, Output, Record, Task

VERSIONS = "versions"


@dataclass(frozen=True, slots=True)
class History:
    """What of a topic's changes a versioned table takes. A key's state: the time of its newest version, a while."""

    history_ms: int
    newest_only: bool

    def admitted(self, task: Task, changes: Sequence[tuple[int, str]]) -> list[bool]:
        """Which of a partition's changes are taken, by their times and keys, in order."""
        taken = [self._admit(task, timestamp, key) for timestamp, key in changes]
        if self.newest_only:
            closing = self._closing(task)
            for key in closing.due(task.stream_time):
                state = task.state(key)
                if state is not None and state["at"] + self.history_ms < task.stream_time:
                    task.keep(key, {})  # whatever is older is no change any more
                elif state is not None:
                    closing.opened(key, state["at"] + self.history_ms + 1)
                    task.keep(key, state)
        return taken

    def _admit(self, task: Task, timestamp: int, key: str) -> bool:
        if timestamp < task.stream_time - self.history_ms:
            return False
        task.advance(timestamp)
        if not self.newest_only:
            return True
        state = task.state(key)
        if state is not None and timestamp < state["at"]:
            return False
        task.keep(key, {"at": timestamp})
        self._closing(task).opened(key, timestamp + self.history_ms + 1)
        return True

    def _closing(self, task: Task) -> Closing:
        return closing_of(task, self.history_ms + 1)


@dataclass(frozen=True, slots=True)
class VersionedLookup:
    """A stream (left) that looks into a versioned table (right). A key's state: time -> [row], of a deletion [None].

    A record finds the row that held at its time. Older than the history it finds the newest one, if that held already.
    """

    kind: str
    history_ms: int

    def process(self, task: Task, record: Record) -> None:
        """Changes the table, or joins a record with its row."""
        if record.side == RIGHT:
            if record.key is not None:
                self._change(task, record.key, record)
            return
        if record.value is None or (record.key is None and self.kind == "inner"):
            task.skip(record)
            return
        row = self._row(task, record.key, record.timestamp) if record.key is not None else None
        if row is not None or self.kind == "left":
            task.emit(Output(RESULT, record.key, record.value, row, record.timestamp))

    def finish(self, task: Task) -> None:
        """Forgets the versions that no record can find any more."""
        closing = self._closing(task)
        for key in closing.due(self._oldest(task)):
            state = task.state(key) or {}
            self._forget(task, key, state)
            _keep(task, key, state)

    def _change(self, task: Task, key: str, record: Record) -> None:
        task.advance(record.timestamp)
        state = task.state(key) or {}
        self._versions(task, key, state).put(record.timestamp, [record.value])
        self._forget(task, key, state)
        _keep(task, key, state)

    def _row(self, task: Task, key: str, timestamp: int) -> str | None:
        state = task.state(key)
        if state is None:
            return None
        versions = self._versions(task, key, state)
        if timestamp < self._oldest(task):
            for time, (row,) in versions.back(task.stream_time):
                return row if time <= timestamp else None
        for _, (row,) in versions.back(timestamp):
            return str(row) if row is not None else None
        return None

    def _forget(self, task: Task, key: str, state: dict[str, Any]) -> None:
        """Takes away what held only before the history, and deletions before which nothing is left."""
        versions, oldest = self._versions(task, key, state), self._oldest(task)
        for time, (row,) in versions.back(oldest):
            versions.forget(time - 1 if row is not None else time)
            break
        times = []
        for time, (row,) in versions.span():
            times.append(time)
            if row is None or len(times) > 1:  # the next thing to go is the first version, or this deletion
                self._closing(task).opened(key, time)
                break

    @staticmethod
    def _versions(task: Task, key: str, state: dict[str, Any]) -> Entries:
        return task.entries(key, state, VERSIONS)

    def _oldest(self, task: Task) -> int:
        """The first time of which the history tells: the store goes by the table's own time."""
        return task.stream_time - self.history_ms

    def _closing(self, task: Task) -> Closing:
        return closing_of(task, self.history_ms + 1)


def _keep(task: Task, key: str, state: dict[str, Any]) -> None:
    task.keep(key, {name: versions for name, versions in state.items() if versions})

"""Tumbling and hopping windows of several streams that make one table.

As in Kafka Streams each stream goes by its own time: a window that has closed for one of them may still take another's
records, and is looked up as long as the store shows it. `suppress` goes by the time of all that is given out, and gives
a window again when it changes after its last word. For one stream this would be `windowing.WindowAggregate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.pipelines.streams.tasks.closing import Closing, closing_of
from ottla.pipelines.streams.tasks.gathering import Gathering
from ottla.pipelines.streams.tasks.task import FINAL, LATE, RESULT, Output, Record, Task
from ottla.pipelines.streams.windows import TimeWindows

STORE_TIME = "store time"
"""The greatest start of any window so far, by which the store forgets."""


@dataclass(frozen=True, slots=True)
class CogroupedWindows:
    """One row a key and window. A key's state: window start -> [state, time of its latest record, given out]."""

    gathering: Gathering
    windows: TimeWindows
    updates: bool = True
    finals: bool = False

    def process(self, task: Task, record: Record) -> None:
        """Adds a record to the windows that are open for its stream."""
        if record.key is None:
            task.skip(record)
            return
        close_time = task.observed(record.side, record.timestamp) - self.windows.grace_ms
        starts = [start for start in self.windows.starts(record.timestamp) if self._end(start) > close_time]
        if not starts:
            task.emit(Output(LATE, record.key, None, record.extra, record.timestamp))
            return
        released = task.stream_time - self.windows.grace_ms
        close_time = task.advance(record.timestamp) - self.windows.grace_ms
        key_state = task.state(record.key) or {}
        for start in starts:
            known = key_state.get(str(start))
            if known is not None and not known[2] and self._end(start) <= released:
                known[2] = True
                self._final(task, record.key, start, known)
            is_kept = self._is_kept(task, start)
            state, at, _ = known if known is not None and is_kept else (self.gathering.initial(), record.timestamp, 0)
            state = self.gathering.add(record.key, record.value, state, record.side)
            cell = [state, max(at, record.timestamp), self._end(start) <= close_time]
            if self.updates:
                task.update(record.key, start, self._end(start), self._output(RESULT, record.key, start, cell))
            if cell[2]:
                self._final(task, record.key, start, cell)
            if is_kept:
                key_state[str(start)] = cell
                task.meta[STORE_TIME] = max(task.meta.get(STORE_TIME, -1), start)
                self._closing(task).opened(record.key, self._end(start))
        task.keep(record.key, key_state)

    def finish(self, task: Task) -> None:
        """Gives out what has closed, and forgets what the store does not show any more."""
        close_time = task.stream_time - self.windows.grace_ms
        closing = self._closing(task)
        done: list[tuple[str, int, list[Any]]] = []
        for key in closing.due(close_time):
            key_state = task.state(key) or {}
            for text, cell in list(key_state.items()):
                start = int(text)
                if self._end(start) > close_time:
                    closing.opened(key, self._end(start))
                    continue
                if not cell[2]:
                    cell[2] = True
                    done.append((key, start, cell))
                if self._is_kept(task, start):
                    # By then some window has begun that makes the store forget this one.
                    later = max(close_time + 1, self._end(start) + self.windows.advance_ms)
                    closing.opened(key, later)
                else:
                    del key_state[text]
            task.keep(key, key_state)
        for key, start, cell in sorted(done, key=lambda one: (one[1], one[0])):
            self._final(task, key, start, cell)

    def _final(self, task: Task, key: str, start: int, cell: list[Any]) -> None:
        if self.finals:
            task.emit(self._output(FINAL, key, start, cell))

    def _output(self, kind: int, key: str, start: int, cell: list[Any]) -> Output:
        return Output(kind, key, self.gathering.result(cell[0]), None, cell[1], start, self._end(start))

    def _is_kept(self, task: Task, start: int) -> bool:
        """Whether the store still shows such a window."""
        return self._end(start) + self.windows.grace_ms > int(task.meta.get(STORE_TIME, -1))

    def _end(self, start: int) -> int:
        return start + self.windows.size_ms

    def _closing(self, task: Task) -> Closing:
        return closing_of(task, self.windows.size_ms + self.windows.grace_ms + self.windows.advance_ms)

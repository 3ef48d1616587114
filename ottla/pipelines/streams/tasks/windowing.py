"""Tumbling and hopping windows, by stream time.

A record belongs to every window that covers it and is not closed: whose end is after stream time less the grace period.
`updates` are rows for each change; `finals` are rows that come once, when their window has closed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.pipelines.streams.tasks.closing import Closing, closing_of
from ottla.pipelines.streams.tasks.gathering import Gathering
from ottla.pipelines.streams.tasks.task import FINAL, LATE, RESULT, Output, Record, Task
from ottla.pipelines.streams.windows import TimeWindows


@dataclass(frozen=True, slots=True)
class WindowAggregate:
    """One row a key and window. A key's state: window start -> [state, time of its latest record]."""

    gathering: Gathering
    windows: TimeWindows
    updates: bool = True
    finals: bool = False

    def process(self, task: Task, record: Record) -> None:
        """Adds a record to its windows."""
        if record.key is None:
            task.skip(record)
            return
        close_time = task.advance(record.timestamp) - self.windows.grace_ms
        open_starts = [
            start for start in self.windows.starts(record.timestamp) if start + self.windows.size_ms > close_time
        ]
        if not open_starts:
            task.emit(Output(LATE, record.key, None, record.extra, record.timestamp))
            return
        key_state = task.state(record.key) or {}
        for start in open_starts:
            state, at = key_state.get(str(start)) or (self.gathering.initial(), record.timestamp)
            state, at = self.gathering.add(record.key, record.value, state), max(at, record.timestamp)
            key_state[str(start)] = [state, at]
            end = start + self.windows.size_ms
            if self.updates:
                output = Output(RESULT, record.key, self.gathering.result(state), None, at, start, end)
                task.update(record.key, start, end, output)
        task.keep(record.key, key_state)
        self._closing(task).opened(record.key, min(open_starts) + self.windows.size_ms)

    def finish(self, task: Task) -> None:
        """Gives out and forgets what has closed."""
        close_time = task.stream_time - self.windows.grace_ms
        closing = self._closing(task)
        done: list[Output] = []
        for key in closing.due(close_time):
            key_state = task.state(key) or {}
            for text in list(key_state):
                end = int(text) + self.windows.size_ms
                if end > close_time:
                    closing.opened(key, end)
                    continue
                state, at = key_state.pop(text)
                done.append(Output(FINAL, key, self.gathering.result(state), None, at, int(text), end))
            task.keep(key, key_state)
        if self.finals:
            task.outputs += sorted(done, key=lambda output: (output.end, output.key))

    def _closing(self, task: Task) -> Closing:
        return closing_of(task, self.windows.size_ms + self.windows.grace_ms)

"""Session windows: as long as a key has a record at least every gap, by stream time.

A session is closed when stream time has passed its end by the gap and the grace period; one that closed is not seen any
more, so a record that would have prolonged it begins another if it is not late itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.pipelines.streams.tasks.closing import Closing, closing_of
from ottla.pipelines.streams.tasks.gathering import Gathering
from ottla.pipelines.streams.tasks.task import FINAL, LATE, RESULT, Output, Record, Task
from ottla.pipelines.streams.windows import SessionWindows


@dataclass(frozen=True, slots=True)
class SessionAggregate:
    """One row a key and session. A key's state: `sessions`, a list of [start, end, state]."""

    gathering: Gathering
    windows: SessionWindows
    updates: bool = True
    finals: bool = False

    def process(self, task: Task, record: Record) -> None:
        """Puts a record into the session it falls into, which may make two sessions one."""
        if record.key is None:
            return
        # What the store can still see when the record comes: it has not heard of this record's time yet.
        visible = self._close_time(task)
        time = record.timestamp
        task.advance(time)
        sessions: list[list[Any]] = (task.state(record.key) or {}).get("sessions", [])
        near = [
            session
            for session in sessions
            if session[1] > visible
            and session[1] >= time - self.windows.gap_ms
            and session[0] <= time + self.windows.gap_ms
        ]
        start, end, state = time, time, self.gathering.initial()
        for session in near:
            state = self.gathering.merge(record.key, state, session[2])
            start, end = min(start, session[0]), max(end, session[1])
        if end < self._close_time(task):
            task.emit(Output(LATE, record.key, None, record.extra, time))
            return
        if (start, end) != (time, time):
            for session in near:
                self._change(task, record.key, session, None)
        state = self.gathering.add(record.key, record.value, state)
        merged = [start, end, state]
        task.keep(
            record.key, {"sessions": sorted([s for s in sessions if s not in near] + [merged], key=lambda s: s[:2])}
        )
        self._change(task, record.key, merged, self.gathering.result(state))
        self._closing(task).opened(record.key, end)

    def finish(self, task: Task) -> None:
        """Gives out and forgets what has closed."""
        close_time = self._close_time(task)
        closing = self._closing(task)
        done: list[Output] = []
        for key in closing.due(close_time):
            stay = []
            for session in (task.state(key) or {}).get("sessions", ()):
                if session[1] > close_time:
                    closing.opened(key, session[1])
                    stay.append(session)
                else:
                    done.append(self._output(FINAL, key, session, self.gathering.result(session[2])))
            task.keep(key, {"sessions": stay} if stay else {})
        if self.finals:
            task.outputs += sorted(done, key=lambda output: (output.end, output.key))

    def _change(self, task: Task, key: str, session: list[Any], result: str | None) -> None:
        if self.updates:
            task.update(key, session[0], session[1], self._output(RESULT, key, session, result))

    @staticmethod
    def _output(kind: int, key: str, session: list[Any], result: str | None) -> Output:
        return Output(kind, key, result, None, session[1], session[0], session[1])

    def _closing(self, task: Task) -> Closing:
        return closing_of(task, self.windows.gap_ms + self.windows.grace_ms)

    def _close_time(self, task: Task) -> int:
        return task.stream_time - self.windows.grace_ms - self.windows.gap_ms

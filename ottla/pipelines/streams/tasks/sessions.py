"""Session windows: as long as a key has a record at least every gap, by stream time.

A session is closed when stream time has passed its end by the gap and the grace period; one that closed is not seen any
more, so a record that would have prolonged it begins another if it is not late itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.pipelines.streams.tasks.closing import Closing, closing_of
from ottla.pipelines.streams.tasks.entries import Entries
from ottla.pipelines.streams.tasks.gathering import Gathering
from ottla.pipelines.streams.tasks.task import FINAL, LATE, RESULT, Output, Record, Task
from ottla.pipelines.streams.windows import SessionWindows


@dataclass(frozen=True, slots=True)
class SessionAggregate:
    """One row a key and session. A key's state: `sessions`, as start -> [end, state].

    No two of them overlap, so their ends are in order as their starts are. What closes during a batch is taken out of
    them when the key's next record comes, because a later session may reach over it, and kept as `closed` till the end
    of the batch.
    """

    gathering: Gathering
    windows: SessionWindows
    updates: bool = True
    finals: bool = False

    def process(self, task: Task, record: Record) -> None:
        """Puts a record into the session it falls into, which may make two sessions one."""
        if record.key is None:
            task.skip(record)
            return
        # What the store can still see when the record comes: it has not heard of this record's time yet.
        visible = self._close_time(task.stream_time)
        time = record.timestamp
        # The store goes by what is put into it: of several streams, one may be ahead of another that is late.
        is_alone = self.gathering.streams == 1
        observed = task.advance(time) if is_alone else task.observed(record.side, time)
        key_state = task.state(record.key) or {}
        sessions = self._sessions(task, record.key, key_state)
        self._close(sessions, key_state, visible)
        near = self._near(sessions, time)
        start, end, state = time, time, self.gathering.initial()
        for session in near:
            state = self.gathering.merge(record.key, state, session[2])
            start, end = min(start, session[0]), max(end, session[1])
        if end < self._close_time(observed):
            task.emit(Output(LATE, record.key, None, record.extra, time))
            return
        if (start, end) != (time, time):
            for session in near:
                self._change(task, record.key, session, None)
        task.advance(end)
        state = self.gathering.add(record.key, record.value, state, record.side)
        merged = [start, end, state]
        for session in near:
            sessions.pop(session[0])
        sessions.put(start, merged[1:])
        task.keep(record.key, key_state)
        self._change(task, record.key, merged, self.gathering.result(state))
        self._closing(task).opened(record.key, end)

    def finish(self, task: Task) -> None:
        """Gives out and forgets what has closed."""
        close_time = self._close_time(task.stream_time)
        closing = self._closing(task)
        done: list[Output] = []
        for key in closing.due(close_time):
            key_state = task.state(key) or {}
            sessions = self._sessions(task, key, key_state)
            self._close(sessions, key_state, close_time)
            closed = sorted(key_state.pop("closed", ()), key=lambda session: session[:2])
            done += [self._output(FINAL, key, session, self.gathering.result(session[2])) for session in closed]
            for _, (end, _) in sessions.span():
                closing.opened(key, end)
                break
            task.keep(key, key_state)
        if self.finals:
            task.outputs += sorted(done, key=lambda output: (output.end, output.key))

    @staticmethod
    def _sessions(task: Task, key: str, key_state: dict[str, Any]) -> Entries:
        known = key_state.get("sessions")
        if isinstance(known, list):  # as an earlier version kept them
            key_state["sessions"] = {str(start): [end, state] for start, end, state in known}
        return task.entries(key, key_state, "sessions")

    @staticmethod
    def _close(sessions: Entries, key_state: dict[str, Any], close_time: int) -> None:
        closed = []
        for start, (end, state) in sessions.span():
            if end > close_time:
                break
            closed.append([start, end, state])
        if closed:
            sessions.forget(closed[-1][0])
            key_state.setdefault("closed", []).extend(closed)

    def _near(self, sessions: Entries, time: int) -> list[list[Any]]:
        """The sessions that a record falls into, in order."""
        near: list[list[Any]] = []
        for start, (end, state) in sessions.back(time + self.windows.gap_ms):
            if end < time - self.windows.gap_ms:
                break
            near.insert(0, [start, end, state])
        return near

    def _change(self, task: Task, key: str, session: list[Any], result: str | None) -> None:
        if self.updates:
            task.update(key, session[0], session[1], self._output(RESULT, key, session, result))

    @staticmethod
    def _output(kind: int, key: str, session: list[Any], result: str | None) -> Output:
        return Output(kind, key, result, None, session[1], session[0], session[1])

    def _closing(self, task: Task) -> Closing:
        return closing_of(task, self.windows.gap_ms + self.windows.grace_ms)

    def _close_time(self, observed: int) -> int:
        return observed - self.windows.grace_ms - self.windows.gap_ms

"""Joins of two streams within windows, and of a stream with a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.pipelines.streams.tasks.closing import closing_of
from ottla.pipelines.streams.tasks.task import LATE, RESULT, Output, Record, Task
from ottla.pipelines.streams.windows import JoinWindows

LEFT, RIGHT = 0, 1
SEEN = ("left", "right")
ALONE = ("left alone", "right alone")


@dataclass(frozen=True, slots=True)
class WindowedJoin:
    """Two streams. A key's state: what each side saw, and what of it found no partner yet, as time -> values.

    Both sides share one stream time. A record without a partner is given out alone once stream time has passed its
    window and the grace period; a late partner may still join what the other side remembers.
    """

    windows: JoinWindows
    kind: str

    def process(self, task: Task, record: Record) -> None:
        """Joins a record with the other side's, then remembers it."""
        stream_time = task.advance(record.timestamp)
        if record.timestamp == stream_time:
            task.mark()
        outer = self.kind == "outer" or (self.kind == "left" and record.side == LEFT)
        if record.key is None or record.value is None:
            if record.key is None and record.value is not None and outer:
                self._emit(task, None, record.side, record.value, None, record.timestamp)
            else:
                task.skip(record)
            return
        key_state = task.state(record.key) or {}
        partners = self._partners(task, key_state, record)
        for time, value in partners:
            self._no_longer_alone(task, record, key_state, time, stream_time)
            self._emit(task, record.key, record.side, record.value, value, max(time, record.timestamp))
        if outer and not partners:
            if record.timestamp + self._after(record.side) < stream_time:
                self._emit(task, record.key, record.side, record.value, None, record.timestamp)
            else:
                alone = task.entries(record.key, key_state, ALONE[record.side])
                alone.put(record.timestamp, [*(alone.get(record.timestamp) or ()), record.value])
                closing = closing_of(task, self._retention())
                closing.opened(record.key, record.timestamp + self._waits(record.side))
        self._remember(task, key_state, record)
        task.keep(record.key, key_state)

    def finish(self, task: Task) -> None:
        """Gives out what stayed alone, and forgets what no partner can come for."""
        alone = closing_of(task, self._retention())
        for key in alone.due(task.stream_time - 1):
            key_state = task.state(key) or {}
            for side in (LEFT, RIGHT):
                if ALONE[side] not in key_state:
                    continue
                waiting = task.entries(key, key_state, ALONE[side])
                last = task.stream_time - 1 - self._waits(side)
                for time, values in waiting.span(None, last):
                    for value in values:
                        self._alone(task, key, side, value, time)
                waiting.forget(last)
                for time, _ in waiting.span():
                    alone.opened(key, time + self._waits(side))
                    break
            self._keep(task, key, key_state)
        for name in SEEN:
            # Each side is remembered by its own time: it may stand still while the other goes on.
            seen = closing_of(task, self._retention(), name)
            oldest = task.meta.get(name, -1) - self._retention()
            for key in seen.due(oldest):
                key_state = task.state(key) or {}
                if name in key_state:
                    known = task.entries(key, key_state, name)
                    known.forget(oldest)
                    for time, _ in known.span():
                        seen.opened(key, time)
                        break
                self._keep(task, key, key_state)

    @staticmethod
    def _keep(task: Task, key: str, key_state: dict[str, Any]) -> None:
        task.keep(key, {name: times for name, times in key_state.items() if times})

    def _partners(self, task: Task, key_state: dict[str, Any], record: Record) -> list[tuple[int, str]]:
        other = SEEN[1 - record.side]
        first = max(0, record.timestamp - self._before(record.side), task.meta.get(other, -1) - self._retention() + 1)
        last = record.timestamp + self._after(record.side)
        assert record.key is not None, "what has no key joins nothing"
        if other not in key_state:
            return []
        seen = task.entries(record.key, key_state, other).span(first, last)
        return [(time, value) for time, values in seen for value in values]

    def _no_longer_alone(
        self, task: Task, record: Record, key_state: dict[str, Any], time: int, stream_time: int
    ) -> None:
        """The partner found someone. If its window had closed before, it was alone, and that is said."""
        side = 1 - record.side
        assert record.key is not None, "what has no key joins nothing"
        values = task.entries(record.key, key_state, ALONE[side]).pop(time) or [] if ALONE[side] in key_state else []
        if time + self._waits(side) < stream_time:
            for value in values:
                self._alone(task, record.key, side, value, time)

    def _remember(self, task: Task, key_state: dict[str, Any], record: Record) -> None:
        side = SEEN[record.side]
        task.meta[side] = max(task.meta.get(side, -1), record.timestamp)
        if record.timestamp > task.meta[side] - self._retention():
            assert record.key is not None, "what has no key is not remembered"
            seen = task.entries(record.key, key_state, side)
            seen.put(record.timestamp, [*(seen.get(record.timestamp) or ()), record.value])
            closing_of(task, self._retention(), side).opened(record.key, record.timestamp)
        else:  # it has joined what there is, and nobody that comes will find it: Kafka Streams' store drops it
            task.emit(Output(LATE, record.key, None, None, record.timestamp))

    def _alone(self, task: Task, key: str | None, side: int, value: str, time: int) -> None:
        left, right = (value, None) if side == LEFT else (None, value)
        task.emit_closed(time + self._waits(side), Output(RESULT, key, left, right, time))

    @staticmethod
    def _emit(task: Task, key: str | None, side: int, value: str | None, other: str | None, timestamp: int) -> None:
        left, right = (value, other) if side == LEFT else (other, value)
        task.emit(Output(RESULT, key, left, right, timestamp))

    def _before(self, side: int) -> int:
        return self.windows.before_ms if side == LEFT else self.windows.after_ms

    def _after(self, side: int) -> int:
        return self.windows.after_ms if side == LEFT else self.windows.before_ms

    def _waits(self, side: int) -> int:
        return self._after(side) + self.windows.grace_ms

    def _retention(self) -> int:
        return self.windows.before_ms + self.windows.after_ms + self.windows.grace_ms


@dataclass(frozen=True, slots=True)
class TableLookup:
    """A stream (left) that looks into a table (right) as it is at that record. A key's state: the row."""

    kind: str

    def process(self, task: Task, record: Record) -> None:
        """Changes the table, or joins a record with its row."""
        if record.side == RIGHT:
            if record.key is not None:
                task.keep(record.key, {} if record.value is None else {"row": record.value})
            return
        if record.value is None or (record.key is None and self.kind == "inner"):
            task.skip(record)
            return
        state = task.state(record.key) if record.key is not None else None
        if state is not None or self.kind == "left":
            row = state["row"] if state is not None else None
            task.emit(Output(RESULT, record.key, record.value, row, record.timestamp))

    def finish(self, task: Task) -> None:
        """Nothing closes."""

"""Sliding windows: [t, t + difference] for every set of records of a key that such a window can hold, by stream time.

A window ends at a record (its left window) or begins just after one (its right window, once it holds something). The
rules, corner cases included, are those of Kafka Streams' implementation, because its results are what people compare.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from ottla.pipelines.streams.tasks.closing import Closing, closing_of
from ottla.pipelines.streams.tasks.entries import Entries
from ottla.pipelines.streams.tasks.gathering import Gathering
from ottla.pipelines.streams.tasks.task import FINAL, LATE, RESULT, Output, Record, Task
from ottla.pipelines.streams.windows import SlidingWindows

Cell = list[Any]  # [state, time of the window's latest record, given out]


@dataclass(frozen=True, slots=True)
class SlidingAggregate:
    """One row a key and window. A key's state: `windows`, as start -> [state, latest time, given out]."""

    gathering: Gathering
    windows: SlidingWindows
    updates: bool = True
    finals: bool = False
    suppressed: bool = True
    """Whose last words they are. A window's end belongs to it, but suppress() in Kafka Streams lets it go at its end
    already, a millisecond before `on_window_close` does; a record for that last moment makes it speak again."""

    def process(self, task: Task, record: Record) -> None:
        """Adds a record to the windows that hold it and makes those that only now differ from others."""
        if record.key is None or record.value is None:
            task.skip(record)
            return
        time, size = record.timestamp, self.windows.difference_ms
        released = task.stream_time - self.windows.grace_ms
        is_alone = self.gathering.streams == 1
        observed = task.advance(time) if is_alone else task.observed(record.side, time)
        close_time = observed - self.windows.grace_ms
        if time + size < close_time:
            task.emit(Output(LATE, record.key, None, record.extra, time))
            return
        task.advance(time)
        key_state = task.state(record.key) or {}
        windows = self._windows(task, record.key, key_state)
        oldest = max(0, time - 2 * size, task.stream_time - self._retention() + 1)
        cells: dict[int, Cell] = dict(windows.span(oldest, time + 1))
        page = _Page(self, task, record, close_time, released, windows)
        if time < size:
            self._early(page, cells)
        else:
            self._usual(page, cells)
        task.keep(record.key, key_state)

    def _usual(self, page: _Page, cells: dict[int, Cell]) -> None:
        time, size = page.record.timestamp, self.windows.difference_ms
        before: Cell | None = None  # the window nearest before this record's left one
        after: Cell | None = None  # what this record's right window would hold
        previous: int | None = None  # the time of the record before this one
        for start in sorted(cells, reverse=True):
            cell, end = cells[start], start + size
            if start == time + 1:
                continue
            if end > time:
                after = after or list(cell)
                page.add(start, cell)
            elif end == time:
                latest = cell[1]
                page.add(start, cell)
                if latest >= time:
                    return  # a record of this very time made all its windows
                previous = latest
            else:
                before, previous = cell, cell[1]
                break
        if previous is not None and previous + 1 not in cells and previous + 1 + size >= time:
            page.add(previous + 1, [self.gathering.initial(), time, False])
        if time - size not in cells:
            holds = previous is not None and before is not None and time - size <= previous
            state = before[0] if holds and before is not None else self.gathering.initial()
            page.add(time - size, [state, time, False])
        if time + 1 not in cells and after is not None and after[1] > time:
            page.put(time + 1, [after[0], after[1], False])

    def _early(self, page: _Page, cells: dict[int, Cell]) -> None:
        """Records before the first whole window share [0, difference]: no window begins before time 0."""
        time = page.record.timestamp
        after: Cell | None = None
        combined = list(cells[0]) if 0 in cells else None
        for start in sorted(cells):
            if 0 < start <= time:
                after = list(cells[start])
                page.add(start, cells[start])
        if after is None and combined is not None and combined[1] > time:
            after = combined
        if time + 1 not in cells and after is not None and after[1] > time:
            page.put(time + 1, [after[0], after[1], False])
        if combined is not None and combined[1] < time and combined[1] + 1 not in cells:
            page.add(combined[1] + 1, [self.gathering.initial(), time, False])
        page.add(0, cells.get(0) or [self.gathering.initial(), time, False])

    def finish(self, task: Task) -> None:
        """Gives out what has closed, and forgets what no later record can need."""
        close_time = task.stream_time - self.windows.grace_ms
        closing = self.closing(task)
        last_end = close_time if self.suppressed else close_time - 1
        done: list[Output] = []
        # What ends before the last batch's last end was given out by it, and takes no record since, but of a stream
        # that is behind another, or with another grace period.
        first_start: int | None = min(task.began_at - self.windows.grace_ms - 1, last_end) - self.windows.difference_ms
        if self.gathering.streams > 1 or closing.is_cut_anew:
            first_start = None
        last_start = last_end - self.windows.difference_ms
        for key in closing.due(last_end):
            key_state = task.state(key) or {}
            windows = self._windows(task, key, key_state)
            for start, cell in windows.span(first_start, last_start):
                end = start + self.windows.difference_ms
                if not cell[2]:
                    done.append(Output(FINAL, key, self.gathering.result(cell[0]), None, cell[1], start, end))
                    windows.put(start, [*cell[:2], True])
            windows.forget(min(task.stream_time - self._retention(), last_start))
            for start, _ in windows.span(None, last_start):
                closing.opened(key, start + 2 * self.windows.difference_ms)
                break
            for start, _ in windows.span(last_start + 1):
                closing.opened(key, start + self.windows.difference_ms)
                break
            task.keep(key, key_state)
        if self.finals:
            task.outputs += sorted(done, key=lambda output: (output.end, output.key))

    @staticmethod
    def _windows(task: Task, key: str, key_state: dict[str, Any]) -> Entries:
        if key_state and "windows" not in key_state:  # an earlier version had nothing but windows
            earlier = dict(key_state)
            key_state.clear()
            key_state["windows"] = earlier
        return task.entries(key, key_state, "windows")

    def closing(self, task: Task) -> Closing:
        """When windows close and are forgotten."""
        return closing_of(task, self._retention())

    def _retention(self) -> int:
        return 2 * self.windows.difference_ms + self.windows.grace_ms


@dataclass(frozen=True, slots=True)
class _Page:
    """One record at the windows of its key."""

    operator: SlidingAggregate
    task: Task
    record: Record
    close_time: int
    released: int
    windows: Entries

    def add(self, start: int, cell: Cell) -> None:
        """The record goes into a window, unless the window has closed."""
        assert self.record.key is not None
        if start + self.operator.windows.difference_ms >= self.close_time:
            # Windows begin with each other's state, and a function may put its values into what it is given.
            own = deepcopy(cell[0])
            state = self.operator.gathering.add(self.record.key, self.record.value, own, self.record.side)
            self.put(start, [state, max(cell[1], self.record.timestamp), False])

    def put(self, start: int, cell: Cell) -> None:
        """A window as it is now."""
        assert self.record.key is not None
        end = start + self.operator.windows.difference_ms
        old = self.windows.get(start)
        if (
            old is not None
            and not old[2]
            and self.operator.finals
            and self.operator.suppressed
            and end <= self.released
        ):
            said = self.operator.gathering.result(old[0])
            self.task.emit(Output(FINAL, self.record.key, said, None, old[1], start, end))
        self.windows.put(start, cell)
        self.operator.closing(self.task).opened(self.record.key, end)
        if self.operator.updates:
            result = self.operator.gathering.result(cell[0])
            self.task.update(
                self.record.key, start, end, Output(RESULT, self.record.key, result, None, cell[1], start, end)
            )

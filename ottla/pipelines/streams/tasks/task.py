"""A task: the records of one partition, in order, the state they meet, and what comes of them.

Keys and values are JSON text made by Spark, so that state is plain and results return to Spark's types unchanged. State
is a dictionary a key, kept by a `Shelf`.

Promises: a batch reads the keys that its records name and those that have something to close (`closing`), each once
however often it is touched, and writes those that it has changed. What else there is costs nothing.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ottla.pipelines.streams.tasks.entries import Entries

RESULT, LATE, FINAL, SKIPPED = 0, 1, 2, 3
"""A change, a record that came too late, a window's last word, and a record that lacks a key or a value."""


class Record(NamedTuple):
    """One record as a task sees it. `side` is the input it came from: 0 for the left one of a join."""

    side: int
    key: str | None
    value: str | None
    timestamp: int
    extra: str | None = None


class Output(NamedTuple):
    """One record that a task gives out. `start` and `end` are a window's; the versions put answers in order.

    A foreign-key join's outputs have kinds of their own, and in `start` since when there is a subscription.
    """

    kind: int
    key: str | None
    value: str | None
    other: str | None
    timestamp: int
    start: int | None = None
    end: int | None = None
    version: int | None = None
    other_version: int | None = None


class Index(Protocol):
    """Something beside the keys' states that is kept on the shelf."""

    def save(self) -> None:
        """The batch is over."""


class Shelf(Protocol):
    """Where a task's state lies between batches: text by text."""

    def get(self, key: str) -> str | None: ...
    def put(self, key: str, value: str) -> None: ...
    def delete(self, key: str) -> None: ...
    def items(self) -> Iterator[tuple[str, str]]: ...


META = ""
"""The shelf's place for what belongs to the whole task. No key is empty text: keys are JSON objects."""
DUE = "due"
"""In a key's stored state: when it is to be looked at, by the clock's name. Operators do not see it."""


@dataclass(slots=True)
class Task:
    """The state of one task while it works on one batch."""

    shelf: Shelf
    meta: dict[str, Any] = field(default_factory=dict)
    outputs: list[Output] = field(default_factory=list)
    updates: dict[tuple[str, int | None, int | None], Output] = field(default_factory=dict)
    _advances: list[tuple[int, int]] = field(default_factory=list)
    _closed: list[tuple[int, int, Output]] = field(default_factory=list)
    _open: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    _changed: set[str] = field(default_factory=set)
    _due: dict[str, dict[str, int]] = field(default_factory=dict)
    indexes: dict[str, Index] = field(default_factory=dict)
    began_at: int = field(init=False)
    """Stream time when the batch began."""

    def __post_init__(self) -> None:
        self.began_at = self.stream_time

    @classmethod
    def load(cls, shelf: Shelf) -> Task:
        """A task with what it knew at the end of its last batch."""
        meta = shelf.get(META)
        return cls(shelf, json.loads(meta) if meta is not None else {})

    @property
    def stream_time(self) -> int:
        """The greatest time of any record so far, -1 before the first."""
        return int(self.meta.get("stream_time", -1))

    def advance(self, timestamp: int) -> int:
        """Stream time after a record of that time."""
        self.meta["stream_time"] = max(self.stream_time, timestamp)
        return self.stream_time

    def observed(self, side: int, timestamp: int) -> int:
        """The time of one of several streams after a record of that time."""
        name = f"side {side}"
        self.meta[name] = max(self.meta.get(name, -1), timestamp)
        return int(self.meta[name])

    def state(self, key: str) -> dict[str, Any] | None:
        """A key's state; None when it has none. Who changes it gives it back to `keep`."""
        if key not in self._open:
            text = self.shelf.get(key)
            state = json.loads(text) if text is not None else None
            self._due[key] = {} if state is None else state.pop(DUE, {})
            self._open[key] = state
        return self._open[key]

    def keep(self, key: str, state: dict[str, Any]) -> None:
        """Gives a key its state; an empty one is no state."""
        if key not in self._due:
            self.state(key)
        self._open[key] = state or None
        self._changed.add(key)

    def entries(self, key: str, state: dict[str, Any], name: str, kind: Callable[[str], Any] = int) -> Entries:
        """The entries of that name in a key's state, where they are until it is saved."""
        found = state.get(name)
        if not isinstance(found, Entries):
            found = state[name] = Entries(self.shelf, key, name, found or {}, kind)
        return found

    def due(self, key: str) -> dict[str, int]:
        """When a key is to be looked at, by the clock's name. Who changes it calls `keep` as well."""
        if key not in self._due:
            self.state(key)
        return self._due[key]

    def emit(self, output: Output) -> None:
        """Gives out a record."""
        self.outputs.append(output)

    def skip(self, record: Record) -> None:
        """The record lacks the key or the value that it needs: it changes nothing, and is counted."""
        self.emit(Output(SKIPPED, None, None, None, record.timestamp))

    def mark(self) -> None:
        """Stream time has come here: what closes by it belongs before what is emitted from now on."""
        self._advances.append((self.stream_time, len(self.outputs)))

    def emit_closed(self, closes: int, output: Output) -> None:
        """Gives out what closed when stream time passed `closes`, at the place of the record that moved it there."""
        index = bisect.bisect_right(self._advances, closes, key=lambda advance: advance[0])
        place = self._advances[index][1] if index < len(self._advances) else len(self.outputs)
        self._closed.append((place, closes, output))

    def update(self, key: str, start: int | None, end: int | None, output: Output) -> None:
        """Gives out a row's change: of several in one batch, the last one, at the last one's place."""
        self.updates.pop((key, start, end), None)
        self.updates[key, start, end] = output

    def save(self) -> list[Output]:
        """Writes state back and returns what the batch gave."""
        for key in self._changed:
            state = _stored(self._open[key] or {})
            if state:
                due = self._due[key]
                self.shelf.put(key, json.dumps({**state, DUE: due} if due else state, separators=(",", ":")))
            else:
                self.shelf.delete(key)
        for index in self.indexes.values():
            index.save()
        self.shelf.put(META, json.dumps(self.meta, separators=(",", ":")))
        return [*self._in_order(), *self.updates.values()]

    def _in_order(self) -> Iterator[Output]:
        """What was emitted, with what closed before it in front of it."""
        start = 0
        for place, _, output in sorted(self._closed, key=lambda closed: (closed[0], closed[1], closed[2].key or "")):
            yield from self.outputs[start:place]
            yield output
            start = place
        yield from self.outputs[start:]


def _stored(state: dict[str, Any]) -> dict[str, Any]:
    """A key's state as the shelf has it: no entries are no state."""
    return {
        name: value.stored() if isinstance(value, Entries) else value
        for name, value in state.items()
        if not isinstance(value, Entries) or value
    }


class Operator(Protocol):
    """A step that remembers."""

    def process(self, task: Task, record: Record) -> None:
        """Takes one record."""

    def finish(self, task: Task) -> None:
        """The batch is over: close what stream time has left behind."""


def run(operator: Operator, shelf: Shelf, records: Iterator[Record] | list[Record]) -> list[Output]:
    """One batch of one task."""
    task = Task.load(shelf)
    for record in records:
        operator.process(task, record)
    operator.finish(task)
    return task.save()

"""Which keys have something that closes, by the time at which it does: so that a batch looks at those and no others.

Times go by a clock: stream time, or the time of one side of a join. They fall into slots, a few hundred over the time
that anything stays open. A slot lies on the shelf as chunks, one for each batch that had something to add to it, so
adding costs what is added; chunks are read when their time has come, and the slot that the clock stands in with every
batch that moves it.

A key is in the index once for each clock, at the earliest time that something of it closes. When an earlier one comes
it is put in again, and the older entry is passed over when its turn comes, because the key's state tells another time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from ottla.pipelines.streams.tasks.task import Task

SLOTS = 256
"""How many slots the time is cut into that something stays open for."""
STREAM_TIME = "stream"
"""The clock that most go by."""
MARK = "closing"
"""How the shelf's names of chunks begin: no key does, because keys are JSON objects."""

Entry = tuple[int, str]
"""When, and which key."""


def closing_of(task: Task, span_ms: int, clock: str = STREAM_TIME) -> Closing:
    """The index of a clock of the task that is at work."""
    found = task.indexes.get(clock)
    if found is None:
        found = task.indexes[clock] = Closing(task, clock, span_ms)
        if clock not in task.meta.setdefault(MARK, {}):
            found.begin()
    return cast("Closing", found)


@dataclass(slots=True)
class Closing:
    """The index of one clock of a task, during one batch. `span_ms` is how long things stay open."""

    task: Task
    clock: str
    span_ms: int
    _added: dict[int, list[Entry]] = field(default_factory=dict)

    @property
    def _width_ms(self) -> int:
        return max(1, self.span_ms // SLOTS)

    @property
    def _slots(self) -> dict[str, int]:
        """How many chunks each slot has, as the task remembers it."""
        slots: dict[str, int] = self.task.meta[MARK][self.clock]
        return slots

    def begin(self) -> None:
        """The first batch of a task. State of a version without an index is looked at whole, this once."""
        self.task.meta[MARK][self.clock] = {}
        for key in [key for key, _ in self.task.shelf.items() if key.startswith("{")]:
            self.opened(key, 0)

    def opened(self, key: str, closes: int) -> None:
        """Something of a key closes when the clock has come to `closes`. The key is kept by whoever opens it."""
        due = self.task.due(key)
        known = due.get(self.clock)
        if known is None or closes < known:
            due[self.clock] = closes
            self._added.setdefault(closes // self._width_ms, []).append((closes, key))

    def due(self, now: int) -> Iterator[str]:
        """The keys of which something may have closed by `now`, in their order. What stays open is `opened` anew."""
        reached = [slot for slot in map(int, self._slots) if slot * self._width_ms <= now]
        reached += [slot for slot in self._added if slot * self._width_ms <= now and str(slot) not in self._slots]
        found: set[Entry] = set()
        for slot in reached:
            entries = self._take(slot)
            found.update(entry for entry in entries if entry[0] <= now)
            later = [entry for entry in entries if entry[0] > now]
            if later:
                self._added[slot] = later
        for closes, key in sorted(found, key=lambda entry: entry[1]):
            due = self.task.due(key)
            if due.get(self.clock) == closes:
                del due[self.clock]
                yield key

    def save(self) -> None:
        """Puts what was added on the shelf."""
        slots = self._slots
        for slot, entries in self._added.items():
            chunk = slots.get(str(slot), 0)
            self.task.shelf.put(self._name(slot, chunk), json.dumps(entries, separators=(",", ":")))
            slots[str(slot)] = chunk + 1
        self._added.clear()

    def _take(self, slot: int) -> list[Entry]:
        """All entries of a slot, which has none then."""
        entries = self._added.pop(slot, [])
        for chunk in range(self._slots.pop(str(slot), 0)):
            name = self._name(slot, chunk)
            text = self.task.shelf.get(name)
            assert text is not None, f"{name} is on the shelf"
            entries += [(closes, key) for closes, key in json.loads(text)]
            self.task.shelf.delete(name)
        return entries

    def _name(self, slot: int, chunk: int) -> str:
        return f"{MARK} {self.clock} {slot} {chunk}"

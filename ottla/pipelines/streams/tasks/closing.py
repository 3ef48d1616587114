"""Which keys have something that closes, by the time at which it does: so that a batch looks at those and no others.

Times go by a clock: stream time, or the time of one side of a join. They fall into slots, a few hundred over the time
that anything stays open. A slot lies on the shelf as chunks, one for each batch that had something to add to it, so
adding costs what is added; chunks are read when the earliest of their entries has come, so keys that close together,
such as those of a tumbling window, are read once and not with every batch that comes near.

A key is in the index once for each clock, at the earliest time that something of it closes. When an earlier one comes
it is put in again, and the older entry is passed over when its turn comes, because the key's state tells another time.

A task remembers how long things stayed open when it cut its slots. Windows, a grace period or a history of another
length cut them anew, once: by slots of another width, what was put in before would never be reached.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from ottla.pipelines.streams.tasks.task import Task

SLOTS = 256
"""How many slots the time is cut into that something stays open for."""
STREAM_TIME = "stream"
"""The clock that most go by."""
MARK = "closing"
"""How the shelf's names of chunks begin: no key does, because keys are JSON objects."""
SPANS = "closing spans"
"""Where a task remembers how long things stay open, by the clock. An earlier version did not."""

Entry = tuple[int, str]
"""When, and which key."""


def closing_of(task: Task, span_ms: int, clock: str = STREAM_TIME) -> Closing:
    """The index of a clock of the task that is at work."""
    found = task.indexes.get(clock)
    if found is None:
        found = task.indexes[clock] = Closing(task, clock, span_ms)
        before = task.meta.setdefault(SPANS, {}).get(clock, span_ms)
        task.meta[SPANS][clock] = span_ms
        if clock not in task.meta.setdefault(MARK, {}):
            found.begin()
        elif before != span_ms:
            found.cut_anew()
    return cast("Closing", found)


@dataclass(slots=True)
class Closing:
    """The index of one clock of a task, during one batch. `span_ms` is how long things stay open."""

    task: Task
    clock: str
    span_ms: int
    is_cut_anew: bool = False
    """Whether things stayed open for another time until this batch."""
    _added: dict[int, list[Entry]] = field(default_factory=dict)

    @property
    def _width_ms(self) -> int:
        return max(1, self.span_ms // SLOTS)

    @property
    def _slots(self) -> dict[str, Any]:
        """How many chunks each slot has, and its earliest entry; an earlier version remembered the chunks alone."""
        slots: dict[str, Any] = self.task.meta[MARK][self.clock]
        return slots

    def begin(self) -> None:
        """The first batch of a task. State of a version without an index is looked at whole, this once."""
        self.task.meta[MARK][self.clock] = {}
        for key in [key for key, _ in self.task.shelf.items() if key.startswith("{")]:
            self.opened(key, 0)
            self.task.keep(key, self.task.state(key) or {})  # it may be a while until the clock comes to 0

    def cut_anew(self) -> None:
        """Puts all entries into slots of the width there is now."""
        self.is_cut_anew = True
        for slot in list(self._slots):
            for closes, key in self._take(slot):
                self._added.setdefault(closes // self._width_ms, []).append((closes, key))

    def opened(self, key: str, closes: int) -> None:
        """Something of a key closes when the clock has come to `closes`. The key is kept by whoever opens it."""
        due = self.task.due(key)
        known = due.get(self.clock)
        if known is None or closes < known:
            due[self.clock] = closes
            self._added.setdefault(closes // self._width_ms, []).append((closes, key))

    def due(self, now: int) -> Iterator[str]:
        """The keys of which something may have closed by `now`, in their order. What stays open is `opened` anew."""
        for slot in [slot for slot, known in self._slots.items() if self._known(slot, known)[1] <= now]:
            self._added.setdefault(int(slot), []).extend(self._take(slot))
        found: set[Entry] = set()
        for number, entries in list(self._added.items()):
            later = [entry for entry in entries if entry[0] > now]
            if len(later) == len(entries):
                continue
            found.update(entry for entry in entries if entry[0] <= now)
            if later:
                self._added[number] = later
            else:
                del self._added[number]
        for closes, key in sorted(found, key=lambda entry: entry[1]):
            due = self.task.due(key)
            if due.get(self.clock) == closes:
                del due[self.clock]
                yield key

    def save(self) -> None:
        """Puts what was added on the shelf."""
        slots = self._slots
        for number, entries in self._added.items():
            slot, earliest = str(number), min(entries)[0]
            chunks = 0
            if slot in slots:
                chunks, before = self._known(slot, slots[slot])
                earliest = min(earliest, before)
            self.task.shelf.put(self._name(slot, chunks), json.dumps(entries, separators=(",", ":")))
            slots[slot] = [chunks + 1, earliest]
        self._added.clear()

    def _known(self, slot: str, known: Any) -> tuple[int, int]:
        """A slot's chunks, and its earliest entry: where that was not remembered, the first that it may have."""
        if isinstance(known, int):
            return known, int(slot) * self._width_ms
        chunks, earliest = known
        return chunks, earliest

    def _take(self, slot: str) -> list[Entry]:
        """All entries that a slot has on the shelf, which has none of it then."""
        entries: list[Entry] = []
        chunks, _ = self._known(slot, self._slots.pop(slot))
        for chunk in range(chunks):
            name = self._name(slot, chunk)
            text = self.task.shelf.get(name)
            assert text is not None, f"{name} is on the shelf"
            entries += [(closes, key) for closes, key in json.loads(text)]
            self.task.shelf.delete(name)
        return entries

    def _name(self, slot: str, chunk: int) -> str:
        return f"{MARK} {self.clock} {slot} {chunk}"

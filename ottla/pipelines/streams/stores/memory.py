"""A processor's state in dictionaries: what the test driver runs processors on, without Spark.

Promises: the same processor gives the same records and changes as on Spark when the same records are handled in the
same turns. Timers fire in the order of their times, and keys of one time in the order they were first seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from ottla.pipelines.streams.processor import Cell, Change, KeySession, ProcessorOperator, Record

K = TypeVar("K")
V = TypeVar("V")


class _Value:
    def __init__(self) -> None:
        self._cell: Cell | None = None

    def get(self) -> Cell | None:
        return self._cell

    def put(self, cell: Cell) -> None:
        self._cell = cell

    def delete(self) -> None:
        self._cell = None


class _Map(Generic[K, V]):
    def __init__(self) -> None:
        self._cells: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        return self._cells.get(key)

    def put(self, key: K, cell: V) -> None:
        self._cells[key] = cell

    def delete(self, key: K) -> None:
        self._cells.pop(key, None)

    def items(self) -> Iterable[tuple[K, V]]:
        return list(self._cells.items())


class _Timers(_Map[int, tuple[bool, bool]]):
    def __init__(self) -> None:
        super().__init__()
        self.registered: set[int] = set()

    def register(self, at_ms: int) -> None:
        self.registered.add(at_ms)

    def unregister(self, at_ms: int) -> None:
        self.registered.discard(at_ms)


class MemoryState:
    """One key's state."""

    def __init__(self) -> None:
        self._values: dict[str, _Value] = {}
        self._maps: dict[str, _Map[bytes, Cell]] = {}
        self._timers = _Timers()

    def value(self, store: str) -> _Value:
        return self._values.setdefault(store, _Value())

    def map(self, store: str) -> _Map[bytes, Cell]:
        return self._maps.setdefault(store, _Map())

    def timers(self) -> _Timers:
        return self._timers


class MemoryProcessor:
    """A processor with all its keys' state."""

    def __init__(self, operator: ProcessorOperator) -> None:
        self._operator = operator
        self._states: dict[Any, MemoryState] = {}

    def process(self, key: Any, records: Iterable[Record], *, now_ms: int) -> tuple[list[Record], list[Change]]:
        """One key's turn: what it forwards, and what its changelogs get. `now_ms` is the clock, or stream time."""
        session = self._session(key, now_ms)
        for record in records:
            session.process(record)
        changes = session.finish()
        return [one.record for one in session.forwarded], changes

    def advance(self, now_ms: int) -> tuple[list[Record], list[Change]]:
        """Fire the timers whose time has come."""
        forwarded: list[Record] = []
        changes: list[Change] = []
        due = [
            (at_ms, key)
            for key, state in self._states.items()
            for at_ms in state.timers().registered
            if at_ms <= now_ms
        ]
        for at_ms, key in sorted(due, key=lambda one: one[0]):
            session = self._session(key, now_ms)
            self._states[key].timers().registered.discard(at_ms)
            session.fire(at_ms)
            changes += session.finish()
            forwarded += [one.record for one in session.forwarded]
        return forwarded, changes

    def _session(self, key: Any, now_ms: int) -> KeySession:
        from ottla.pipelines.streams.processor import KeySession

        state = self._states.setdefault(key, MemoryState())
        return KeySession(self._operator.processor, self._operator.time, state, key, now_ms)

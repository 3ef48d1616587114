"""Changes that can be taken back: an undo log, and a dictionary that writes into one.

A leader replays a record before it is committed, so that the next decision sees it. If leadership is lost first, the
record may never have been, and the state goes back to the last committed one.

Promises: `revert_to(offset)` leaves exactly the state after the records below `offset`; what `forget_below` has passed
cannot be taken back and costs no memory. The log is bounded by what is not committed. Reading an `UndoDict` costs what
reading a `dict` costs.
Called by `machine`, and by the replay code of whoever keeps state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

K = TypeVar("K")
V = TypeVar("V")

# What `pop` is given when it is given no default.
_ABSENT: Any = object()


class UndoLog:
    """What was changed, in order, by the offset of the records that changed it.

    Changes collect until `seal` says up to which offset they belong. A log that `is_enabled` no longer keeps nothing:
    so start-up and followers replay at full speed, because what they replay is committed.
    """

    __slots__ = ("_open", "_sealed", "is_enabled")

    def __init__(self) -> None:
        self._open: list[Callable[[], object]] = []
        self._sealed: deque[tuple[int, list[Callable[[], object]]]] = deque()
        self.is_enabled = True

    # Changing

    def put(self, mapping: dict[K, V], key: K, value: V) -> None:
        """Set an item of a plain dictionary."""
        self.note_item(mapping, key)
        mapping[key] = value

    def delete(self, mapping: dict[K, V], key: K) -> None:
        """Remove an item of a plain dictionary; `KeyError` when there is none."""
        if key not in mapping:
            raise KeyError(key)
        self.note_item(mapping, key)
        del mapping[key]

    def assign(self, target: object, name: str, value: object) -> None:
        """Set an attribute."""
        if self.is_enabled:
            old = getattr(target, name)
            self._open.append(lambda: setattr(target, name, old))
        setattr(target, name, value)

    def note_item(self, mapping: dict[K, V], key: K) -> None:
        """Remember what a dictionary holds for `key` now, because it is about to change."""
        if not self.is_enabled:
            return
        # Set back past `UndoDict`, which would note it again.
        if key in mapping:
            old = mapping[key]
            self._open.append(lambda: dict.__setitem__(mapping, key, old))
        else:
            self._open.append(lambda: dict.__delitem__(mapping, key))

    def note(self, take_back: Callable[[], object]) -> None:
        """Remember how to take back a change that none of the above describes."""
        if self.is_enabled:
            self._open.append(take_back)

    # Settling

    @property
    def has_unsealed(self) -> bool:
        return bool(self._open)

    def __len__(self) -> int:
        """How many changes can be taken back."""
        return len(self._open) + sum(len(changes) for _, changes in self._sealed)

    def seal(self, last_offset: int) -> None:
        """What changed since the last seal was the work of the records up to `last_offset`."""
        assert not self._sealed or self._sealed[-1][0] < last_offset, f"offset {last_offset} is sealed already"
        if self._open:
            self._sealed.append((last_offset, self._open))
            self._open = []

    def forget_unsealed(self) -> None:
        """What changed since the last seal stays: its records are committed already."""
        assert not self._sealed, f"what came before is not committed, up to {self._sealed[-1][0]}"
        self._open.clear()

    def revert_unsealed(self) -> None:
        """Take back what changed since the last seal."""
        changes, self._open = self._open, []
        _take_back(changes)

    def revert_to(self, offset: int) -> None:
        """Take back what the records at and above `offset` did, the newest first, and what is not sealed."""
        self.revert_unsealed()
        while self._sealed and self._sealed[-1][0] >= offset:
            _take_back(self._sealed.pop()[1])

    def forget_below(self, offset: int) -> None:
        """What the records below `offset` did stays: they are committed."""
        sealed = self._sealed
        while sealed and sealed[0][0] < offset:
            sealed.popleft()


def _take_back(changes: list[Callable[[], object]]) -> None:
    while changes:
        changes.pop()()


class UndoDict(dict[K, V], Generic[K, V]):
    """A dictionary whose changes can be taken back. Order of insertion is not restored, only the content."""

    __slots__ = ("_undo",)

    def __init__(self, undo: UndoLog) -> None:
        super().__init__()
        self._undo = undo

    def __setitem__(self, key: K, value: V) -> None:
        self._undo.note_item(self, key)
        super().__setitem__(key, value)

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._undo.note_item(self, key)
        super().__delitem__(key)

    # What `dict` does without a word to the two above.

    def pop(self, key: K, default: Any = _ABSENT) -> Any:
        if key not in self:
            if default is _ABSENT:
                raise KeyError(key)
            return default
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[K, V]:
        if not self:
            raise KeyError("the dictionary is empty")
        key = next(reversed(self))
        return key, self.pop(key)

    def setdefault(self, key: K, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        for key in list(self):
            del self[key]

    def update(self, *others: Any, **named: Any) -> None:
        for key, value in dict(*others, **named).items():
            self[key] = value

    def __ior__(self, other: Any) -> Self:  # type: ignore[misc, override]  # `dict` has two forms of it
        self.update(other)
        return self

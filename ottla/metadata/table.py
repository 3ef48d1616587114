"""`Table`: a mapping of many entries whose copies cost what changes, not what is there.

A copy shares its `base` with the one that it was made from and has changes of its own; when these have become many,
the next copy begins with a base of its own. Promises: it reads as a dict does, in the order of insertion (a key that
was deleted and comes back takes its old place); a table that was copied is not changed any more. Small mappings are
plain dicts: those are copied within microseconds, and looked up in half the time.
Called by `ImageBuilder`, for the tables that grow with the number of topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")

PLAIN_MAX = 1_000
"""Up to so many entries a mapping is a dict."""
CHANGES_SHARE = 64
"""A table has at most a 64th of its base's size in changes: each copy copies those, and every so many the base."""

_GONE: Any = object()


def copied(mapping: Mapping[K, V]) -> MutableMapping[K, V]:
    """A copy to be changed."""
    if isinstance(mapping, Table):
        return mapping.copy()
    return dict(mapping) if len(mapping) <= PLAIN_MAX else Table(mapping)


class Table(MutableMapping[K, V]):
    """See the module."""

    __slots__ = ("_base", "_changes", "_size")

    def __init__(self, base: Mapping[K, V], changes: dict[K, V] | None = None, size: int | None = None) -> None:
        """`base` is shared, and not changed by anybody from now on."""
        self._base = base
        self._changes: dict[K, V] = {} if changes is None else changes
        self._size = len(base) if size is None else size

    def copy(self) -> MutableMapping[K, V]:
        if len(self._changes) * CHANGES_SHARE > len(self._base):
            return copied(dict(self.items()))
        return Table(self._base, dict(self._changes), self._size)

    def __getitem__(self, key: K) -> V:
        found = self._changes.get(key)
        if found is None:
            return self._base[key]
        if found is _GONE:
            raise KeyError(key)
        return found

    def get(self, key: K, default: Any = None) -> Any:
        found = self._changes.get(key)
        if found is None:
            return self._base.get(key, default)
        return default if found is _GONE else found

    def __contains__(self, key: object) -> bool:
        found = self._changes.get(key)  # type: ignore[arg-type]
        return key in self._base if found is None else found is not _GONE

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        changes = self._changes
        for key in self._base:
            if changes.get(key) is not _GONE:
                yield key
        for key, value in changes.items():
            if key not in self._base and value is not _GONE:
                yield key

    def __setitem__(self, key: K, value: V) -> None:
        assert value is not None, "None is no value: it says that there is no change"
        self._size += key not in self
        self._changes[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._size -= 1
        if key in self._base:
            self._changes[key] = _GONE
        else:
            del self._changes[key]

    def __repr__(self) -> str:
        return f"Table({len(self._base)} entries, {len(self._changes)} changes)"

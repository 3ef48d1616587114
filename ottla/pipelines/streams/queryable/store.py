"""A store to be asked: `open_store(...)`, then `get`, `range`, `all`, `fetch`.

Promises: an answer holds everything committed before the question was asked, unless `stale=True`, which answers from
what was read so far without asking the broker. Any thread may ask. Each key is answered by its latest committed value;
a batch that touched many keys is not promised to become visible in all of them at the same moment.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.queryable.follower import Follower
from ottla.pipelines.streams.queryable.table import Row, StateTable
from ottla.pipelines.streams.stores import StoreKey, StoreKind, StoreSpec, changelog_topic

TIMEOUT_S = 30.0


class Entry(NamedTuple):
    """One entry of a store. Windows have their start and end; a map store's entries their inner key."""

    key: Any
    value: Any
    timestamp_ms: int
    start_ms: int | None = None
    end_ms: int | None = None
    map_key: Any = None


def open_store(
    bootstrap_servers: str,
    application: str,
    spec: StoreSpec,
    *,
    topic: str | None = None,
    directory: Path | None = None,
    timeout_s: float = TIMEOUT_S,
    **settings: Any,
) -> QueryableStore:
    """A store of an application, to be asked. `topic` has its changes, the application's changelog unless told.

    With a `directory` what was read is kept in a file there, and the next `open_store` reads only what has been
    added. `settings` are those of a client; `bootstrap_servers` reaches the brokers.
    """
    client = {"bootstrap.servers": bootstrap_servers, **settings}
    changes = topic or changelog_topic(application, spec.name)
    table = StateTable(None if directory is None else directory / f"{changes}.sqlite")
    try:
        follower = Follower(client, changes, spec, table, is_changelog=topic is None)
        return QueryableStore(spec, table, follower, timeout_s=timeout_s)
    except BaseException:
        table.close()
        raise


class QueryableStore:
    """What one store holds."""

    def __init__(self, spec: StoreSpec, table: StateTable, follower: Follower, *, timeout_s: float) -> None:
        self.spec = spec
        self._table = table
        self._follower = follower
        self._timeout_s = timeout_s
        self._reading = threading.Lock()

    def refresh(self, timeout_s: float | None = None) -> None:
        """Take in everything that is committed now."""
        with self._reading:
            self._follower.catch_up(self._timeout_s if timeout_s is None else timeout_s)

    def get(self, key: Any, *, map_key: Any = None, stale: bool = False) -> Any:
        """The latest committed value of a key, or None. A map store needs the inner key as well."""
        entry = self.entry(key, map_key=map_key, stale=stale)
        return None if entry is None else entry.value

    def entry(self, key: Any, *, map_key: Any = None, stale: bool = False) -> Entry | None:
        """`get` with the time of the record that wrote it."""
        if self.spec.is_windowed:
            raise PipelineError(f"Store {self.spec.name} has windows: use fetch(key, from_ms, to_ms)")
        if (map_key is None) == (self.spec.kind is StoreKind.MAP):
            raise PipelineError(f"Store {self.spec.name}: map_key goes with a map store, and only with one")
        inner = b"" if map_key is None else self.spec.map_key.encode(map_key)
        self._answer(stale)
        row = self._table.get(StoreKey(self.spec.key.encode(key), inner=inner))
        return None if row is None else self._entry(row)

    def range(self, first: Any = None, last: Any = None, *, stale: bool = False) -> Iterator[Entry]:
        """The entries from key `first` to key `last`, both included, in the order of the keys' bytes.

        None leaves that side open. Numbers are ordered as their bytes are: negative ones after positive ones.
        """
        self._answer(stale)
        return self._entries(first_key=self._key(first), last_key=self._key(last))

    def all(self, *, stale: bool = False) -> Iterator[Entry]:
        """All entries, in the order of the keys' bytes."""
        self._answer(stale)
        return self._entries()

    def fetch(
        self, key: Any, from_ms: int | None = None, to_ms: int | None = None, *, stale: bool = False
    ) -> Iterator[Entry]:
        """A key's windows that start from `from_ms` to `to_ms`, both included; its sessions that have a moment there.

        For a map store all entries of the key.
        """
        if self.spec.kind is StoreKind.KEY_VALUE:
            raise PipelineError(f"Store {self.spec.name} has no windows: use get(key)")
        if self.spec.kind is StoreKind.MAP and (from_ms, to_ms) != (None, None):
            raise PipelineError(f"Store {self.spec.name} has no windows: its entries have no times to choose from")
        encoded = self._key(key)
        self._answer(stale)
        return self._entries(first_key=encoded, last_key=encoded, from_ms=from_ms, to_ms=to_ms)

    def fetch_all(
        self, from_ms: int | None = None, to_ms: int | None = None, *, stale: bool = False
    ) -> Iterator[Entry]:
        """All keys' windows that start from `from_ms` to `to_ms`, both included."""
        if not self.spec.is_windowed:
            raise PipelineError(f"Store {self.spec.name} has no windows: use all()")
        self._answer(stale)
        return self._entries(from_ms=from_ms, to_ms=to_ms)

    def page(
        self,
        *,
        limit: int,
        after: StoreKey | None = None,
        first: Any = None,
        last: Any = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        stale: bool = False,
    ) -> tuple[list[Entry], StoreKey | None]:
        """At most `limit` entries of a range behind `after`, and what to go on behind; None at the end."""
        self._answer(stale)
        entries: list[Entry] = []
        before = after
        for row in self._rows(
            after=after, first_key=self._key(first), last_key=self._key(last), from_ms=from_ms, to_ms=to_ms
        ):
            if len(entries) == limit:
                return entries, before
            entries.append(self._entry(row))
            before = row.key
        return entries, None

    def positions(self) -> dict[int, int]:
        """The next offset of each partition of the changelog: all before it is in here."""
        return self._table.positions()

    def count(self, *, stale: bool = False) -> int:
        """How many entries there are."""
        self._answer(stale)
        return self._table.count()

    def _answer(self, stale: bool) -> None:
        if not stale:
            self.refresh()

    def _key(self, key: Any) -> bytes | None:
        return None if key is None else self.spec.key.encode(key)

    def _rows(self, **chosen: Any) -> Iterator[Row]:
        return self._table.scan(**chosen, overlapping=self.spec.kind is StoreKind.SESSION)

    def _entries(self, **chosen: Any) -> Iterator[Entry]:
        return map(self._entry, self._rows(**chosen))

    def _entry(self, row: Row) -> Entry:
        key, value = self.spec.key.decode(row.key.key), self.spec.value.decode(row.value)
        if self.spec.is_windowed:
            return Entry(key, value, row.timestamp_ms, row.key.start_ms, row.key.end_ms)
        if self.spec.kind is StoreKind.MAP:
            return Entry(key, value, row.timestamp_ms, map_key=self.spec.map_key.decode(row.key.inner))
        return Entry(key, value, row.timestamp_ms)

    def close(self) -> None:
        """End it; questions after this fail."""
        with self._reading:
            self._follower.close()
            self._table.close()

    def __enter__(self) -> QueryableStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


Stores = Mapping[str, QueryableStore]

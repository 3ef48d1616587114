"""A store's committed entries in SQLite: in memory, or in a file that a later start goes on from.

Promises: entries and the offsets they came from change in one transaction, so a table is always what the changelog
said up to `positions`; keys lie in the order of their bytes, as in Kafka Streams' stores. A file is only a copy of the
changelog: one that is damaged or of another store is made anew. Any thread may call; calls wait for each other.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.stores import StoreKey

log = logging.getLogger(__name__)

PAGE_ROWS = 1000
"""How many entries an iteration reads at once; between pages others may read and changes come in."""
_FORM = "1"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS positions (partition INTEGER PRIMARY KEY, next_offset INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS entries (
    key BLOB NOT NULL, start_ms INTEGER NOT NULL, end_ms INTEGER NOT NULL, inner_key BLOB NOT NULL,
    value BLOB NOT NULL, timestamp_ms INTEGER NOT NULL, partition INTEGER NOT NULL,
    PRIMARY KEY (key, start_ms, end_ms, inner_key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_start ON entries (start_ms);
"""


class Change(NamedTuple):
    """One record of the changelog; without a value the key is deleted."""

    key: StoreKey
    value: bytes | None
    timestamp_ms: int
    partition: int


class Row(NamedTuple):
    """One entry."""

    key: StoreKey
    value: bytes
    timestamp_ms: int


class StateTable:
    """The entries of one store."""

    def __init__(self, path: Path | None) -> None:
        self._lock = threading.RLock()
        self._path = path
        self._database = self._open()

    def _open(self) -> sqlite3.Connection:
        if self._path is None:
            return self._prepared(sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        try:
            return self._prepared(database)
        except sqlite3.DatabaseError as error:
            database.close()
            log.warning("[StateTable %s] is damaged and is read again from the changelog: %s", self._path, error)
            for path in (self._path, *(self._path.with_name(self._path.name + end) for end in ("-wal", "-shm"))):
                path.unlink(missing_ok=True)
            return self._prepared(sqlite3.connect(self._path, check_same_thread=False, isolation_level=None))

    def _prepared(self, database: sqlite3.Connection) -> sqlite3.Connection:
        if self._path is not None:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")  # a lost tail is read again: it keeps its own positions
        database.executescript(_SCHEMA)
        return database

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def is_copy_of(self, facts: Mapping[str, str]) -> None:
        """Say what the table is a copy of: if it was one of something else, it is emptied."""
        wanted = {"form": _FORM, **facts}
        with self._lock:
            if dict(self._database.execute("SELECT name, value FROM facts").fetchall()) == wanted:
                return
            self._database.execute("BEGIN IMMEDIATE")
            for table in ("entries", "positions", "facts"):
                self._database.execute(f"DELETE FROM {table}")
            self._database.executemany("INSERT INTO facts VALUES (?, ?)", wanted.items())
            self._database.execute("COMMIT")

    def clear(self) -> None:
        """Forget everything, to be read again from the beginning."""
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.execute("DELETE FROM entries")
            self._database.execute("DELETE FROM positions")
            self._database.execute("COMMIT")

    def positions(self) -> dict[int, int]:
        """The next offset to read of each partition that was read."""
        with self._lock:
            return dict(self._database.execute("SELECT partition, next_offset FROM positions").fetchall())

    def apply(
        self, changes: Iterable[Change], positions: Mapping[int, int], *, retention_ms: int | None = None
    ) -> None:
        """Take changes in, in their order, together with the offsets that follow them.

        With a retention, windows that started that long before the newest one are forgotten, as Kafka Streams does.
        """
        last = {change.key: change for change in changes}  # only the last of each key is left to see
        kept = [
            (*change.key, change.value, change.timestamp_ms, change.partition)
            for change in last.values()
            if change.value is not None
        ]
        gone = [tuple(change.key) for change in last.values() if change.value is None]
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                self._refuse_moved_keys(last)
                self._database.executemany(
                    "DELETE FROM entries WHERE key = ? AND start_ms = ? AND end_ms = ? AND inner_key = ?", gone
                )
                self._database.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", kept)
                self._database.executemany("INSERT OR REPLACE INTO positions VALUES (?, ?)", positions.items())
                if retention_ms is not None:
                    self._database.execute(
                        "DELETE FROM entries WHERE start_ms <= (SELECT max(start_ms) FROM entries) - ?", (retention_ms,)
                    )
                self._database.execute("COMMIT")
            except BaseException:
                self._database.execute("ROLLBACK")
                raise

    def _refuse_moved_keys(self, last: Mapping[StoreKey, Change]) -> None:
        """A key's records have an order only within one partition: which of two partitions is right is unknown."""
        for change in last.values():
            found = self._database.execute(
                "SELECT partition FROM entries WHERE key = ? AND start_ms = ? AND end_ms = ? AND inner_key = ?",
                change.key,
            ).fetchone()
            if found is not None and found[0] != change.partition:
                raise PipelineError(
                    f"A key has moved from partition {found[0]} to {change.partition} of the changelog: the topic was "
                    f"given more partitions. Copy it by key into a new topic of that size, and put that in its place"
                )

    def get(self, key: StoreKey) -> Row | None:
        with self._lock:
            found = self._database.execute(
                "SELECT value, timestamp_ms FROM entries WHERE key = ? AND start_ms = ? AND end_ms = ? "
                "AND inner_key = ?",
                key,
            ).fetchone()
        return None if found is None else Row(key, found[0], found[1])

    def scan(
        self,
        *,
        first_key: bytes | None = None,
        last_key: bytes | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        overlapping: bool = False,
        after: StoreKey | None = None,
    ) -> Iterator[Row]:
        """The entries of a range of keys and of window starts, both ends included, in the order of keys and times.

        With `overlapping`, windows that have any moment in [from_ms, to_ms]. `after` goes on behind an entry.
        """
        where, values = ["1"], []
        for clause, value in (
            ("key >= ?", first_key),
            ("key <= ?", last_key),
            ("end_ms >= ?" if overlapping else "start_ms >= ?", from_ms),
            ("start_ms <= ?", to_ms),
        ):
            if value is not None:
                where.append(clause)
                values.append(value)
        while True:
            page = self._page([*where], [*values], after)
            yield from page
            if len(page) < PAGE_ROWS:
                return
            after = page[-1].key

    def _page(self, where: list[str], values: list[bytes | int], after: StoreKey | None) -> list[Row]:
        if after is not None:
            where.append("(key, start_ms, end_ms, inner_key) > (?, ?, ?, ?)")
            values.extend(after)
        statement = (
            "SELECT key, start_ms, end_ms, inner_key, value, timestamp_ms FROM entries "
            f"WHERE {' AND '.join(where)} ORDER BY key, start_ms, end_ms, inner_key LIMIT {PAGE_ROWS}"
        )
        with self._lock:
            found: Sequence[tuple[bytes, int, int, bytes, bytes, int]] = self._database.execute(
                statement, values
            ).fetchall()
        return [Row(StoreKey(row[0], row[1], row[2], row[3]), row[4], row[5]) for row in found]

    def count(self) -> int:
        with self._lock:
            (number,) = self._database.execute("SELECT count(*) FROM entries").fetchone()
        return int(number)

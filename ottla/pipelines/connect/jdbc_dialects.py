"""What databases say differently: types of new tables, and how rows are merged into a table by key.

PostgreSQL and SQLite know `ON CONFLICT` and `UPDATE ... FROM`; for all others there is the SQL of the standard, which
needs two statements for what they do in one, within the same transaction. Nothing here talks to a database, and nothing
imports Spark. Called by `jdbc`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DELETED = "ottla_deleted"
"""The column of the staging table that is 1 where a row's key is to go."""


@dataclass(frozen=True, slots=True)
class Merge:
    """A staging table's rows on their way into a table: names as the database has them, quoted already."""

    table: str
    staging: str
    columns: Sequence[tuple[str, str]]
    """Each column of the table, and that of the staging table which has its new value."""
    keys: Sequence[tuple[str, str]] = ()
    """Those of the columns that say which row it is."""
    deleted: str = ""
    """The column `DELETED`; empty where nothing is deleted."""

    @property
    def others(self) -> list[tuple[str, str]]:
        return [pair for pair in self.columns if pair not in self.keys]

    @property
    def same(self) -> str:
        return " AND ".join(f"s.{staged} = {self.table}.{there}" for there, staged in self.keys)

    def kept(self, prefix: str) -> str:
        """Which rows of the staging table are to be there."""
        return f"{prefix}{self.deleted} = 0" if self.deleted else "1 = 1"


@dataclass(frozen=True, slots=True)
class Dialect:
    """A database's way to say it; as it is, the standard's."""

    types: Mapping[str, str] | None = None
    """The type for a column of each type of Spark, `decimal(9,2)` as `decimal`; None where tables are not made."""
    has_on_conflict: bool = False

    def insert(self, merge: Merge) -> list[str]:
        return [f"{_insert(merge)} SELECT {_staged(merge)} FROM {merge.staging} s WHERE {merge.kept('s.')}"]

    def delete(self, merge: Merge) -> list[str]:
        if not merge.deleted:
            return []
        found = f"SELECT 1 FROM {merge.staging} s WHERE s.{merge.deleted} = 1 AND {merge.same}"
        return [f"DELETE FROM {merge.table} WHERE EXISTS ({found})"]

    def update(self, merge: Merge) -> list[str]:
        if not merge.others:
            return []
        found = f"FROM {merge.staging} s WHERE {merge.kept('s.')} AND {merge.same}"
        if self.has_on_conflict:
            sets = ", ".join(f"{there} = s.{staged}" for there, staged in merge.others)
            return [f"UPDATE {merge.table} SET {sets} {found}"]
        sets = ", ".join(f"{there} = (SELECT s.{staged} {found})" for there, staged in merge.others)
        return [f"UPDATE {merge.table} SET {sets} WHERE EXISTS (SELECT 1 {found})"]

    def upsert(self, merge: Merge) -> list[str]:
        if self.has_on_conflict:
            (insert,) = self.insert(merge)
            sets = ", ".join(f"{there} = excluded.{there}" for there, _ in merge.others)
            what = f"UPDATE SET {sets}" if sets else "NOTHING"
            return [f"{insert} ON CONFLICT ({', '.join(there for there, _ in merge.keys)}) DO {what}"]
        missing = f"NOT EXISTS (SELECT 1 FROM {merge.table} WHERE {merge.same})"
        new = f"SELECT {_staged(merge)} FROM {merge.staging} s WHERE {merge.kept('s.')} AND {missing}"
        return [*self.update(merge), f"{_insert(merge)} {new}"]

    def create(self, table: str, columns: Sequence[tuple[str, str]], keys: Sequence[str]) -> str:
        """A new table: quoted columns with their types of Spark, and those of them that are its primary key."""
        assert self.types is not None, "the file was checked"
        parts = []
        for name, type_ in columns:
            base, bracket, size = type_.partition("(")
            parts.append(f"{name} {self.types[base]}{bracket}{size}{' NOT NULL' if name in keys else ''}")
        if keys:
            parts.append(f"PRIMARY KEY ({', '.join(keys)})")
        return f"CREATE TABLE {table} ({', '.join(parts)})"


def _insert(merge: Merge) -> str:
    return f"INSERT INTO {merge.table} ({', '.join(there for there, _ in merge.columns)})"


def _staged(merge: Merge) -> str:
    return ", ".join(f"s.{staged}" for _, staged in merge.columns)


_POSTGRESQL = {
    "tinyint": "SMALLINT", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT", "float": "REAL",
    "double": "DOUBLE PRECISION", "boolean": "BOOLEAN", "string": "TEXT", "binary": "BYTEA", "decimal": "DECIMAL",
    "date": "DATE", "timestamp": "TIMESTAMP", "timestamp_ntz": "TIMESTAMP",
}  # fmt: skip
_SQLITE = {
    "tinyint": "INTEGER", "smallint": "INTEGER", "int": "INTEGER", "bigint": "INTEGER", "float": "REAL",
    "double": "REAL", "boolean": "INTEGER", "string": "TEXT", "binary": "BLOB", "decimal": "NUMERIC",
    "date": "NUMERIC", "timestamp": "NUMERIC", "timestamp_ntz": "NUMERIC",
}  # fmt: skip
DIALECTS = {
    "jdbc:postgresql:": Dialect(_POSTGRESQL, has_on_conflict=True),
    "jdbc:sqlite:": Dialect(_SQLITE, has_on_conflict=True),
}
"""By how an address begins."""


def dialect_of(url: str) -> Dialect:
    return next((dialect for begin, dialect in DIALECTS.items() if url.startswith(begin)), Dialect())


def quoted(name: str, quote: str) -> str:
    """A name as the database reads it letter by letter; `quote` is empty where it knows no quotes."""
    return f"{quote}{name.replace(quote, quote * 2)}{quote}" if quote else name

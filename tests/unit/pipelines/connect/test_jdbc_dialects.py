"""How rows are merged into a table, run by a real database: SQLite, which knows both the standard's SQL and its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from ottla.pipelines.connect.jdbc_dialects import DELETED, Dialect, Merge, dialect_of, quoted

OWN, STANDARD = dialect_of("jdbc:sqlite:a.db"), dialect_of("jdbc:h2:mem:a")
BOTH = pytest.mark.parametrize("dialect", [OWN, STANDARD], ids=["own", "standard"])
Row = tuple[object, ...]


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute('CREATE TABLE "order" (id INTEGER, "gr""oup" TEXT, n INTEGER, PRIMARY KEY (id, "gr""oup"))')
        connection.execute(f'CREATE TABLE staged (id INTEGER, "gr""oup" TEXT, n INTEGER, "{DELETED}" INTEGER)')
        connection.executemany('INSERT INTO "order" VALUES (?, ?, ?)', [(1, "a", 1), (1, "b", 2), (2, "a", 3)])
        yield connection


def merge(*, deletes: bool = True, columns: tuple[str, ...] = ("id", 'gr"oup', "n")) -> Merge:
    pairs = [(quoted(name, '"'), quoted(name, '"')) for name in columns]
    return Merge('"order"', "staged", pairs, pairs[:2], quoted(DELETED, '"') if deletes else "")


def run(database: sqlite3.Connection, rows: list[Row], *statements: str) -> list[Row]:
    database.executemany("INSERT INTO staged VALUES (?, ?, ?, ?)", rows)
    for statement in statements:
        database.execute(statement)
    return database.execute('SELECT * FROM "order" ORDER BY 1, 2').fetchall()


@BOTH
def test_an_upsert_changes_adds_and_deletes_by_all_columns_of_the_key(
    database: sqlite3.Connection, dialect: Dialect
) -> None:
    rows: list[Row] = [(1, "a", 10, 0), (1, "b", None, 1), (3, "c", None, 0), (9, "z", None, 1)]
    one = merge()
    found = run(database, rows, *dialect.delete(one), *dialect.upsert(one))
    assert found == [(1, "a", 10), (2, "a", 3), (3, "c", None)]


@BOTH
def test_an_update_adds_nothing(database: sqlite3.Connection, dialect: Dialect) -> None:
    rows: list[Row] = [(1, "a", 10, 0), (3, "c", 4, 0), (2, "a", 7, 1)]
    one = merge()
    assert run(database, rows, *dialect.update(one)) == [(1, "a", 10), (1, "b", 2), (2, "a", 3)]


@BOTH
def test_a_table_of_nothing_but_its_key_is_merged_into_as_well(database: sqlite3.Connection, dialect: Dialect) -> None:
    one = merge(columns=("id", 'gr"oup'))
    assert dialect.update(one) == []
    found = run(database, [(1, "a", 10, 0), (3, "c", 4, 0)], *dialect.upsert(one))
    assert found == [(1, "a", 1), (1, "b", 2), (2, "a", 3), (3, "c", None)]


@BOTH
def test_without_deletes_the_staging_table_needs_no_mark(database: sqlite3.Connection, dialect: Dialect) -> None:
    one = merge(deletes=False)
    assert dialect.delete(one) == []
    assert len(run(database, [(3, "c", 4, 0)], *dialect.insert(one))) == 4


def test_a_table_is_made_with_types_and_key(database: sqlite3.Connection) -> None:
    columns = [('"id"', "bigint"), ('"a b"', "decimal(9,2)"), ('"raw"', "binary"), ('"at"', "timestamp")]
    database.execute(OWN.create('"new"', columns, ['"id"']))
    described = database.execute("SELECT name, type, \"notnull\", pk FROM pragma_table_info('new')").fetchall()
    assert described == [
        ("id", "INTEGER", 1, 1),
        ("a b", "NUMERIC(9,2)", 0, 0),
        ("raw", "BLOB", 0, 0),
        ("at", "NUMERIC", 0, 0),
    ]
    postgresql = dialect_of("jdbc:postgresql://here/shop")
    assert postgresql.create('"new"', columns, []) == (
        'CREATE TABLE "new" ("id" BIGINT, "a b" DECIMAL(9,2), "raw" BYTEA, "at" TIMESTAMP)'
    )

"""What a database says of its tables: columns, keys, and how they replicate.

Promises: one look is one query each, so a table that changes meanwhile is seen before or after. Nothing here changes
anything. Called by `ottla.pipelines.connect.capture`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.pipelines.postgresql.connection import Connection
from ottla.pipelines.postgresql.types import PgType, SparkType, Types

_TYPES = "SELECT oid, typname, typtype, typcategory, typelem, typbasetype, typtypmod FROM pg_catalog.pg_type"
_TABLES = """\
SELECT c.oid, n.nspname, c.relname, c.relreplident, c.relkind
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
  AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
ORDER BY 2, 3"""
_COLUMNS = """\
SELECT a.attrelid, a.attname, a.atttypid, a.atttypmod, a.attndims, a.attstorage IN ('x', 'e'), a.attnum
FROM pg_catalog.pg_attribute a
WHERE a.attrelid IN ({oids}) AND a.attnum > 0 AND NOT a.attisdropped {plain}
ORDER BY 1, a.attnum"""
_KEYS = """\
SELECT i.indrelid, a.attname
FROM pg_catalog.pg_index i
  JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
  CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY k(attnum, place)
  JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid IN ({oids}) AND k.place <= i.indnkeyatts
  AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
ORDER BY 1, k.place"""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type_oid: int
    type_modifier: int
    type: SparkType
    type_name: str
    may_be_toasted: bool = field(default=False, compare=False)
    """Whether large values are kept outside of the row, where an update may leave them."""


@dataclass(frozen=True, slots=True)
class Table:
    oid: int
    schema: str
    name: str
    identity: str
    """`d`, `i`, `f` or `n`, as of `pgoutput.Relation`."""
    is_partitioned: bool
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    """The columns of its primary key, or of the index that is its replica identity; empty where there is neither."""

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def server_version(connection: Connection) -> int:
    """`150014` for 15.14."""
    return _number(connection.rows("SELECT pg_catalog.current_setting('server_version_num')")[0][0])


def types(connection: Connection) -> Types:
    found = {}
    for oid, name, kind, category, element, base, modifier in connection.rows(_TYPES):
        type_ = PgType(
            _number(oid), _text(name), _text(kind), _text(category), _number(element), _number(base), _number(modifier)
        )
        found[type_.oid] = type_
    return Types(found)


@dataclass(frozen=True, slots=True)
class TableName:
    """A table as it is listed, without its columns."""

    oid: int
    schema: str
    name: str
    identity: str
    is_partitioned: bool

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def names(connection: Connection) -> list[TableName]:
    """Every table of users."""
    return [
        TableName(_number(oid), _text(schema), _text(name), _text(identity), kind == "p")
        for oid, schema, name, identity, kind in connection.rows(_TABLES)
    ]


def tables(connection: Connection, chosen: Sequence[TableName], known: Types) -> list[Table]:
    """Tables with their columns and keys. Generated columns are left out, which replication does not have."""
    if not chosen:
        return []
    oids = ", ".join(str(one.oid) for one in chosen)
    plain = "AND a.attgenerated = ''" if server_version(connection) >= 120000 else ""
    columns: dict[int, list[Column]] = {one.oid: [] for one in chosen}
    for table, name, type_, modifier, dimensions, toasted, _ in connection.rows(
        _COLUMNS.format(oids=oids, plain=plain)
    ):
        oid, of_type = _number(type_), _number(modifier)
        spark = known.spark(oid, of_type, _number(dimensions))
        columns[_number(table)].append(Column(_text(name), oid, of_type, spark, known.name(oid), toasted == "t"))
    keys: dict[int, list[str]] = {one.oid: [] for one in chosen}
    for table, name in connection.rows(_KEYS.format(oids=oids)):
        keys[_number(table)].append(_text(name))
    return [
        Table(
            one.oid, one.schema, one.name, one.identity, one.is_partitioned, tuple(columns[one.oid]),
            tuple(keys[one.oid]),
        )
        for one in chosen
    ]  # fmt: skip


def _number(text: str | None) -> int:
    assert text is not None, "the column is never null"
    return int(text)


def _text(text: str | None) -> str:
    assert text is not None, "the column is never null"
    return text

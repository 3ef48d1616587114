"""What a statement says: the outer form taken apart, expressions kept as tokens for Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.pipelines.sql.tokens import Token, render


@dataclass(frozen=True, slots=True)
class Expr:
    """An expression, which is Spark's to read."""

    tokens: tuple[Token, ...]

    @property
    def text(self) -> str:
        """As it was written, on one line."""
        return render(self.tokens)


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """A column of CREATE STREAM or CREATE TABLE; its type in Spark's words."""

    name: str
    type: str
    is_key: bool = False


# --- continuous queries


@dataclass(frozen=True, slots=True)
class Item:
    """One of what SELECT lists. A star has no expression, and the alias of what it is of, or None for all."""

    expr: Expr | None
    alias: str | None = None
    star_of: str | None = None


@dataclass(frozen=True, slots=True)
class From:
    """A stream or table by its name, and what the query calls it."""

    name: str
    alias: str
    token: Token


@dataclass(frozen=True, slots=True)
class Within:
    """How far apart the records of two streams that join may be."""

    before_ms: int
    after_ms: int
    grace_ms: int | None = None


@dataclass(frozen=True, slots=True)
class JoinClause:
    """`kind`: inner, left, outer."""

    kind: str
    right: From
    on: Expr
    within: Within | None
    token: Token


@dataclass(frozen=True, slots=True)
class Window:
    """`kind`: TUMBLING, HOPPING, SESSION. A session's size is its gap."""

    kind: str
    size_ms: int
    advance_ms: int | None = None
    grace_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT that goes on: EMIT CHANGES, EMIT FINAL, or what CREATE ... AS and INSERT INTO have."""

    items: tuple[Item, ...]
    source: From
    join: JoinClause | None = None
    window: Window | None = None
    where: Expr | None = None
    group_by: tuple[Expr, ...] = ()
    partition_by: tuple[Expr, ...] = ()
    having: Expr | None = None
    is_final: bool = False
    limit: int | None = None

    @property
    def sources(self) -> tuple[From, ...]:
        """What it reads."""
        return (self.source,) if self.join is None else (self.source, self.join.right)


# --- statements


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its text without the semicolon, and where it begins."""

    text: str = ""
    line: int = 1


@dataclass(frozen=True, slots=True)
class CreateSource(Statement):
    """CREATE STREAM | TABLE name (columns) WITH (...)."""

    kind: str = "STREAM"
    name: str = ""
    columns: tuple[ColumnDef, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateAs(Statement):
    """CREATE STREAM | TABLE name WITH (...) AS SELECT ..."""

    kind: str = "STREAM"
    name: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False
    query: Query | None = None


@dataclass(frozen=True, slots=True)
class InsertSelect(Statement):
    """INSERT INTO name WITH (...) SELECT ..."""

    name: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    query: Query | None = None


@dataclass(frozen=True, slots=True)
class InsertValues(Statement):
    """INSERT INTO name (columns) VALUES (...), (...)."""

    name: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Expr, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class PushSelect(Statement):
    """SELECT ... EMIT CHANGES."""

    query: Query | None = None


@dataclass(frozen=True, slots=True)
class BatchSelect(Statement):
    """A SELECT of what there is now: all of it is Spark's. `names` are those that may be streams or tables."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Show(Statement):
    """SHOW | LIST STREAMS, TABLES, TOPICS, QUERIES, PROPERTIES."""

    what: str = ""


@dataclass(frozen=True, slots=True)
class Describe(Statement):
    """DESCRIBE name [EXTENDED]."""

    name: str = ""
    extended: bool = False


@dataclass(frozen=True, slots=True)
class Explain(Statement):
    """EXPLAIN a query by its id, or a statement."""

    query_id: str | None = None
    statement: Statement | None = None


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    """DROP STREAM | TABLE [IF EXISTS] name [DELETE TOPIC]."""

    kind: str = "STREAM"
    name: str = ""
    if_exists: bool = False
    delete_topic: bool = False


@dataclass(frozen=True, slots=True)
class Change(Statement):
    """TERMINATE, PAUSE or RESUME a query; all of them without an id."""

    what: str = ""
    query_id: str | None = None


@dataclass(frozen=True, slots=True)
class Print(Statement):
    """PRINT 'topic' [FROM BEGINNING] [LIMIT n]."""

    topic: str = ""
    from_beginning: bool = False
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class SetProperty(Statement):
    """SET 'name' = 'value'; UNSET has no value."""

    name: str = ""
    value: str | None = None


@dataclass(frozen=True, slots=True)
class RunScript(Statement):
    """RUN SCRIPT 'file'."""

    path: str = ""

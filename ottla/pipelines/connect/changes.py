"""What changed in a database, as records: Debezium's envelope, a key, and a number.

`Changes` takes the messages of pgoutput, `Snapshot` the rows of COPY, and both give lines of the spool: the record's
number, topic, time, key, value, and the fields of the value whose TOASTed values PostgreSQL did not send. Keys and
values are JSON. Promises: records come in the order of the commits and within a transaction in that of its statements;
an update that changes the key is a deletion and an insertion, as Debezium has it; a value that was not sent is taken
from the old row where the table's replica identity is FULL, and named otherwise. No I/O, and no Spark. Called by
`capture`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.postgresql.catalog import Table
from ottla.pipelines.postgresql.messages import ProtocolError
from ottla.pipelines.postgresql.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    Other,
    Relation,
    RelationColumn,
    Row,
    Truncate,
    Update,
    Value,
    lsn_text,
)
from ottla.pipelines.postgresql.types import Convert, Types, quoted

log = logging.getLogger(__name__)

NOTHING = r"\N"
"""A key or a value that is null; JSON never begins so."""
FIELDS = ("offset", "topic", "timestamp_us", "key", "value", "unavailable")
"""What a line of the spool has, between tabs: JSON has neither tabs nor line breaks of its own."""
OPERATIONS = {"c": "insertions", "u": "updates", "d": "deletions", "t": "truncations"}
_NOT_IN_TOPICS = re.compile(r"[^A-Za-z0-9._-]")
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPED = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


class SchemaChanged(PipelineError):
    """A table is not any more what it was when the run began."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the records of a run have in common."""

    prefix: str
    """The first part of each topic, and the `name` of each source."""
    database: str
    version: str
    has_tombstones: bool = True
    skipped: frozenset[str] = frozenset("t")
    """Operations that give no record."""
    excluded: frozenset[tuple[str, str, str]] = frozenset()
    """Columns that are left out: schema, table, column."""
    takes_unknown_types: bool = False
    placeholder: str | None = None
    """Stands for a text that was not sent; None names the field as one that was not."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """How rows of a table become JSON."""

    topic: str
    schema: str
    table: str
    names: tuple[str, ...]
    heads: tuple[str, ...]
    """`"id":` for each column."""
    converts: tuple[Convert | None, ...]
    """None for a column that is left out."""
    key: tuple[int, ...]
    placeholders: tuple[str | None, ...]
    """As JSON, for each column that has one."""

    def row(self, row: Sequence[Value], only: Sequence[int] | None = None) -> str:
        """The row as JSON; with `only`, the other columns are null."""
        parts = []
        for index, (head, convert, value) in enumerate(zip(self.heads, self.converts, row, strict=True)):
            if convert is None:
                continue
            if only is not None and index not in only:
                parts.append(f"{head}null")
            elif isinstance(value, str):
                parts.append(head + convert(value))
            else:
                stand_in = self.placeholders[index] if value is UNCHANGED else None
                parts.append(head + (stand_in or "null"))
        return f"{{{','.join(parts)}}}"

    def key_of(self, row: Sequence[Value]) -> str:
        if not self.key:
            return NOTHING
        parts = []
        for index in self.key:
            convert, value = self.converts[index], row[index]
            assert convert is not None, "a column of the key cannot be left out"
            parts.append(self.heads[index] + (convert(value) if isinstance(value, str) else "null"))
        return f"{{{','.join(parts)}}}"

    def has_key_of(self, one: Sequence[Value], other: Sequence[Value]) -> bool:
        """Whether two rows have one key; what was not sent has not changed."""
        return all(one[index] == other[index] or UNCHANGED in (one[index], other[index]) for index in self.key)

    def unavailable(self, row: Sequence[Value]) -> str:
        names = [
            name
            for name, convert, stand_in, value in zip(self.names, self.converts, self.placeholders, row, strict=True)
            if value is UNCHANGED and convert is not None and stand_in is None
        ]
        return f"[{','.join(map(quoted, names))}]" if names else NOTHING


class _Records:
    """Numbers records and writes them as lines."""

    def __init__(self, settings: Settings, types: Types, offset: int, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._types = types
        self._now_ms = now_ms
        self.offset = offset
        """The number of the next record."""

    def _line(self, layout: _Layout, time_us: int, key: str, value: str, unavailable: str = NOTHING) -> bytes:
        line = f"{self.offset}\t{layout.topic}\t{time_us}\t{key}\t{value}\t{unavailable}\n"
        self.offset += 1
        return line.encode()

    def _envelope(self, op: str, before: str, after: str, source: str) -> str:
        return f'{{"before":{before},"after":{after},"source":{source},"op":"{op}","ts_ms":{self._now_ms()}}}'

    def _source(self, layout: _Layout, *, time_us: int, snapshot: str, xid: int | None, lsn: int) -> str:
        told = self._settings
        return (
            f'{{"version":{quoted(told.version)},"connector":"postgresql","name":{quoted(told.prefix)},'
            f'"ts_ms":{time_us // 1000},"snapshot":"{snapshot}","db":{quoted(told.database)},'
            f'"schema":{quoted(layout.schema)},"table":{quoted(layout.table)},'
            f'"txId":{"null" if xid is None else xid},"lsn":{lsn}}}'
        )

    def _layout(
        self, schema: str, table: str, columns: Sequence[RelationColumn], key: Sequence[str], known: Container[str] = ()
    ) -> _Layout:
        """`known` are the columns that the run began with."""
        converts: list[Convert | None] = []
        placeholders: list[str | None] = []
        placeholder = self._settings.placeholder
        for column in columns:
            type_ = self._types.spark(column.type_oid, column.type_modifier)
            is_in = (schema, table, column.name) not in self._settings.excluded
            if is_in and not type_.is_known and not self._settings.takes_unknown_types:
                if column.name in known:
                    raise SchemaChanged(
                        f"the column {column.name} of {schema}.{table} is {self._types.name(column.type_oid)} now, a "
                        "type that is not known here: start the pipeline again with another `column-exclude-list`"
                    )
                log.warning("[CDC] %s.%s.%s is of an unknown type and left out", schema, table, column.name)
                is_in = False
            converts.append(type_.convert if is_in else None)
            has_stand_in = placeholder is not None and type_.ddl == "STRING"
            placeholders.append(quoted(placeholder) if has_stand_in and placeholder is not None else None)
        names = tuple(column.name for column in columns)
        return _Layout(
            _NOT_IN_TOPICS.sub("_", f"{self._settings.prefix}.{schema}.{table}"), schema, table, names,
            tuple(f"{quoted(name)}:" for name in names), tuple(converts), tuple(names.index(one) for one in key),
            tuple(placeholders),
        )  # fmt: skip


class Snapshot(_Records):
    """The rows of tables as they were at one moment, as records of the operation `r`."""

    def lines(self, table: Table, rows: Iterator[bytes], *, lsn: int, time_us: int) -> Iterator[bytes]:
        """The records of a table's rows, which come in the text format of COPY."""
        columns = [RelationColumn(one.name, one.type_oid, one.type_modifier, False) for one in table.columns]
        layout = self._layout(table.schema, table.name, columns, table.key)
        source = self._source(layout, time_us=time_us, snapshot="true", xid=None, lsn=lsn)
        for data in rows:
            row = copied_row(data, len(columns))
            value = self._envelope("r", "null", layout.row(row), source)
            yield self._line(layout, time_us, layout.key_of(row), value)


def copied_row(line: bytes, count: int) -> list[str | None]:
    """The values of a line of COPY's text format."""
    if not count:
        return []
    parts = line.rstrip(b"\n").split(b"\t")
    if len(parts) != count:
        raise ProtocolError(f"a row of COPY has {len(parts)} columns, and {count} were asked for")
    try:
        return [None if part == rb"\N" else _unescaped(part).decode() for part in parts]
    except UnicodeDecodeError:
        raise ProtocolError("a row of COPY has a value that is not UTF-8") from None


def _unescaped(part: bytes) -> bytes:
    if b"\\" not in part:
        return part
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), part)


class Changes(_Records):
    """The stream of changes from one position on; a stream that is begun again needs another of these."""

    def __init__(
        self,
        settings: Settings,
        types: Types,
        offset: int,
        now_ms: Callable[[], int],
        *,
        tables: Sequence[Table],
        check: Callable[[Relation], Types],
    ) -> None:
        super().__init__(settings, types, offset, now_ms)
        self._oids = {one.oid: one for one in tables}
        self._tables: Mapping[tuple[str, str], Table] = {(one.schema, one.name): one for one in tables}
        self._check = check
        self._layouts: dict[int, _Layout | None] = {}
        self._begin: Begin | None = None

    @property
    def is_in_transaction(self) -> bool:
        return self._begin is not None

    def lines(self, message: Message, lsn: int) -> Iterator[bytes]:
        """The records of a message; `lsn` is where it stands in the WAL."""
        match message:
            case Begin():
                if self._begin is not None:
                    raise ProtocolError("a transaction begins within another")
                self._begin = message
            case Commit():
                self._within()
                self._begin = None
            case Relation():
                self._layouts[message.oid] = self._of_relation(message)
            case Insert(relation, new):
                if (layout := self._found(relation, "c", new)) is not None:
                    yield self._change(layout, "c", None, new, lsn)
            case Update():
                yield from self._updated(message, lsn)
            case Delete(relation, old, is_whole):
                if (layout := self._found(relation, "d", old)) is not None:
                    yield from self._deleted(layout, old, is_whole, lsn)
            case Truncate(relations):
                for relation in relations:
                    layout = self._found(relation, "t")
                    if layout is not None:
                        yield self._change(layout, "t", None, None, lsn)
            case Other():
                pass

    def _updated(self, message: Update, lsn: int) -> Iterator[bytes]:
        layout = self._found(message.relation, "u", message.new, message.old)
        if layout is None:
            return
        old, new = message.old, message.new
        if old is not None and message.is_old_whole:
            new = [was if now is UNCHANGED else now for was, now in zip(old, new, strict=True)]
        if old is not None and layout.key and not layout.has_key_of(old, new):
            yield from self._deleted(layout, old, message.is_old_whole, lsn)
            yield self._change(layout, "c", None, new, lsn)
            return
        before = None if old is None else layout.row(old, None if message.is_old_whole else layout.key)
        yield self._change(layout, "u", before, new, lsn)

    def _deleted(self, layout: _Layout, old: Row, is_whole: bool, lsn: int) -> Iterator[bytes]:
        before = layout.row(old, None if is_whole else layout.key)
        yield self._change(layout, "d", before, None, lsn, key=layout.key_of(old))
        if self._settings.has_tombstones and layout.key:
            yield self._line(layout, self._within().commit_us, layout.key_of(old), NOTHING)

    def _change(
        self, layout: _Layout, op: str, before: str | None, after: Row | None, lsn: int, key: str | None = None
    ) -> bytes:
        begin = self._within()
        source = self._source(layout, time_us=begin.commit_us, snapshot="false", xid=begin.xid, lsn=lsn)
        value = self._envelope(op, before or "null", "null" if after is None else layout.row(after), source)
        if key is None:
            key = NOTHING if after is None else layout.key_of(after)
        return self._line(layout, begin.commit_us, key, value, NOTHING if after is None else layout.unavailable(after))

    def _found(self, relation: int, op: str, *rows: Row | None) -> _Layout | None:
        """The table of a change; None where it gives no record."""
        self._within()
        if relation not in self._layouts:
            raise ProtocolError(f"a change is of a table with the oid {relation}, of which nothing was said")
        layout = self._layouts[relation]
        if layout is None:
            return None
        for row in rows:
            if row is not None and len(row) != len(layout.names):
                raise ProtocolError(
                    f"a row of {layout.topic} has {len(row)} columns, and the table {len(layout.names)}"
                )
        if op in self._settings.skipped:
            if op == "t":
                log.warning(
                    "[CDC] %s.%s was truncated at %s, which gives no record: the rows that were read before stay where "
                    "they were written. `skipped-operations: none` gives one",
                    layout.schema, layout.table, lsn_text(self._within().final_lsn),
                )  # fmt: skip
            return None
        return layout

    def _of_relation(self, relation: Relation) -> _Layout | None:
        table = self._tables.get((relation.schema, relation.name))
        if table is None:
            if (renamed := self._oids.get(relation.oid)) is not None:
                raise SchemaChanged(
                    f"the table {renamed} is {relation.schema}.{relation.name} now: start the pipeline again, with a "
                    "`table-include-list` that has it"
                )
            return None
        there = {one.name: (one.type_oid, one.type_modifier) for one in relation.columns}
        known = {one.name: (one.type_oid, one.type_modifier) for one in table.columns}
        if there != known:
            # Either the table has changed since the run began, or these are changes of before it did.
            self._types = self._check(relation)
            for name in sorted(there.keys() - known.keys()):
                if (table.schema, table.name, name) not in self._settings.excluded:
                    log.info("[CDC] %s has a column %s that the run does not know yet", table, name)
        missing = [name for name in table.key if name not in there]
        if missing:
            raise SchemaChanged(
                f"changes of {table} come from a time at which its key column {missing[0]} was not there: "
                "`ottla pipeline reset` begins anew"
            )
        return self._layout(relation.schema, relation.name, relation.columns, table.key, known)

    def _within(self) -> Begin:
        if self._begin is None:
            raise ProtocolError("a change stands outside of every transaction")
        return self._begin

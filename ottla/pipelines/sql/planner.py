"""A continuous SELECT as a topology of `ottla.pipelines.streams`, so that it has Kafka Streams' results.

Plain Python: the catalog gives the columns, and nothing is asked of Spark or a cluster. Beside the topology a plan has
the same query as Spark's analyser reads it, which gives types and says what is wrong with expressions, and lines for
EXPLAIN. Called by `engine`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ottla.pipelines.sql import formats
from ottla.pipelines.sql.catalog import Contents, Source
from ottla.pipelines.sql.errors import SqlError, SyntaxProblem
from ottla.pipelines.sql.expressions import (
    ROWKEY,
    ROWTIME,
    WINDOWEND,
    WINDOWSTART,
    Call,
    Grouping,
    Piece,
    Scope,
    Side,
    column_name,
    has_aggregates,
    same,
    split_equality,
    text,
)
from ottla.pipelines.sql.plan import Output, Plan, field_of, literal, struct
from ottla.pipelines.sql.statements import Expr, From, Item, JoinClause, Query, Window, Within
from ottla.pipelines.sql.tokens import Kind, Token, quoted, render
from ottla.pipelines.streams import aggregates
from ottla.pipelines.streams.aggregates import REVERSIBLE, Fold
from ottla.pipelines.streams.builder import StreamsBuilder
from ottla.pipelines.streams.kstream import KStream
from ottla.pipelines.streams.ktable import KTable
from ottla.pipelines.streams.serdes import Serde
from ottla.pipelines.streams.windows import JoinWindows, SessionWindows, TimeWindows, Windows

GRACE_MS = 24 * 3_600_000
"""How long a window waits for late records that does not say: a day, as ksqlDB's."""
FOLDS: Mapping[str, Callable[[str], Fold]] = {
    "SUM": aggregates.sum, "MIN": aggregates.min, "MAX": aggregates.max, "AVG": aggregates.mean,
}  # fmt: skip


def plan(query: Query, contents: Contents, *, reset: str = "earliest", registry: str | None = None) -> Plan:
    """The plan of a query. `reset` is where streams are read from first; tables are read from their beginning."""
    return _Planner(query, contents, reset, registry).plan()


@dataclass(slots=True)
class _Rows:
    """What has been built so far: records, what names mean in them, and what their key is."""

    frame: KStream | KTable
    scope: Scope
    keys: list[list[list[Piece]]]
    """For each column of the key, the expressions that are it."""
    key_refs: list[str]
    key_names: tuple[str, ...] = ()
    copartitioned: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return "STREAM" if isinstance(self.frame, KStream) else "TABLE"


class _Planner:
    def __init__(self, query: Query, contents: Contents, reset: str, registry: str | None) -> None:
        self._query = query
        self._reset = reset
        self._registry = registry
        self._builder = StreamsBuilder()
        self._lines: list[str] = []
        self._sources = [self._source(contents, one) for one in query.sources]
        self._check_clauses()

    def plan(self) -> Plan:
        query = self._query
        rows = self._single() if query.join is None else self._joined(query.join)
        items = self._items(rows.scope)
        if query.where is not None:
            self._refuse_windows_in_where(query.where)
            self._filter(rows, text(rows.scope.resolve(query.where)), "where")
        made = self._grouped(rows, items) if query.group_by else self._projected(rows, items)
        made.analysis = self._analysis(items)
        made.lines = self._lines
        return made

    # --- checks

    def _source(self, contents: Contents, one: From) -> Source:
        try:
            return contents.source(one.name)
        except SqlError as error:
            raise _at(one.token, str(error)) from None

    def _check_clauses(self) -> None:
        query = self._query
        start = query.source.token
        if not query.group_by:
            for word, clause in (("WINDOW", query.window), ("HAVING", query.having)):
                if clause is not None:
                    raise _at(start, f"{word} needs GROUP BY")
            for item in query.items:
                if item.expr is not None and has_aggregates(item.expr):
                    raise _at(item.expr.tokens[0], f"{item.expr.text} is of groups: say which with GROUP BY")
        if query.group_by and query.partition_by:
            raise _at(start, "a query that groups has its groups as its key: leave PARTITION BY out")
        if query.is_final and query.window is None:
            raise _at(start, "EMIT FINAL is for windows, which end: add WINDOW, or EMIT CHANGES")
        if query.is_final and query.window is not None and query.window.grace_ms is None:
            raise _at(start, "EMIT FINAL needs GRACE PERIOD: rows come once a window and its grace are over")
        for source, one in zip(self._sources, query.sources, strict=True):
            if source.window is not None and (query.join is not None or query.group_by):
                what = "joined" if query.join is not None else "grouped"
                raise _at(one.token, f"{source.name} is windowed, and is not {what}: do that with what it was made of")
        if query.window is not None and query.join is None and self._sources[0].kind == "TABLE":
            raise _at(start, f"{start.name} is a table, whose rows have no windows: a stream is put into windows")
        if query.partition_by and self._sources[0].kind == "TABLE":
            raise _at(start, f"{start.name} is a table, which is by its PRIMARY KEY: PARTITION BY is for streams")

    def _refuse_windows_in_where(self, where: Expr) -> None:
        for token in where.tokens:
            if self._query.window is not None and token.is_word(WINDOWSTART, WINDOWEND):
                raise _at(token, f"{token.text} is known once records are grouped: use HAVING")

    # --- where records come from

    def _single(self) -> _Rows:
        source, one = self._sources[0], self._query.source
        side = Side(one.alias, refs(source))
        scope = Scope((side,), self._window_names())
        keys = [[scope.resolve(_column_expr(one, column.name))] for column in source.key_columns]
        names = tuple(column.name for column in source.key_columns)
        key_refs = [side.refs[name] for name in names]
        frame: KStream | KTable = self._stream(source, "source") if source.kind == "STREAM" else self._table(source)
        return _Rows(frame, scope, keys, key_refs, names if len(names) > 1 else ())

    def _stream(self, source: Source, name: str) -> KStream:
        self._lines.append(
            f"read      stream {source.name}, topic {source.topic}: key {source.key_format}, {source.value_format}"
        )
        value = formats.value_serde(source, self._registry)
        stream = self._builder.stream(
            source.topic, key=key_serde(source), value=value, name=name, timestamp=extractor(source), reset=self._reset
        )
        # A record without a value has no columns: it is no row of a stream.
        return stream.filter("value IS NOT NULL", name=f"{name}-rows")

    def _table(self, source: Source, name: str = "source") -> KTable:
        self._lines.append(
            f"read      table {source.name}, topic {source.topic}: key {source.key_format}, {source.value_format}"
        )
        value = formats.value_serde(source, self._registry)
        return self._builder.table(
            source.topic, key=key_serde(source), value=value, named=name, timestamp=extractor(source)
        )

    def _filter(self, rows: _Rows, condition: str, name: str) -> None:
        self._lines.append(f"filter    {condition}")
        rows.frame = rows.frame.filter(condition, name=name)

    def _window_names(self) -> dict[str, str]:
        """What a query with a window can name once it has grouped."""
        return {} if self._query.window is None else {WINDOWSTART: "key.start", WINDOWEND: "key.end"}

    # --- joins

    def _joined(self, join: JoinClause) -> _Rows:
        query = self._query
        left, right = query.source, join.right
        if left.alias.lower() == right.alias.lower():
            raise _at(right.token, f"both are called {right.alias}: give one an alias, JOIN {right.name} AS other")
        sources = self._sources
        own = [Scope((Side(one.alias, refs(source)),), {}) for one, source in zip(query.sources, sources, strict=True)]
        ons = self._ons(join, own)
        pair = Scope(
            tuple(
                Side(one.alias, {name: field_of(f"value.{letter}", name) for name in refs(source)})
                for one, source, letter in zip(query.sources, sources, "lr", strict=True)
            ),
            {ROWKEY: "key", ROWTIME: "timestamp", **self._window_names()},
        )
        used = self._used(pair)
        on_texts = [text(scope.resolve(on)) for scope, on in zip(own, ons, strict=True)]
        pair_ons = [pair.resolve(_qualified(on, own[index].sides[0])) for index, on in enumerate(ons)]
        kinds = (sources[0].kind, sources[1].kind)
        self._check_join(join, kinds, on_texts)
        is_foreign = kinds == ("TABLE", "TABLE") and on_texts[0] != "key"
        foreign_key = None
        if is_foreign:  # it is looked for in the row that the left table has become
            row = Side(left.alias, {name: field_of("value", name) for name in refs(sources[0])})
            found = Scope((row,), {}).resolve(ons[0])
            foreign_key = text(found)
            used[0] += [name for name in map(column_name, found) if name is not None and name not in used[0]]
        moved = [kind == "STREAM" and on != "key" for kind, on in zip(kinds, on_texts, strict=True)]
        sides = [
            self._side(index, source, own[index].sides[0], on_texts[index] if moved[index] else None, used[index])
            for index, source in enumerate(sources)
        ]
        made = self._join(join, sides, foreign_key)
        if is_foreign:
            pk = _column_expr(left, sources[0].key_columns[0].name)
            keys = [pair.resolve(pk)]
        elif join.kind == "outer":
            keys = []
        else:
            keys = pair_ons if join.kind == "inner" else pair_ons[:1]
        keys = [*keys, pair.resolve(Expr((_word(ROWKEY, join.token),)))]
        copartitioned = () if is_foreign or any(moved) else (sources[0].topic, sources[1].topic)
        return _Rows(made, pair, [keys], ["key"], (), copartitioned)

    def _ons(self, join: JoinClause, own: Sequence[Scope]) -> list[Expr]:
        """The expressions of ON, left one first."""
        first, second = split_equality(join.on)
        aliases = [scope.sides[0].alias.lower() for scope in own]

        def side_of(expr: Expr) -> int:
            found: set[int] = set()
            both = Scope(tuple(scope.sides[0] for scope in own), {})
            for piece in both.resolve(expr):
                if piece.column is not None:
                    found.add(aliases.index(piece.column[0].lower()))
            if len(found) != 1:
                raise _at(
                    expr.tokens[0],
                    f"each side of ON is of one of the two: {self._query.source.alias}.id = {join.right.alias}.id",
                )
            return found.pop()

        sides = (side_of(first), side_of(second))
        if sides[0] == sides[1]:
            raise _at(
                first.tokens[0], f"ON compares {own[sides[0]].sides[0].alias} with itself, and not with the other"
            )
        return [first, second] if sides == (0, 1) else [second, first]

    def _check_join(self, join: JoinClause, kinds: tuple[str, str], on: Sequence[str]) -> None:
        left, right = self._query.source, join.right
        if kinds == ("STREAM", "STREAM"):
            if join.within is None:
                raise _at(join.token, "two streams join within a time: JOIN ... WITHIN 1 HOUR ON ...")
            if join.kind != "inner" and join.within.grace_ms is None:
                raise _at(
                    join.token,
                    "LEFT and FULL JOIN of two streams need GRACE PERIOD: a record without a partner comes once it is "
                    "over, WITHIN 1 HOUR GRACE PERIOD 10 MINUTES",
                )
            return
        if join.within is not None:
            raise _at(join.token, "WITHIN is for two streams: a table has one row a key, whatever its time")
        if kinds == ("TABLE", "STREAM"):
            raise _at(
                join.token, f"a stream joins a table, not the other way around: FROM {right.name} JOIN {left.name}"
            )
        if on[1] != "key":
            key = ", ".join(column.name for column in self._sources[1].key_columns)
            raise _at(right.token, f"{right.name} is joined on its PRIMARY KEY: ON ... = {right.alias}.{key}")
        if join.kind == "outer" and (kinds == ("STREAM", "TABLE") or on[0] != "key"):
            raise _at(join.token, "FULL JOIN is for two streams, or two tables that have the same key: use LEFT JOIN")

    def _used(self, pair: Scope) -> list[list[str]]:
        """The columns of each side that the query looks at behind the join: others are not kept."""
        query = self._query
        exprs = [item.expr for item in self._expanded() if item.expr is not None]
        exprs += [one for one in (query.where, query.having) if one is not None]
        exprs += [*query.group_by, *query.partition_by]
        used: list[dict[str, None]] = [{}, {}]
        for expr in map(self._with_aliases, exprs):
            for piece in pair.resolve(expr):
                for side, names in zip(pair.sides, used, strict=True):
                    if piece.column is not None and piece.column[0] == side.alias:
                        names[piece.column[1]] = None
        return [list(names) for names in used]

    def _side(self, index: int, source: Source, side: Side, on: str | None, used: Sequence[str]) -> KStream | KTable:
        """One side of a join: its key is what is joined on, its value what is looked at behind the join."""
        name = ("left", "right")[index]
        row = struct([(column, side.refs[column]) for column in used] or [("there", "true")])
        if source.kind == "TABLE":
            table = self._table(source, f"{name}-source")
            self._lines.append(f"value     {row}")
            return table.map_values(row, name=f"{name}-row")
        stream = self._stream(source, f"{name}-source")
        self._lines.append(f"value     {row}" + (f", key {on}" if on is not None else ""))
        if on is None:
            return stream.map_values(row, name=f"{name}-row")
        return stream.map(on, row, name=f"{name}-row")

    def _join(self, join: JoinClause, sides: Sequence[KStream | KTable], foreign_key: str | None) -> KStream | KTable:
        left, right = sides
        both = struct([("l", "left"), ("r", "right")])
        if isinstance(left, KStream) and isinstance(right, KStream):
            assert join.within is not None, "it was checked"
            windows = _join_windows(join.within)
            self._lines.append(
                f"join      {join.kind}, {windows.before_ms} ms before to {windows.after_ms} ms after, grace "
                f"{windows.grace_ms} ms"
            )
            if join.kind == "outer":
                return left.outer_join(right, both, windows, name="join")
            stream_join = left.join if join.kind == "inner" else left.left_join
            return stream_join(right, both, windows, name="join")
        self._lines.append(f"join      {join.kind}" + (f", foreign key {foreign_key}" if foreign_key else ""))
        if isinstance(left, KStream):
            assert isinstance(right, KTable), "two streams are joined above"
            return (left.join if join.kind == "inner" else left.left_join)(right, both, name="join")
        assert isinstance(right, KTable), "a table does not join a stream"
        if join.kind == "outer":
            return left.outer_join(right, both, name="join")
        table_join = left.join if join.kind == "inner" else left.left_join
        if foreign_key is None:
            return table_join(right, both, name="join")
        return table_join(right, both, foreign_key=foreign_key, name="join")

    # --- what is selected

    def _expanded(self) -> list[Item]:
        """What is selected, with columns in place of stars."""
        found: list[Item] = []
        sides = list(zip(self._query.sources, self._sources, strict=True))
        for item in self._query.items:
            if item.expr is not None:
                found.append(item)
                continue
            chosen = [
                (one, source)
                for one, source in sides
                if item.star_of is None or item.star_of.lower() == one.alias.lower()
            ]
            if not chosen:
                raise _at(self._query.source.token, f"{item.star_of}.* is of nothing that the query reads")
            for one, source in chosen:
                for column in [*source.key_columns, *source.value_columns]:
                    alias = f"{one.alias}_{column.name}" if len(sides) > 1 else column.name
                    found.append(Item(_column_expr(one, column.name), alias))
        return found

    def _items(self, scope: Scope) -> list[_Selected]:
        found = []
        for item in self._expanded():
            assert item.expr is not None, "stars are expanded"
            pieces = scope.resolve(item.expr)
            only = column_name(pieces[0]) if len(pieces) == 1 else None
            found.append(_Selected(item.alias or only or item.expr.text, item.expr, pieces, bool(item.alias or only)))
        return found

    def _projected(self, rows: _Rows, items: Sequence[_Selected]) -> Plan:
        keys, key_refs, key_names, key_text = rows.keys, rows.key_refs, rows.key_names, None
        if self._query.partition_by:
            if isinstance(rows.frame, KTable):
                raise _at(
                    self._query.source.token, "the result is a table, which is by its key: PARTITION BY is for streams"
                )
            for expr in self._query.partition_by:
                _refuse_position(expr, "PARTITION BY")
            parts = [rows.scope.resolve(expr) for expr in self._query.partition_by]
            keys, key_refs = [[part] for part in parts], [text(part) for part in parts]
        places = [_place(items, alternatives) for alternatives in keys]
        missing = next((text_of(keys[i]) for i, place in enumerate(places) if place is None), None)
        outputs = []
        for index, item in enumerate(items):
            is_key = index in places
            ref = key_refs[places.index(index)] if is_key else text(item.pieces)
            outputs.append(Output(item.name, ref, item.token, is_key, item.is_named))
        if self._query.partition_by:
            named = [
                (items[place].name if place is not None else f"k{i}", key_refs[i]) for i, place in enumerate(places)
            ]
            key_text = named[0][1] if len(named) == 1 else struct(named)
            key_names = ()
            self._lines.append(f"key       {key_text}")
        source = self._sources[0]
        windowed = source.window is not None and self._query.join is None and not self._query.partition_by
        return Plan(
            rows.kind, outputs, self._sources, "", self._builder, rows.frame, len(keys), key_names, key_text, missing,
            windows=(source.window, source.window_size_ms) if windowed and source.window is not None else None,
            reads_windowed=windowed, copartitioned=rows.copartitioned,
        )  # fmt: skip

    # --- groups

    def _grouped(self, rows: _Rows, items: Sequence[_Selected]) -> Plan:
        query = self._query
        for expr in query.group_by:
            _refuse_position(expr, "GROUP BY")
        groups = [rows.scope.resolve(expr) for expr in query.group_by]
        for expr in query.group_by:
            if has_aggregates(expr):
                raise _at(expr.tokens[0], "GROUP BY takes what records have, not an aggregate")
        places = [_place(items, [group]) for group in groups]
        names = tuple(items[place].name if place is not None else f"k{i}" for i, place in enumerate(places))
        base = "key.key" if query.window is not None else "key"
        group_refs = [base] if len(groups) == 1 else [field_of(base, name) for name in names]
        grouping = Grouping(groups, group_refs, self._window_names())
        outputs = []
        for index, item in enumerate(items):
            ref = grouping.read(item.pieces)
            outputs.append(Output(item.name, ref, item.token, index in places, item.is_named))
        having = None
        if query.having is not None:
            having = grouping.read(rows.scope.resolve(self._with_aliases(query.having)))
        if not grouping.calls:
            raise _at(query.source.token, "GROUP BY needs an aggregate: COUNT(*) counts the records of each group")
        table = self._table_of(rows, groups, names, grouping.calls)
        if having is not None:
            self._lines.append(f"having    {having}")
            table = table.filter(having, name="having")
        missing = next((text_of([groups[i]]) for i, place in enumerate(places) if place is None), None)
        return Plan(
            "TABLE", outputs, self._sources, "", self._builder, table, len(groups),
            names if len(groups) > 1 else (), None, missing,
            windows=_named_window(query.window), copartitioned=rows.copartitioned,
        )  # fmt: skip

    def _table_of(
        self, rows: _Rows, groups: Sequence[Sequence[Piece]], names: Sequence[str], calls: Sequence[Call]
    ) -> KTable:
        texts = [text(group) for group in groups]
        key = texts[0] if len(texts) == 1 else struct(list(zip(names, texts, strict=True)))
        arguments = [
            (f"a{index}", _counted(call.argument) if call.name == "COUNT" else call.argument)
            for index, call in enumerate(calls)
            if call.argument is not None
        ]
        value = struct(arguments or [("there", "true")])
        if len(texts) > 1:  # a group that is not known as a whole is none, as one that is null
            self._filter(rows, " AND ".join(f"({one}) IS NOT NULL" for one in texts), "grouped")
        folds: dict[str, Any] = {f"f{index}": _fold(call, index) for index, call in enumerate(calls)}
        if isinstance(rows.frame, KTable):
            for call in calls:
                if _fold(call, 0).name not in REVERSIBLE:
                    raise _at(
                        self._query.source.token,
                        f"{call.name} of a table is not supported: a row that changes leaves its group, and what was "
                        "second is not known. COUNT, SUM and AVG are",
                    )
            self._lines.append(f"group     {key}, rows {value}")
            self._lines.append(f"aggregate {_folds_text(calls)}")
            return rows.frame.group_by(key, value, name="group").aggregate(**folds, named="aggregate")
        if rows.key_refs == texts and len(texts) == 1:
            self._lines.append(f"group     by key, values {value}")
            grouped = rows.frame.map_values(value, name="group").group_by_key()
        else:
            self._lines.append(f"group     {key}, values {value}")
            grouped = rows.frame.map(key, value, name="group").group_by_key()
        if self._query.window is not None:
            windows = _windows(self._query.window)
            self._lines.append(f"window    {windows}" + (", rows when it closes" if self._query.is_final else ""))
            windowed = grouped.windowed_by(windows)
            grouped = windowed.emit_strategy("on_window_close") if self._query.is_final else windowed
        self._lines.append(f"aggregate {_folds_text(calls)}")
        return grouped.aggregate(**folds, named="aggregate")

    def _with_aliases(self, having: Expr) -> Expr:
        """HAVING may name what is selected, as in Spark's SQL."""
        by_alias = {
            item.alias.lower(): item.expr
            for item in self._query.items
            if item.alias is not None and item.expr is not None
        }
        if self._query.having is not having or not by_alias:
            return having
        columns = {name.lower() for source in self._sources for name in refs(source)}
        tokens: list[Token] = []
        for index, token in enumerate(having.tokens):
            meant = by_alias.get(token.name.lower()) if token.is_name else None
            before = having.tokens[index - 1] if index else None
            if meant is None or token.name.lower() in columns or (before is not None and before.is_symbol(".")):
                tokens.append(token)
                continue
            opening = Token(Kind.SYMBOL, "(", token.line, token.column, token.start, token.is_apart)
            tokens += [opening, *meant.tokens, replace(opening, text=")", is_apart=False)]
        return Expr(tuple(tokens))

    # --- the same for Spark

    def _analysis(self, items: Sequence[_Selected]) -> str:
        query = self._query
        parts = [
            "SELECT " + ", ".join(f"{self._written(item.expr)} AS {quoted(f'c{i}')}" for i, item in enumerate(items))
        ]
        parts.append(f"FROM {_named(query.source)}")
        if query.join is not None:
            word = {"inner": "JOIN", "left": "LEFT JOIN", "outer": "FULL JOIN"}[query.join.kind]
            parts.append(f"{word} {_named(query.join.right)} ON {query.join.on.text}")
        if query.where is not None:
            parts.append(f"WHERE {self._written(query.where)}")
        if query.group_by:
            groups = [self._written(one) for one in query.group_by]
            parts.append("GROUP BY " + ", ".join(groups + list(self._window_names())))
        if query.having is not None:
            parts.append(f"HAVING {self._written(self._with_aliases(query.having))}")
        return " ".join(parts)

    def _written(self, expr: Expr) -> str:
        """As Spark's analyser reads it: it knows nothing of ROWKEY, which is one or the other side of ON."""
        join = self._query.join
        if join is None:
            return expr.text
        first, second = split_equality(join.on)
        meant = f"coalesce({first.text}, {second.text})"
        tokens = [
            replace(token, text=meant)
            if token.is_word(ROWKEY) and not (index and expr.tokens[index - 1].is_symbol("."))
            else token
            for index, token in enumerate(expr.tokens)
        ]
        return render(tokens)


@dataclass(frozen=True, slots=True)
class _Selected:
    """One of what is selected."""

    name: str
    expr: Expr
    pieces: list[Piece]
    is_named: bool

    @property
    def token(self) -> Token:
        return self.expr.tokens[0]


def refs(source: Source) -> dict[str, str]:
    """Where a step finds the columns of a source's records."""
    base = "key" if source.window is None else "key.key"
    keys, values = source.key_columns, source.value_columns
    found = {keys[0].name: base} if len(keys) == 1 else {one.name: field_of(base, one.name) for one in keys}
    if source.value_format == "KAFKA":
        found |= {one.name: "value" for one in values}
    else:
        found |= {one.name: field_of("value", one.name) for one in values}
    found[ROWTIME] = "timestamp"
    if source.window is not None:
        found |= {WINDOWSTART: "key.start", WINDOWEND: "key.end"}
    return found


def key_serde(source: Source) -> Serde:
    """How a source's keys are read."""
    inner = formats.key_serde(source.key_columns, source.key_format)
    return inner if source.window is None else formats.windowed(inner, source.window, source.window_size_ms)


def extractor(source: Source) -> str | None:
    """What makes a record's time, where a column has it."""
    if source.timestamp is None:
        return None
    ref = refs(source)[source.timestamp]
    return ref if source.timestamp_format is None else f"to_timestamp({ref}, {literal(source.timestamp_format)})"


def views(sources: Sequence[Source], *, is_windowed: bool) -> dict[str, list[tuple[str, str]]]:
    """The columns of the views that a plan's analysis reads, by the names of the sources."""
    found = {}
    for index, source in enumerate(sources):
        columns = [(column.name, column.type) for column in source.columns]
        columns.append((ROWTIME, "BIGINT"))
        if source.window is not None or (is_windowed and index == 0):
            columns += [(WINDOWSTART, "BIGINT"), (WINDOWEND, "BIGINT")]
        found[source.name] = columns
    return found


def text_of(alternatives: Sequence[Sequence[Piece]]) -> str:
    """An expression as the user would write it."""
    return render(
        replace(piece.token, text=".".join(filter(None, piece.column)) if piece.column else piece.text)
        for piece in alternatives[0]
    )


def _place(items: Sequence[_Selected], alternatives: Sequence[Sequence[Piece]]) -> int | None:
    """The first of what is selected that is one of these expressions."""
    for index, item in enumerate(items):
        if any(same(item.pieces, one) for one in alternatives):
            return index
    return None


def _refuse_position(expr: Expr, clause: str) -> None:
    if len(expr.tokens) == 1 and expr.tokens[0].kind in (Kind.NUMBER, Kind.STRING):
        raise _at(expr.tokens[0], f"{clause} takes columns and expressions, not {expr.text}")


def _counted(argument: str | None) -> str:
    """COUNT(x) is a sum: of 1 where there is an x."""
    return f"CASE WHEN ({argument}) IS NULL THEN 0L ELSE 1L END"


def _fold(call: Call, index: int) -> Fold:
    if call.argument is None:
        return aggregates.count()
    return aggregates.sum(f"value.a{index}") if call.name == "COUNT" else FOLDS[call.name](f"value.a{index}")


def _folds_text(calls: Sequence[Call]) -> str:
    return ", ".join(f"f{index} = {call.name}({call.argument or '*'})" for index, call in enumerate(calls))


def _windows(window: Window) -> Windows:
    grace = GRACE_MS if window.grace_ms is None else window.grace_ms
    if window.kind == "SESSION":
        return SessionWindows.of_inactivity_gap(window.size_ms, grace=grace)
    tumbling = TimeWindows.of_size(window.size_ms, grace=grace)
    return tumbling if window.advance_ms is None else tumbling.advance_by(window.advance_ms)


def _named_window(window: Window | None) -> tuple[str, int | None] | None:
    if window is None:
        return None
    return ("SESSION", None) if window.kind == "SESSION" else ("TIME", window.size_ms)


def _join_windows(within: Within) -> JoinWindows:
    grace = GRACE_MS if within.grace_ms is None else within.grace_ms
    return JoinWindows(within.before_ms, within.after_ms, grace)


def _named(one: From) -> str:
    return f"{quoted(one.name)} AS {quoted(one.alias)}"


def _column_expr(one: From, column: str) -> Expr:
    at = one.token
    names = [Token(Kind.QUOTED, quoted(name), at.line, at.column, at.start, False) for name in (one.alias, column)]
    return Expr(
        (replace(names[0], is_apart=True), Token(Kind.SYMBOL, ".", at.line, at.column, at.start, False), names[1])
    )


def _qualified(expr: Expr, side: Side) -> Expr:
    """An expression of one side, with its columns named so that they mean the same among both."""
    tokens: list[Token] = []
    for piece in Scope((side,), {}).resolve(expr):
        if piece.column is None:
            tokens.append(piece.token)
            continue
        at = piece.token
        tokens += [
            replace(at, kind=Kind.QUOTED, text=quoted(side.alias)),
            replace(at, kind=Kind.SYMBOL, text=".", is_apart=False),
            replace(at, kind=Kind.QUOTED, text=quoted(piece.column[1]), is_apart=False),
        ]
    return Expr(tuple(tokens))


def _word(word: str, at: Token) -> Token:
    return replace(at, kind=Kind.WORD, text=word)


def _at(token: Token, message: str) -> SyntaxProblem:
    return SyntaxProblem(message, token.line, token.column)

"""Statements out of text: ksqlDB's outer syntax, with Spark's expressions left as they are.

Promises: any text gives statements or a `SyntaxProblem` that names line and column and what would be right. No Spark,
no catalog. Called by `engine` and by the prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches

from ottla.pipelines.sql import types
from ottla.pipelines.sql.errors import SyntaxProblem, Unfinished
from ottla.pipelines.sql.expressions import KEYWORDS
from ottla.pipelines.sql.statements import (
    BatchSelect,
    Change,
    ColumnDef,
    CreateAs,
    CreateSource,
    Describe,
    Drop,
    Explain,
    Expr,
    From,
    InsertSelect,
    InsertValues,
    Item,
    JoinClause,
    Print,
    PushSelect,
    Query,
    RunScript,
    SetProperty,
    Show,
    Statement,
    Window,
    Within,
)
from ottla.pipelines.sql.tokens import Kind, Token, position, quoted, tokenize

STARTS = ("CREATE", "INSERT", "SELECT", "SHOW", "LIST", "DESCRIBE", "EXPLAIN", "DROP", "TERMINATE", "PAUSE", "RESUME",
          "PRINT", "SET", "UNSET", "RUN")  # fmt: skip
BATCH_STARTS = ("WITH", "VALUES", "FROM", "TABLE")
"""Words that begin a query of Spark's beside SELECT."""
SHOWN = ("STREAMS", "TABLES", "TOPICS", "QUERIES", "PROPERTIES")
UNITS_MS = {"MILLISECOND": 1, "SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}
CLAUSES = ("FROM", "WHERE", "GROUP", "PARTITION", "HAVING", "WINDOW", "EMIT", "LIMIT", "INNER", "LEFT", "RIGHT", "FULL",
           "JOIN", "ON", "WITHIN", "CROSS", "ORDER", "UNION", "DISTRIBUTE", "CLUSTER", "SORT", "LATERAL")  # fmt: skip
NOT_CONTINUOUS = {
    "ORDER": "ORDER BY needs an end, which a continuous query has not: without EMIT CHANGES it sorts what there is now",
    "UNION": "a continuous query has one SELECT: for several, CREATE STREAM of the first and INSERT INTO it the others",
    "DISTINCT": "SELECT DISTINCT is not supported in a continuous query: GROUP BY the columns",
    "CROSS": "CROSS JOIN is not supported in a continuous query: INNER, LEFT and FULL OUTER JOIN are, with ON",
    "RIGHT": "RIGHT JOIN is not supported: name the two the other way around, with LEFT JOIN",
}
DEPTH_MAX = 100
"""How deep types may be nested."""


def parse(text: str) -> list[Statement]:
    """The statements of a script. The last one may go without its semicolon."""
    return [_Parser(text, tokens).statement() for tokens in _split(tokenize(text))]


def is_complete(text: str) -> bool:
    """Whether a text that was typed at a prompt can be run: it ends with a semicolon, not within a string or comment.

    Text that is wrong is complete: the parser says what is wrong with it.
    """
    try:
        tokens = tokenize(text)
    except Unfinished:
        return False
    except SyntaxProblem:
        return True
    return not tokens or tokens[-1].is_symbol(";")


def _split(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    statement: list[Token] = []
    for token in tokens:
        if not token.is_symbol(";"):
            statement.append(token)
        elif statement:
            yield statement
            statement = []
    if statement:
        yield statement


class _Parser:
    """Reads the tokens of one statement."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0

    # --- statements

    def statement(self) -> Statement:
        first = self._tokens[0]
        parsed = self._statement()
        if self._more:
            raise self._wrong(f"the statement ends before {self._next_text()}: a semicolon ends it")
        text = self._text[first.start : self._tokens[-1].end]
        return replace(parsed, text=text, line=first.line)

    def _statement(self) -> Statement:
        if self._is_word("SELECT", *BATCH_STARTS) or self._is_symbol("("):
            return self._select()
        if not self._is_word(*STARTS):
            near = get_close_matches(self._next_text().upper(), STARTS, 1)
            hint = f"is {near[0]} meant?" if near else f"it begins with one of {', '.join(STARTS)}"
            raise self._wrong(f"no statement begins with {self._next_text()}: {hint}")
        word = self._take().text.upper()
        match word:
            case "CREATE":
                return self._create()
            case "INSERT":
                return self._insert()
            case "SHOW" | "LIST":
                return self._show()
            case "DESCRIBE":
                name = self._name("DESCRIBE", "a stream's or a table's name").name
                return Describe(name=name, extended=self._accept("EXTENDED"))
            case "EXPLAIN":
                return self._explain()
            case "DROP":
                return self._drop()
            case "TERMINATE" | "PAUSE" | "RESUME":
                if self._accept("ALL"):
                    return Change(what=word)
                return Change(what=word, query_id=self._name(word, "a query's id or ALL").name)
            case "PRINT":
                return self._print()
            case "SET":
                name = self._string("SET", "a property in quotes: SET 'auto.offset.reset' = 'earliest'")
                self._need_symbol("=", "SET 'name'")
                return SetProperty(name=name, value=self._string("=", "a value in quotes"))
            case "UNSET":
                return SetProperty(name=self._string("UNSET", "a property in quotes"))
        self._need("RUN", "SCRIPT")
        return RunScript(path=self._string("RUN SCRIPT", "a file's name in quotes"))

    def _create(self) -> Statement:
        if self._is_word("TEMPORARY", "TEMP", "VIEW", "FUNCTION", "DATABASE", "SCHEMA"):
            raise self._wrong(
                f"CREATE {self._next_text().upper()} is not a statement here: a program's spark.sql() has it"
            )
        if self._is_word("OR", "SOURCE", "TYPE", "CONNECTOR"):
            raise self._wrong(
                f"CREATE {self._next_text().upper()} is not supported: CREATE STREAM and CREATE TABLE are"
            )
        kind = self._need("CREATE", "STREAM", "TABLE").upper()
        if_not_exists = self._accept("IF")
        if if_not_exists:
            self._need("IF", "NOT")
            self._need("IF NOT", "EXISTS")
        name = self._name(kind, f"the {kind.lower()}'s name").name
        columns: tuple[ColumnDef, ...] = ()
        if self._is_symbol("("):
            columns = self._columns(kind)
        properties = self._properties() if self._is_word("WITH") else {}
        if self._accept("AS"):
            if columns:
                raise self._wrong("CREATE ... AS SELECT takes its columns from the SELECT: leave the list out")
            query = self._query(needs_emit=False)
            return CreateAs(kind=kind, name=name, properties=properties, if_not_exists=if_not_exists, query=query)
        if not properties:
            raise self._wrong(
                f"CREATE {kind} {name} needs WITH (KAFKA_TOPIC = '...', VALUE_FORMAT = '...'), or AS SELECT ..."
            )
        return CreateSource(kind=kind, name=name, columns=columns, properties=properties, if_not_exists=if_not_exists)

    def _columns(self, kind: str) -> tuple[ColumnDef, ...]:
        self._take()
        columns: list[ColumnDef] = []
        while True:
            token = self._name("(" if not columns else ",", "a column's name")
            type_ = self._type()
            is_key = False
            if self._is_word("PRIMARY"):
                word = self._take()
                self._need("PRIMARY", "KEY")
                if kind == "STREAM":
                    raise _at(word, "a stream has KEY columns, a table has PRIMARY KEY columns: leave PRIMARY out")
                is_key = True
            elif self._is_word("KEY"):
                word = self._take()
                if kind == "TABLE":
                    raise _at(word, "a table has PRIMARY KEY columns, a stream has KEY columns: write PRIMARY KEY")
                is_key = True
            elif self._is_word("HEADERS", "HEADER"):
                raise self._wrong('columns of headers are not supported: read them with format("ottla") in a program')
            if token.name.lower() in {column.name.lower() for column in columns}:
                raise _at(token, f"there are two columns {token.name}")
            columns.append(ColumnDef(token.name, type_, is_key))
            if not self._accept_symbol(","):
                break
        self._need_symbol(")", "the columns", ",")
        if kind == "TABLE" and not any(column.is_key for column in columns):
            raise self._wrong("a table has to have a PRIMARY KEY column: its rows are found by it")
        return tuple(columns)

    def _type(self, depth: int = 0) -> str:
        if depth > DEPTH_MAX:
            raise self._wrong(f"types are nested more than {DEPTH_MAX} deep")
        token = self._name("a column's name", "a type")
        word = token.text.upper()
        if word in types.DECIMALS:
            return f"DECIMAL({', '.join(map(str, self._precision()))})"
        if word == "ARRAY":
            return f"ARRAY<{self._parameters(depth, word, 1)}>"
        if word == "MAP":
            return f"MAP<{self._parameters(depth, word, 2)}>"
        if word == "STRUCT":
            return f"STRUCT<{self._fields(depth)}>"
        if word not in types.SIMPLE:
            near = get_close_matches(word, [*types.SIMPLE, *types.DECIMALS, *types.NESTED], 1)
            hint = f"is {near[0]} meant?" if near else f"there are {', '.join(types.NAMES)}"
            raise _at(token, f"{token.text} is no type: {hint}")
        return types.SIMPLE[word]

    def _parameters(self, depth: int, word: str, count: int) -> str:
        self._need_symbol("<", word)
        found = [self._type(depth + 1)]
        while len(found) < count:
            self._need_symbol(",", f"the first type of {word}")
            found.append(self._type(depth + 1))
        self._close(word)
        return ", ".join(found)

    def _fields(self, depth: int) -> str:
        self._need_symbol("<", "STRUCT")
        found = []
        while True:
            name = self._name("STRUCT<", "a field's name").name
            self._accept_symbol(":")
            found.append(f"{quoted(name)}: {self._type(depth + 1)}")
            if not self._accept_symbol(","):
                break
        self._close("STRUCT")
        return ", ".join(found)

    def _close(self, word: str) -> None:
        """`>`, which may be half of a `>>`."""
        if self._is_symbol(">>"):
            token = self._tokens[self._at]
            half = replace(token, text=">", column=token.column + 1, start=token.start + 1, is_apart=False)
            self._tokens = [*self._tokens[: self._at], half, *self._tokens[self._at + 1 :]]
            return
        self._need_symbol(">", f"the types of {word}")

    def _precision(self) -> tuple[int, int]:
        if not self._is_symbol("("):
            return 10, 0
        token = self._take()
        digits = self._integer("DECIMAL(", "how many digits there are")
        scale = self._integer(",", "how many of them are behind the point") if self._accept_symbol(",") else 0
        self._need_symbol(")", "DECIMAL(")
        if not scale <= digits <= types.PRECISION_MAX or digits < 1:
            raise _at(token, f"a DECIMAL has from 1 to {types.PRECISION_MAX} digits, some of them behind the point")
        return digits, scale

    def _properties(self) -> dict[str, str]:
        self._take()
        self._need_symbol("(", "WITH")
        found: dict[str, str] = {}
        while not self._is_symbol(")"):
            token = self._take_any("WITH (", "a property: KAFKA_TOPIC = 'orders'")
            if not token.is_name and token.kind is not Kind.STRING:
                raise _at(token, f"a property's name belongs here, not {token.text}")
            name = (token.string if token.kind is Kind.STRING else token.name).upper()
            if name in found:
                raise _at(token, f"{name} is said twice")
            self._need_symbol("=", name)
            value = self._take_any(f"{name} =", "a value")
            if value.kind is Kind.STRING:
                found[name] = value.string
            elif value.kind is Kind.NUMBER or value.is_word("TRUE", "FALSE"):
                found[name] = value.text
            else:
                raise _at(value, f"the value of {name} stands in quotes: {name} = '{value.text}'")
            if not self._accept_symbol(","):
                break
        self._need_symbol(")", "the properties", ",")
        return found

    def _insert(self) -> Statement:
        self._need("INSERT", "INTO")
        name = self._name("INSERT INTO", "a stream's or a table's name").name
        properties = self._properties() if self._is_word("WITH") else {}
        if self._is_word("SELECT"):
            return InsertSelect(name=name, properties=properties, query=self._query(needs_emit=False))
        columns: list[str] = []
        if self._accept_symbol("("):
            columns.append(self._name("(", "a column's name").name)
            while self._accept_symbol(","):
                columns.append(self._name(",", "a column's name").name)
            self._need_symbol(")", "the columns", ",")
        self._need(f"INSERT INTO {name}", "VALUES", "SELECT")
        if properties:
            raise self._wrong("INSERT INTO ... VALUES takes no WITH: the stream has its formats already")
        rows = [self._row(len(columns))]
        while self._accept_symbol(","):
            rows.append(self._row(len(columns) or len(rows[0])))
        return InsertValues(name=name, columns=tuple(columns), rows=tuple(rows))

    def _row(self, count: int) -> tuple[Expr, ...]:
        token = self._take_any("VALUES", "(")
        if not token.is_symbol("("):
            raise _at(token, "a row of VALUES stands in parentheses: VALUES (1, 'a')")
        row = [self._expr("VALUES (", ends=())]
        while self._accept_symbol(","):
            row.append(self._expr(",", ends=()))
        self._need_symbol(")", "the values", ",")
        if count and len(row) != count:
            raise _at(token, f"the row has {len(row)} values for {count} columns")
        return tuple(row)

    def _show(self) -> Statement:
        return Show(what=self._need("SHOW", *SHOWN).upper())

    def _explain(self) -> Statement:
        if self._is_word("SELECT", "CREATE", "INSERT", *BATCH_STARTS):
            rest = _Parser(self._text, self._tokens[self._at :])
            self._at = len(self._tokens)
            return Explain(statement=rest.statement())
        return Explain(query_id=self._name("EXPLAIN", "a query's id, or a SELECT, CREATE or INSERT statement").name)

    def _drop(self) -> Statement:
        kind = self._need("DROP", "STREAM", "TABLE").upper()
        if_exists = self._accept("IF")
        if if_exists:
            self._need("IF", "EXISTS")
        name = self._name(kind, f"the {kind.lower()}'s name").name
        delete = self._accept("DELETE")
        if delete:
            self._need("DELETE", "TOPIC")
        return Drop(kind=kind, name=name, if_exists=if_exists, delete_topic=delete)

    def _print(self) -> Statement:
        token = self._take_any("PRINT", "a topic's name")
        if not token.is_name and token.kind is not Kind.STRING:
            raise _at(token, f"a topic's name belongs behind PRINT, not {token.text}")
        topic = token.string if token.kind is Kind.STRING else token.name
        from_beginning = self._accept("FROM")
        if from_beginning:
            self._need("FROM", "BEGINNING")
        if self._is_word("INTERVAL", "SAMPLE"):
            raise self._wrong("PRINT prints every record: INTERVAL is not supported, LIMIT is")
        return Print(topic=topic, from_beginning=from_beginning, limit=self._limit())

    # --- queries

    def _select(self) -> Statement:
        """A push query where EMIT stands outside of parentheses; anything else is Spark's."""
        depth = 0
        for token in self._tokens[self._at :]:
            depth += token.is_symbol("(", "[") - token.is_symbol(")", "]")
            if depth == 0 and token.is_word("EMIT"):
                return PushSelect(query=self._query(needs_emit=True))
        names = dict.fromkeys(token.name for token in self._tokens[self._at :] if token.is_name)
        self._at = len(self._tokens)
        return BatchSelect(names=tuple(names))

    def _query(self, *, needs_emit: bool) -> Query:
        self._need("AS", "SELECT")
        if self._is_word("DISTINCT"):
            raise self._wrong(NOT_CONTINUOUS["DISTINCT"])
        items = [self._item()]
        while self._accept_symbol(","):
            items.append(self._item())
        self._need("what is selected", "FROM")
        source = self._from("FROM")
        join = self._join()
        window = self._window() if self._accept("WINDOW") else None
        where = self._expr("WHERE") if self._accept("WHERE") else None
        group_by = self._list("GROUP") if self._accept("GROUP") else ()
        partition_by = self._list("PARTITION") if self._accept("PARTITION") else ()
        having = self._expr("HAVING") if self._accept("HAVING") else None
        is_final = False
        if self._accept("EMIT"):
            is_final = self._need("EMIT", "CHANGES", "FINAL").upper() == "FINAL"
        limit = self._limit()
        if self._more:
            word = self._next_text().upper()
            raise self._wrong(NOT_CONTINUOUS.get(word) or self._misplaced(word))
        if limit is not None and not needs_emit:
            raise self._wrong("LIMIT is for a SELECT at the prompt: a query that is kept has no end")
        return Query(tuple(items), source, join, window, where, group_by, partition_by, having, is_final, limit)

    def _misplaced(self, word: str) -> str:
        order = "FROM, JOIN, WINDOW, WHERE, GROUP BY, PARTITION BY, HAVING, EMIT CHANGES, LIMIT"
        if word in CLAUSES:
            return f"{word} does not belong here: the order is {order}"
        return f"{self._next_text()} does not belong here: {order} follow what is selected, in this order"

    def _item(self) -> Item:
        if self._accept_symbol("*"):
            return Item(None)
        if (
            len(self._tokens) > self._at + 2
            and self._tokens[self._at].is_name
            and self._tokens[self._at + 1].is_symbol(".")
            and self._tokens[self._at + 2].is_symbol("*")
        ):
            name = self._take().name
            self._at += 2
            return Item(None, star_of=name)
        expr = self._expr("SELECT", ends=("AS",))
        if self._accept("AS"):
            return Item(expr, self._name("AS", "a column's name").name)
        if _ends_with_alias(expr.tokens):
            return Item(Expr(expr.tokens[:-1]), expr.tokens[-1].name)
        return Item(expr)

    def _from(self, behind: str) -> From:
        if self._is_symbol("("):
            raise self._wrong(
                "a continuous query reads streams and tables by their names: CREATE STREAM ... AS SELECT the inner one"
            )
        token = self._name(behind, "a stream's or a table's name")
        if self._accept("AS") or (self._more and self._tokens[self._at].is_name and not self._is_word(*CLAUSES, "AS")):
            return From(token.name, self._name("AS", "an alias").name, token)
        if self._is_symbol(","):
            raise self._wrong("a continuous query joins with JOIN ... ON, not with a comma")
        return From(token.name, token.name, token)

    def _join(self) -> JoinClause | None:
        if not self._is_word("INNER", "LEFT", "RIGHT", "FULL", "CROSS", "JOIN"):
            return None
        first = self._tokens[self._at]
        if self._is_word("RIGHT", "CROSS"):
            raise self._wrong(NOT_CONTINUOUS[first.text.upper()])
        word = "INNER" if self._is_word("JOIN") else self._take().text.upper()
        if word in ("LEFT", "FULL"):
            self._accept("OUTER")
        self._need(word, "JOIN")
        right = self._from("JOIN")
        within = self._within() if self._accept("WITHIN") else None
        self._need(f"JOIN {right.name}", "ON", "WITHIN")
        on = self._expr("ON")
        if self._is_word("INNER", "LEFT", "RIGHT", "FULL", "CROSS", "JOIN"):
            raise self._wrong(
                "a continuous query joins two: CREATE STREAM or TABLE ... AS SELECT of the first join, and join that"
            )
        return JoinClause({"INNER": "inner", "LEFT": "left", "FULL": "outer"}[word], right, on, within, first)

    def _within(self) -> Within:
        if self._accept_symbol("("):
            before = self._duration("WITHIN (")
            self._need_symbol(",", "the first duration")
            after = self._duration(",")
            self._need_symbol(")", "the second duration")
        else:
            before = after = self._duration("WITHIN")
        return Within(before, after, self._grace())

    def _grace(self) -> int | None:
        if not self._accept("GRACE"):
            return None
        self._need("GRACE", "PERIOD")
        return self._duration("GRACE PERIOD", at_least=0)

    def _window(self) -> Window:
        kind = self._need("WINDOW", "TUMBLING", "HOPPING", "SESSION").upper()
        self._need_symbol("(", f"WINDOW {kind}")
        if kind == "SESSION":
            size, advance = self._duration("SESSION ("), None
        else:
            self._need(f"{kind} (", "SIZE")
            size, advance = self._duration("SIZE"), None
        grace: int | None = None
        while self._accept_symbol(","):
            if self._is_word("GRACE") and grace is None:
                grace = self._grace()
            elif kind == "HOPPING" and advance is None and self._accept("ADVANCE"):
                self._need("ADVANCE", "BY")
                token = self._tokens[min(self._at, len(self._tokens) - 1)]
                advance = self._duration("ADVANCE BY")
                if advance > size:
                    raise _at(token, "the windows would leave gaps: ADVANCE BY is at most as long as SIZE")
            elif self._is_word("RETENTION"):
                raise self._wrong("RETENTION is not needed: state is kept until a window's GRACE PERIOD is over")
            else:
                more = "ADVANCE BY or GRACE PERIOD" if kind == "HOPPING" else "GRACE PERIOD"
                raise self._wrong(f"{more} belongs here, not {self._next_text()}")
        if kind == "HOPPING" and advance is None:
            raise self._wrong("hopping windows need ADVANCE BY: HOPPING (SIZE 1 HOUR, ADVANCE BY 10 MINUTES)")
        self._need_symbol(")", f"WINDOW {kind} (...", ",")
        return Window(kind, size, advance, grace)

    def _duration(self, behind: str, at_least: int = 1) -> int:
        token = self._tokens[min(self._at, len(self._tokens) - 1)]
        count = self._integer(behind, "a duration: 10 MINUTES")
        unit = self._take_any(str(count), "a unit: SECONDS, MINUTES, HOURS, DAYS")
        scale = UNITS_MS.get(unit.text.upper().removesuffix("S"))
        if scale is None:
            raise _at(unit, f"{unit.text} is no unit of time: there are {', '.join(f'{one}S' for one in UNITS_MS)}")
        if count < at_least:
            raise _at(token, f"a duration here is at least {at_least} {unit.text}")
        return count * scale

    def _list(self, word: str) -> tuple[Expr, ...]:
        self._need(word, "BY")
        found = [self._expr(f"{word} BY")]
        while self._accept_symbol(","):
            found.append(self._expr(","))
        return tuple(found)

    def _limit(self) -> int | None:
        return self._integer("LIMIT", "how many rows") if self._accept("LIMIT") else None

    def _expr(self, behind: str, ends: tuple[str, ...] = ()) -> Expr:
        """Tokens up to a comma, a closing parenthesis or a clause outside of parentheses."""
        begun, depth, cases = self._at, 0, 0
        opened: list[Token] = []
        while self._more:
            token = self._tokens[self._at]
            if token.is_symbol("(", "[", "{"):
                opened.append(token)
            elif token.is_symbol(")", "]", "}"):
                if not opened:
                    break
                opened.pop()
            elif not opened:
                cases += token.is_word("CASE") - token.is_word("END")
                if token.is_symbol(",") or (token.is_word(*ends) and cases <= 0):
                    break
                if token.is_word(*CLAUSES) and not self._is_operand(begun):
                    break
            depth = len(opened)
            self._at += 1
        if depth and not self._more:
            raise _at(opened[0], f"{opened[0].text} has no end")
        if self._at == begun:
            raise self._wrong(f"an expression belongs behind {behind}" + self._instead())
        return Expr(tuple(self._tokens[begun : self._at]))

    def _is_operand(self, begun: int) -> bool:
        """Whether a word that may begin a clause belongs to the expression: IS DISTINCT FROM, LEFT(x, 2), x.left."""
        token = self._tokens[self._at]
        following = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else None
        before = self._tokens[self._at - 1] if self._at > begun else None
        if token.is_word("FROM"):
            return before is not None and before.is_word("DISTINCT")
        if before is not None and before.is_symbol("."):
            return True
        return token.is_word("LEFT", "RIGHT") and following is not None and following.is_symbol("(")

    # --- tokens

    @property
    def _more(self) -> bool:
        return self._at < len(self._tokens)

    def _take(self) -> Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _take_any(self, behind: str, wanted: str) -> Token:
        if not self._more:
            raise self._wrong(f"{wanted} belongs behind {behind}, and the statement ends")
        return self._take()

    def _is_word(self, *words: str) -> bool:
        return self._more and self._tokens[self._at].is_word(*words)

    def _is_symbol(self, *symbols: str) -> bool:
        return self._more and self._tokens[self._at].is_symbol(*symbols)

    def _accept(self, word: str) -> bool:
        found = self._is_word(word)
        self._at += found
        return found

    def _accept_symbol(self, symbol: str) -> bool:
        found = self._is_symbol(symbol)
        self._at += found
        return found

    def _need(self, behind: str, *words: str) -> str:
        if not self._is_word(*words):
            raise self._wrong(f"{' or '.join(words)} belongs behind {behind}{self._instead()}")
        return self._take().text

    def _need_symbol(self, symbol: str, behind: str, *others: str) -> None:
        if not self._accept_symbol(symbol):
            raise self._wrong(f"{' or '.join((symbol, *others))} belongs behind {behind}{self._instead()}")

    def _name(self, behind: str, wanted: str) -> Token:
        if not self._more or not self._tokens[self._at].is_name:
            raise self._wrong(f"{wanted} belongs behind {behind}{self._instead()}")
        token = self._take()
        if not token.name:
            raise _at(token, "a name in backquotes is empty")
        return token

    def _string(self, behind: str, wanted: str) -> str:
        if not self._more or self._tokens[self._at].kind is not Kind.STRING:
            raise self._wrong(f"{wanted} belongs behind {behind}{self._instead()}")
        return self._take().string

    def _integer(self, behind: str, wanted: str) -> int:
        text = self._next_text()
        if not self._more or not (text.isascii() and text.isdigit()) or len(text) > 18:
            raise self._wrong(f"{wanted} belongs behind {behind}, a whole number{self._instead()}")
        return int(self._take().text)

    def _next_text(self) -> str:
        return self._tokens[self._at].text if self._more else ""

    def _instead(self) -> str:
        return f", not {self._next_text()}" if self._more else ", and the statement ends"

    def _wrong(self, message: str) -> SyntaxProblem:
        if self._more:
            return _at(self._tokens[self._at], message)
        return SyntaxProblem(message, *position(self._text, self._tokens[-1].end))


def _ends_with_alias(tokens: Sequence[Token]) -> bool:
    """Whether two operands stand at the end, so that the last one is an alias without AS."""
    if len(tokens) < 2 or not _may_end(tokens[-1]) or not tokens[-1].is_name:
        return False
    before = tokens[-2]
    if len(tokens) > 2 and tokens[-3].is_word("INTERVAL"):
        return False
    is_operand = before.is_symbol(")", "]") or before.is_word("END", "NULL", "TRUE", "FALSE")
    return is_operand or before.kind in (Kind.STRING, Kind.NUMBER) or _may_end(before)


def _may_end(token: Token) -> bool:
    """Whether a name can be an operand."""
    return token.kind is Kind.QUOTED or (
        token.kind is Kind.WORD
        and token.text.upper() not in KEYWORDS
        and not token.is_word("TO", "COLLATE", "INTERVAL")
    )


def _at(token: Token, message: str) -> SyntaxProblem:
    return SyntaxProblem(message, token.line, token.column)


def duration(text: str) -> int:
    """Milliseconds of a text such as `1 HOUR`."""
    tokens = tokenize(text)
    if not tokens:
        raise SyntaxProblem("a duration belongs here: 1 HOUR", 1, 1)
    parser = _Parser(text, tokens)
    found = parser._duration("WINDOW_SIZE")
    if parser._more:
        raise parser._wrong(f"a duration is a number and a unit, and {parser._next_text()} is more")
    return found

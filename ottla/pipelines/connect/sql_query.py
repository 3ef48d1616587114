"""The query of a `sql` transform, as far as it can be read without Spark: which tables it names, and where its rows
come from.

Spark parses and runs the query. What is found here is only where names of tables stand in it, for `validate` and for
the views that Spark gets, and where one more column can be put into the outermost SELECT: the record that a row was
made of, which the query does not name and the sink needs. Called by `spec` and `flow`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<quoted>`(?:[^`]|``)*`)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<other>\d[\w.]*|.)""",
    re.VERBOSE | re.DOTALL,
)
_AFTER_FROM = frozenset({"WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET",
                         "WINDOW", "UNION", "INTERSECT", "EXCEPT", "MINUS", "QUALIFY"})  # fmt: skip
"""Words that end the list of tables."""
_NO_ALIAS = _AFTER_FROM | {
    "JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL", "ON", "USING", "LATERAL",
    "TABLESAMPLE", "PIVOT", "UNPIVOT", "AS", "SELECT", "FROM",
}  # fmt: skip
_SETS = frozenset({"UNION", "INTERSECT", "EXCEPT", "MINUS"})


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    is_name: bool
    """A word or a quoted name."""

    @property
    def word(self) -> str:
        return self.text.upper() if self.is_name else self.text

    @property
    def name(self) -> str:
        return self.text[1:-1].replace("``", "`") if self.text.startswith("`") else self.text


@dataclass(frozen=True, slots=True)
class Table:
    """A table that a query reads, by a name of one part."""

    name: str
    alias: str
    """How the query calls it, as it is written there."""
    is_outermost: bool
    """Whether it stands in the FROM of the outermost SELECT."""


@dataclass(slots=True)
class _Level:
    """What stands between two parentheses, or around all of them."""

    is_query: bool
    in_from: bool = False
    wants_table: bool = False
    wants_cte: bool = False


@dataclass(slots=True)
class Query:
    """A query, read once."""

    text: str
    tables: list[Table] = field(default_factory=list)
    """In their order, without those that the query itself makes by WITH."""
    _from_at: int | None = None
    _selects: int = 0
    _has_set: bool = False

    @property
    def names(self) -> list[str]:
        """The names of the tables, each once, in their order."""
        return list(dict.fromkeys(table.name for table in self.tables))

    def with_column(self, column: str, alias: str, tables: list[str]) -> str | None:
        """The query with one more column, of the first of these tables that its outermost SELECT reads.

        None where that is not one SELECT, or reads none of them.
        """
        if self._from_at is None or self._selects != 1 or self._has_set:
            return None
        known = {name.lower() for name in tables}
        for table in self.tables:
            if table.is_outermost and table.name.lower() in known:
                added = f", {table.alias}.{column} AS {alias} "
                return f"{self.text[: self._from_at]}{added}{self.text[self._from_at :]}"
        return None


def read(text: str) -> Query:
    """What is to be known of a query; of one that Spark will refuse, whatever there is."""
    tokens = [
        _Token(found[0], found.start(), found.lastgroup in ("word", "quoted"))
        for found in _TOKEN.finditer(text)
        if found.lastgroup != "space"
    ]
    query = Query(text)
    levels, made, index = [_Level(is_query=True)], set(), 0
    while index < len(tokens):
        token, level = tokens[index], levels[-1]
        word, after = token.word, tokens[index + 1].word if index + 1 < len(tokens) else ""
        index += 1
        if word == "(":
            # A list of tables may stand in parentheses of its own, without a query.
            is_query = after in ("SELECT", "WITH", "VALUES", "FROM")
            tables = level.wants_table and not is_query
            levels.append(_Level(is_query or tables, in_from=tables, wants_table=tables))
            level.wants_table = False
        elif word == ")":
            if len(levels) > 1:
                levels.pop()
        elif not level.is_query:
            continue
        elif word == "WITH" or (word == "," and level.wants_cte):
            level.wants_cte = True
            if index < len(tokens) and tokens[index].is_name:
                made.add(tokens[index].name.lower())
                index += 1
        elif word == "SELECT":
            level.wants_cte = False
            query._selects += len(levels) == 1
        elif word in _AFTER_FROM:
            level.in_from = level.wants_table = False
            query._has_set |= word in _SETS and len(levels) == 1
        elif word == "FROM" and tokens[index - 2].word != "DISTINCT":
            level.in_from = level.wants_table = True
            if len(levels) == 1 and query._from_at is None:
                query._from_at = token.start
        elif level.in_from and word in ("JOIN", ","):
            level.wants_table = True
        elif level.wants_table and token.is_name and word != "LATERAL":
            level.wants_table = False
            is_part = after in (".", "(")  # of a name of several parts, or a function that makes a table
            if not is_part:
                alias, index = _alias(tokens, index, token)
                query.tables.append(Table(token.name, alias, len(levels) == 1))
        else:
            level.wants_table = False
    query.tables = [table for table in query.tables if table.name.lower() not in made]
    return query


def _alias(tokens: list[_Token], index: int, token: _Token) -> tuple[str, int]:
    """How a table is called that stands before a token, and the token after."""
    if index < len(tokens) and tokens[index].word == "AS":
        index += 1
    if index < len(tokens) and tokens[index].is_name and tokens[index].word not in _NO_ALIAS:
        return tokens[index].text, index + 1
    return token.text, index

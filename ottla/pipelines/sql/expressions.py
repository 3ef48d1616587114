"""Names in expressions, turned into where a topology's step finds them.

An expression stays Spark's: only the names of columns are replaced, `amount` by ``value.`amount` ``, and, where a query
groups, aggregates and grouped expressions by what has been worked out. Whatever else is wrong with an expression Spark
says. Names in backquotes are always columns; a bare word is one where no keyword, function, type or unit can stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from ottla.pipelines.sql.errors import SqlError, SyntaxProblem
from ottla.pipelines.sql.statements import Expr
from ottla.pipelines.sql.tokens import Kind, Token

AGGREGATES = ("COUNT", "SUM", "MIN", "MAX", "AVG")
OTHER_AGGREGATES = frozenset({
    "ANY_VALUE", "APPROX_COUNT_DISTINCT", "APPROX_PERCENTILE", "ARRAY_AGG", "BOOL_AND", "BOOL_OR", "COLLECT_LIST",
    "COLLECT_SET", "CORR", "COUNT_DISTINCT", "COUNT_IF", "EARLIEST_BY_OFFSET", "EVERY", "FIRST", "FIRST_VALUE",
    "HISTOGRAM", "KURTOSIS", "LAST", "LAST_VALUE", "LATEST_BY_OFFSET", "LISTAGG", "MAX_BY", "MEAN", "MEDIAN", "MIN_BY",
    "MODE", "PERCENTILE", "SKEWNESS", "SOME", "STD", "STDDEV", "STDDEV_POP", "STDDEV_SAMP", "STRING_AGG", "TOPK",
    "TOPKDISTINCT", "VARIANCE", "VAR_POP", "VAR_SAMP",
})  # fmt: skip
KEYWORDS = frozenset({
    "AND", "OR", "NOT", "IS", "NULL", "TRUE", "FALSE", "CASE", "WHEN", "THEN", "ELSE", "END", "LIKE", "ILIKE", "RLIKE",
    "IN", "BETWEEN", "DIV", "DISTINCT", "FROM", "AS", "INTERVAL", "ESCAPE", "CAST", "EXISTS", "BOTH", "LEADING",
    "TRAILING", "FOR",
})  # fmt: skip
UNIT_FUNCTIONS = ("EXTRACT", "TIMESTAMPADD", "TIMESTAMPDIFF", "DATEADD", "DATEDIFF", "DATE_ADD", "DATE_DIFF")
"""Functions whose first argument may be a unit of time, a bare word."""
GENERATORS = ("EXPLODE", "EXPLODE_OUTER", "POSEXPLODE", "POSEXPLODE_OUTER", "INLINE", "INLINE_OUTER", "STACK")
ROWTIME, WINDOWSTART, WINDOWEND, ROWKEY = "ROWTIME", "WINDOWSTART", "WINDOWEND", "ROWKEY"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an expression: a token, or what it was replaced by. `column` is what it names: of which alias, what."""

    text: str
    is_apart: bool
    token: Token
    column: tuple[str, str] | None = None

    def is_symbol(self, *symbols: str) -> bool:
        return self.column is None and self.token.is_symbol(*symbols)

    def is_word(self, *words: str) -> bool:
        return self.column is None and self.token.is_word(*words)


@dataclass(frozen=True, slots=True)
class Side:
    """What a query reads, by the name it has there. `refs` are the texts for its columns, by their names."""

    alias: str
    refs: Mapping[str, str]

    def find(self, name: str) -> str | None:
        """The column's name as it was created."""
        return next((one for one in self.refs if one.lower() == name.lower()), None)


def column_name(piece: Piece) -> str | None:
    """The column that a piece names."""
    return None if piece.column is None else piece.column[1]


def text(pieces: Sequence[Piece]) -> str:
    """Pieces as Spark gets them."""
    parts: list[str] = []
    for piece in pieces:
        if parts and piece.is_apart:
            parts.append(" ")
        parts.append(piece.text)
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Scope:
    """What names mean at one place of a query. `more` are names that belong to no side."""

    sides: tuple[Side, ...]
    more: Mapping[str, str]

    def resolve(self, expr: Expr) -> list[Piece]:
        """An expression with its columns replaced."""
        refuse_unsupported(expr.tokens)
        hidden = _hidden(expr.tokens)
        pieces: list[Piece] = []
        at = 0
        tokens = expr.tokens
        while at < len(tokens):
            token = tokens[at]
            if at in hidden or not _may_be_column(tokens, at):
                pieces.append(Piece(token.text, token.is_apart, token))
                at += 1
                continue
            side = self._side(tokens, at)
            if side is not None:
                name = tokens[at + 2]
                column = self._column(side, name)
                pieces.append(Piece(side.refs[column], token.is_apart, token, (side.alias, column)))
                at += 3
                continue
            pieces.append(self._bare(token))
            at += 1
        return pieces

    def _side(self, tokens: Sequence[Token], at: int) -> Side | None:
        """The side that `alias.column` begins with."""
        if at + 2 >= len(tokens) or not tokens[at + 1].is_symbol(".") or not tokens[at + 2].is_name:
            return None
        return next((one for one in self.sides if one.alias.lower() == tokens[at].name.lower()), None)

    def _column(self, side: Side, name: Token) -> str:
        column = side.find(name.name)
        if column is None:
            raise SyntaxProblem(_unknown(name.name, side), name.line, name.column)
        return column

    def _bare(self, token: Token) -> Piece:
        found = [(side, column) for side in self.sides if (column := side.find(token.name)) is not None]
        own = next((one for one in self.more if one.lower() == token.name.lower()), None)
        if own is not None and (not found or len(self.sides) > 1):
            return Piece(self.more[own], token.is_apart, token, ("", own))
        if len(found) > 1:
            listed = " or ".join(f"{side.alias}.{column}" for side, column in found)
            raise SyntaxProblem(f"{token.name} is in both: {listed}", token.line, token.column)
        if not found:
            if token.kind is Kind.QUOTED:
                unknown = _unknown(token.name, *self.sides)
                raise SyntaxProblem(unknown, token.line, token.column)
            return Piece(token.text, token.is_apart, token)
        ((side, column),) = found
        return Piece(side.refs[column], token.is_apart, token, (side.alias, column))


def _unknown(name: str, *sides: Side) -> str:
    known = [column for side in sides for column in side.refs if column != ROWTIME]
    near = get_close_matches(name, known, 1)
    hint = f"is {near[0]} meant?" if near else f"there are {', '.join(known)}"
    return f"{' and '.join(side.alias for side in sides)} has no column {name}: {hint}"


def refuse_unsupported(tokens: Sequence[Token]) -> None:
    """A continuous query has no SELECTs within expressions, no generators and none of SQL's window functions."""
    for index, token in enumerate(tokens):
        if token.is_word("SELECT") and index and tokens[index - 1].is_symbol("("):
            raise SyntaxProblem(
                "a SELECT within an expression is not supported in a continuous query: JOIN its stream or table",
                token.line, token.column,
            )  # fmt: skip
        if token.is_word(*GENERATORS) and index + 1 < len(tokens) and tokens[index + 1].is_symbol("("):
            raise SyntaxProblem(
                f"{token.text.upper()} is not supported in a continuous query: flat_map_values of a topology makes "
                "several records of one",
                token.line, token.column,
            )  # fmt: skip
        if token.is_word("OVER") and index + 1 < len(tokens) and tokens[index + 1].is_symbol("("):
            raise SyntaxProblem(
                "OVER (...) is not supported in a continuous query: WINDOW TUMBLING, HOPPING and SESSION are",
                token.line, token.column,
            )  # fmt: skip


def _may_be_column(tokens: Sequence[Token], at: int) -> bool:
    """Whether a token stands where a column can."""
    token = tokens[at]
    before = tokens[at - 1] if at else None
    after = tokens[at + 1] if at + 1 < len(tokens) else None
    if not token.is_name or (before is not None and before.is_symbol(".")):
        return False
    if after is not None and after.is_symbol("=>"):
        return False
    if token.kind is Kind.QUOTED:
        return True
    if token.text.upper() in KEYWORDS or (after is not None and (after.is_symbol("(") or after.kind is Kind.STRING)):
        return False
    if before is None:
        return True
    if before.is_symbol("::") or before.kind is Kind.NUMBER or before.is_word("INTERVAL", "TO"):
        return False
    second = tokens[at - 2] if at > 1 else None
    if second is not None and before.kind is Kind.STRING and second.is_word("INTERVAL"):
        return False
    return not (second is not None and before.is_symbol("(") and second.is_word(*UNIT_FUNCTIONS))


def _hidden(tokens: Sequence[Token]) -> set[int]:
    """The places of tokens that are types of a cast, or a lambda's own arguments."""
    hidden: set[int] = set()
    ends = _ends(tokens)
    for index, token in enumerate(tokens):
        enclosing = next(
            ((start, end) for start, end in reversed(ends.items()) if start < index < end), (-1, len(tokens))
        )
        if token.is_word("AS") and enclosing[0] >= 0:
            hidden.update(range(index, enclosing[1]))
        if token.is_symbol("->"):
            arguments = _arguments(tokens, index, ends)
            names = {tokens[place].name.lower() for place in arguments}
            body_end = enclosing[1]
            hidden.update(
                place
                for place in (*arguments, *range(index + 1, body_end))
                if tokens[place].is_name
                and tokens[place].name.lower() in names
                and not (place and tokens[place - 1].is_symbol("."))
            )
    return hidden


def _arguments(tokens: Sequence[Token], arrow: int, ends: Mapping[int, int]) -> list[int]:
    """Where the names are that a lambda's arrow follows."""
    if arrow and tokens[arrow - 1].is_name:
        return [arrow - 1]
    start = next((start for start, end in ends.items() if end == arrow - 1), arrow)
    return [place for place in range(start, arrow) if tokens[place].is_name]


def _ends(tokens: Sequence[Token]) -> dict[int, int]:
    """Where each opening parenthesis has its closing one, in the order in which they open."""
    opened: list[int] = []
    ends: dict[int, int] = {}
    for index, token in enumerate(tokens):
        if token.is_symbol("(", "[", "{"):
            opened.append(index)
            ends[index] = len(tokens)
        elif token.is_symbol(")", "]", "}") and opened:
            ends[opened.pop()] = index
    return ends


# --- aggregates


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate: its name and what it is of, None for all records."""

    name: str
    argument: str | None


def has_aggregates(expr: Expr) -> bool:
    """Whether any function in it is an aggregate."""
    return any(
        token.is_word(*AGGREGATES) and expr.tokens[index + 1].is_symbol("(")
        for index, token in enumerate(expr.tokens[:-1])
        if not (index and expr.tokens[index - 1].is_symbol("."))
    )


class Grouping:
    """The expressions of a query that groups: what they gather, and how they read it."""

    def __init__(self, groups: Sequence[Sequence[Piece]], group_refs: Sequence[str], more: Mapping[str, str]) -> None:
        self._groups = [_shape(group) for group in groups]
        self._refs = list(group_refs)
        self._more = {name.lower(): ref for name, ref in more.items()}
        self.calls: list[Call] = []

    def read(self, pieces: Sequence[Piece]) -> str:
        """An expression over grouped expressions and aggregates, as text over the table they become."""
        found: list[Piece] = []
        at = 0
        while at < len(pieces):
            piece = pieces[at]
            following = pieces[at + 1] if at + 1 < len(pieces) else None
            is_call = following is not None and following.is_symbol("(")
            if is_call and piece.is_word(*AGGREGATES):
                end = _close(pieces, at + 1)
                ref = self._call(piece, pieces[at + 2 : end])
                found.append(replace(piece, text=ref, column=("", "aggregate")))
                at = end + 1
                self._refuse_filter(pieces, at)
                continue
            if is_call and piece.is_word(*OTHER_AGGREGATES):
                raise _at(
                    piece,
                    f"{piece.text.upper()} is not supported in a continuous query: {', '.join(AGGREGATES)} are",
                )
            group = self._group(pieces, at)
            if group is not None:
                index, size = group
                found.append(replace(piece, text=self._refs[index], column=("", "group")))
                at += size
                continue
            name = column_name(piece)
            if name is not None and name.lower() in self._more:
                found.append(replace(piece, text=self._more[name.lower()]))
            elif name is not None:
                raise _at(piece, f"{name} is neither grouped nor aggregated: GROUP BY {name}, or MAX({name})")
            else:
                found.append(piece)
            at += 1
        return text(found)

    def group_of(self, pieces: Sequence[Piece]) -> int | None:
        """Which grouped expression this is, as a whole."""
        shape = _shape(pieces)
        return self._groups.index(shape) if shape in self._groups else None

    def _group(self, pieces: Sequence[Piece], at: int) -> tuple[int, int] | None:
        """The longest grouped expression that begins here."""
        best: tuple[int, int] | None = None
        for index, group in enumerate(self._groups):
            size = len(group)
            is_better = best is None or size > best[1]
            if is_better and _shape(pieces[at : at + size]) == group and _stands_alone(pieces, at, size):
                best = (index, size)
        return best

    def _call(self, piece: Piece, inner: Sequence[Piece]) -> str:
        name = piece.text.upper()
        if any(one.is_word("DISTINCT") for one in inner[:1]):
            raise _at(piece, f"{name}(DISTINCT ...) is not supported in a continuous query: GROUP BY it as well")
        for index, one in enumerate(inner[:-1]):
            if one.is_word(*AGGREGATES) and inner[index + 1].is_symbol("("):
                raise _at(one, f"an aggregate of an aggregate is not supported: {name}({one.text.upper()}(...))")
        if name == "COUNT" and (not inner or (len(inner) == 1 and inner[0].is_symbol("*"))):
            call = Call(name, None)
        elif not inner or inner[0].is_symbol("*"):
            raise _at(piece, f"{name} needs something to be of: {name}(amount)")
        else:
            call = Call(name, text(inner))
        if call not in self.calls:
            self.calls.append(call)
        return f"value.f{self.calls.index(call)}"

    def _refuse_filter(self, pieces: Sequence[Piece], at: int) -> None:
        if at < len(pieces) and pieces[at].is_word("FILTER"):
            raise _at(pieces[at], "FILTER is not supported in a continuous query: SUM(CASE WHEN ... THEN ... END)")


def _shape(pieces: Sequence[Piece]) -> list[str]:
    """Pieces without what makes no difference: case of words, spaces."""
    return [
        piece.text.lower() if piece.column is not None or piece.token.kind is Kind.WORD else piece.text
        for piece in pieces
    ]


def _stands_alone(pieces: Sequence[Piece], at: int, size: int) -> bool:
    """Whether pieces are one operand, so that what follows does not take a part of them: `a + b` in `a + b * 2`."""
    if size == 1:
        return True
    if pieces[at + 1].is_symbol("(") and pieces[at].token.is_name and _close(pieces, at + 1) == at + size - 1:
        return True
    before = pieces[at - 1] if at else None
    after = pieces[at + size] if at + size < len(pieces) else None
    return (before is None or before.is_symbol("(", ",")) and (after is None or after.is_symbol(")", ","))


def same(left: Sequence[Piece], right: Sequence[Piece]) -> bool:
    """Whether two expressions are the same, letter by letter but for case and space."""
    return _shape(left) == _shape(right)


def _close(pieces: Sequence[Piece], opening: int) -> int:
    depth = 0
    for index in range(opening, len(pieces)):
        depth += pieces[index].is_symbol("(", "[", "{") - pieces[index].is_symbol(")", "]", "}")
        if depth == 0:
            return index
    raise _at(pieces[opening], "( has no end")


def split_equality(expr: Expr) -> tuple[Expr, Expr]:
    """The two sides of ON: one equality, outside of parentheses."""
    tokens = expr.tokens
    while tokens and tokens[0].is_symbol("(") and _ends(tokens).get(0) == len(tokens) - 1:
        tokens = tokens[1:-1]
    depth, places = 0, []
    for index, token in enumerate(tokens):
        depth += token.is_symbol("(", "[", "{") - token.is_symbol(")", "]", "}")
        if depth == 0 and token.is_symbol("=", "=="):
            places.append(index)
        elif depth == 0 and token.is_word("AND", "OR"):
            raise SyntaxProblem(
                "ON takes one equality in a continuous query: put the rest behind WHERE",
                token.line, token.column,
            )  # fmt: skip
    if len(places) != 1 or places[0] in (0, len(tokens) - 1):
        first = expr.tokens[0]
        raise SyntaxProblem("ON takes one equality: ON a.id = b.id", first.line, first.column)
    return Expr(tokens[: places[0]]), Expr(tokens[places[0] + 1 :])


def _at(piece: Piece, message: str) -> SqlError:
    return SyntaxProblem(message, piece.token.line, piece.token.column)

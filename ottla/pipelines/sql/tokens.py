"""SQL text as tokens, with their places: what the parser and the planner read.

Tokens are those of Spark SQL: words, names in backquotes, strings in single or double quotes, numbers, symbols.
Comments and spaces are left out, but for whether there was any in front of a token. Promises: any text gives tokens or
a `SyntaxProblem`; a token's text is what Spark gets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from ottla.pipelines.sql.errors import SyntaxProblem, Unfinished


class Kind(Enum):
    """What a token is."""

    WORD = "word"
    QUOTED = "name in backquotes"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `is_apart`: whether there is space or a comment in front of it."""

    kind: Kind
    text: str
    line: int
    column: int
    start: int
    is_apart: bool = True

    @property
    def end(self) -> int:
        """Where it ends in the text it is from."""
        return self.start + len(self.text)

    @property
    def is_name(self) -> bool:
        """Whether it can be a name."""
        return self.kind in (Kind.WORD, Kind.QUOTED)

    @property
    def name(self) -> str:
        """The name it says, without backquotes."""
        return self.text[1:-1].replace("``", "`") if self.kind is Kind.QUOTED else self.text

    @property
    def string(self) -> str:
        """The text that a string literal stands for."""
        if self.text[0] in "rR":
            return self.text[2:-1]
        quote, inner = self.text[0], self.text[1:-1]
        return re.sub(r"\\(.)", _unescaped, inner.replace(quote * 2, quote), flags=re.DOTALL)

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these words, in any case; a name in backquotes is never one."""
        return self.kind is Kind.WORD and self.text.upper() in words

    def is_symbol(self, *symbols: str) -> bool:
        """Whether it is one of these symbols."""
        return self.kind is Kind.SYMBOL and self.text in symbols


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b"}


def _unescaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[1], found[1])


_SPACE = re.compile(r"\s+")
_LINE_COMMENT = re.compile(r"--[^\n]*")
_WORD = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?[A-Za-z]{0,2}(?!\w)")
_QUOTED = re.compile(r"`(?:[^`]|``)*`")
_STRINGS = {"'": re.compile(r"'(?:[^'\\]|\\.|'')*'", re.DOTALL), '"': re.compile(r'"(?:[^"\\]|\\.|"")*"', re.DOTALL)}
_RAW = {"'": re.compile(r"[rR]'[^']*'"), '"': re.compile(r'[rR]"[^"]*"')}
_SYMBOL = re.compile(r"<=>|->|=>|<=|>=|<>|!=|==|\|\||\|>|::|<<|>>|[-+*/%=<>!&|^~?.,;:()\[\]{}@$#]")
_COMMENT_EDGE = re.compile(r"/\*|\*/")


def tokenize(text: str) -> list[Token]:
    """The tokens of a text."""
    return list(_Reader(text).tokens())


def position(text: str, at: int) -> tuple[int, int]:
    """The line and the column of a place in a text, from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def render(tokens: Sequence[Token] | Iterable[Token]) -> str:
    """Tokens as text, with one space where there was any."""
    parts: list[str] = []
    for token in tokens:
        if parts and token.is_apart:
            parts.append(" ")
        parts.append(token.text)
    return "".join(parts)


def quoted(name: str) -> str:
    """A name as Spark always takes it."""
    return "`" + name.replace("`", "``") + "`"


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line, self._line_start = 1, 0

    def tokens(self) -> Iterable[Token]:
        while True:
            is_apart = self._skip()
            if self._at >= len(self._text):
                return
            kind, end = self._next()
            line, column = self._place()
            token = Token(kind, self._text[self._at : end], line, column, self._at, is_apart)
            self._move(end)
            yield token

    def _place(self) -> tuple[int, int]:
        return self._line, self._at - self._line_start + 1

    def _move(self, end: int) -> None:
        newlines = self._text.count("\n", self._at, end)
        if newlines:
            self._line += newlines
            self._line_start = self._text.rfind("\n", 0, end) + 1
        self._at = end

    def _skip(self) -> bool:
        """Goes behind spaces and comments; whether there were any."""
        begun = self._at
        while self._at < len(self._text):
            found = _SPACE.match(self._text, self._at) or _LINE_COMMENT.match(self._text, self._at)
            if found is not None:
                self._move(found.end())
            elif self._text.startswith("/*", self._at):
                self._move(self._comment_end())
            else:
                break
        return self._at > begun

    def _comment_end(self) -> int:
        """Comments nest, as in Spark."""
        depth = 0
        for edge in _COMMENT_EDGE.finditer(self._text, self._at):
            depth += 1 if edge[0] == "/*" else -1
            if depth == 0:
                return edge.end()
        raise Unfinished("the comment that begins here has no end: */ ends it", *self._place())

    def _next(self) -> tuple[Kind, int]:
        text, at = self._text, self._at
        first = text[at]
        if first in "rR" and text[at + 1 : at + 2] in _RAW:
            return Kind.STRING, self._match(_RAW[text[at + 1]], f"string has no end: {text[at + 1]}")
        if first in _STRINGS:
            return Kind.STRING, self._match(_STRINGS[first], f"string has no end: {first}")
        if first == "`":
            return Kind.QUOTED, self._match(_QUOTED, "name has no end: `")
        for kind, pattern in ((Kind.WORD, _WORD), (Kind.NUMBER, _NUMBER), (Kind.SYMBOL, _SYMBOL)):
            found = pattern.match(text, at)
            if found is not None:
                return kind, found.end()
        raise SyntaxProblem(f"{first!r} has no meaning in SQL here", *self._place())

    def _match(self, pattern: re.Pattern[str], missing: str) -> int:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise Unfinished(f"the {missing} ends it", *self._place())
        return found.end()

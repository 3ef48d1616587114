"""Whether a schema or a type is plainly right, without Spark.

Spark alone knows all that its SQL allows, and asking it starts a Java process. Nearly every pipeline file has only
names and types that Spark's documentation lists; those are recognised here, so that `ottla pipeline validate` answers
at once.

Promises: what `is_plain_schema` or `is_plain_type` takes, Spark takes too. What they do not take may still be right:
`sql_check` asks Spark about it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([A-Za-z_][A-Za-z0-9_]*)|(\d+)|('[^'\\]*')|([<>(),:]))")
_SIMPLE = frozenset({
    "boolean", "byte", "tinyint", "short", "smallint", "int", "integer", "long", "bigint", "float", "real", "double",
    "date", "timestamp", "timestamp_ntz", "timestamp_ltz", "string", "binary", "variant",
})  # fmt: skip
_DECIMAL = frozenset({"decimal", "dec", "numeric"})
_TEXT = frozenset({"char", "character", "varchar"})
_RESERVED = frozenset({"not", "null", "comment", "default", "generated", "collate"})
"""Words that mean something after a type; a field of such a name is for Spark to judge."""
PRECISION_MAX = 38


class _NotPlain(Exception):
    """Something else than names and types."""


def is_plain_schema(text: str) -> bool:
    """Whether a text is a list of fields, such as `id BIGINT, place STRUCT<city: STRING>`."""
    return _is(text, lambda reader: reader.fields(colon=False))


def is_plain_type(text: str) -> bool:
    """Whether a text is a type, such as `DECIMAL(10,2)`."""
    return _is(text, lambda reader: reader.type())


def _is(text: str, read: Callable[[_Reader], None]) -> bool:
    try:
        reader = _Reader(text)
        read(reader)
        reader.end()
    except _NotPlain:
        return False
    return True


class _Reader:
    """Reads tokens, one after the other."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        position, text = 0, text.rstrip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise _NotPlain
            self._tokens.append(found[0].strip())
            position = found.end()
        self._tokens.reverse()  # the next one is the last

    def fields(self, *, colon: bool) -> None:
        self._field(colon)
        while self._take(","):
            self._field(colon)

    def type(self) -> None:
        name = self._next().lower()
        if name == "array":
            self._need("<")
            self.type()
            self._need(">")
        elif name == "map":
            self._need("<")
            self.type()
            self._need(",")
            self.type()
            self._need(">")
        elif name == "struct":
            self._need("<")
            self.fields(colon=True)
            self._need(">")
        elif name in _DECIMAL:
            self._precision()
        elif name in _TEXT:
            self._need("(")
            if self._number() < 1:
                raise _NotPlain
            self._need(")")
        elif name not in _SIMPLE:
            raise _NotPlain

    def end(self) -> None:
        if self._tokens:
            raise _NotPlain

    def _field(self, colon: bool) -> None:
        name = self._next()
        if not (name[0] in "`_" or name[0].isalpha()) or name.lower() in _RESERVED:
            raise _NotPlain
        if colon:
            self._take(":")
        self.type()
        if self._take("not"):
            self._need("null")
        if self._take("comment") and not self._next().startswith("'"):
            raise _NotPlain

    def _precision(self) -> None:
        if self._take("("):
            precision = self._number()
            scale = self._number() if self._take(",") else 0
            self._need(")")
            if not (1 <= precision <= PRECISION_MAX and scale <= precision):
                raise _NotPlain

    def _number(self) -> int:
        token = self._next()
        if not token.isdigit():
            raise _NotPlain
        return int(token)

    def _next(self) -> str:
        if not self._tokens:
            raise _NotPlain
        return self._tokens.pop()

    def _take(self, word: str) -> bool:
        if self._tokens and self._tokens[-1].lower() == word:
            self._tokens.pop()
            return True
        return False

    def _need(self, word: str) -> None:
        if not self._take(word):
            raise _NotPlain

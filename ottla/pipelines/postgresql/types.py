"""PostgreSQL's types as Spark's, and values as the JSON that Spark reads them from.

| PostgreSQL | Spark |
|---|---|
| boolean, smallint, integer, bigint, real, double precision | the same |
| numeric(p, s) up to 38 digits | DECIMAL(p, s) |
| numeric without digits, or with more | STRING, for no digit is to be lost |
| date, timestamp, timestamptz | DATE, TIMESTAMP_NTZ, TIMESTAMP |
| bytea | BINARY |
| arrays | ARRAY, as deep as the column is declared |
| oid, xid | BIGINT |
| text, varchar, char, name, citext, xml, uuid, json, jsonb, enums, times, intervals, addresses, bits, money | STRING |

A domain is what it is made of. Everything else is unknown: ranges, geometry, composites, types of extensions. Values
that Spark's type has not (`NaN` of a numeric, `infinity` of a date) go on as text, which Spark then cannot read: such a
record is a bad one. Called by `catalog` and `ottla.pipelines.connect.changes`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ottla.pipelines.postgresql.messages import ProtocolError

Convert = Callable[[str], str]
"""A value as PostgreSQL writes it, as JSON."""
DECIMAL_DIGITS_MAX = 38
NESTED_MAX = 16
"""A domain over a domain over a domain; and PostgreSQL's arrays have at most six dimensions."""
_NOT_NUMBERS = ("NaN", "Infinity", "-Infinity")
_DATE = re.compile(r"(\d{4,})-(\d\d-\d\d)(?: (\d\d:\d\d:\d\d(?:\.\d+)?)([+-]\d\d(?::\d\d){0,2})?)?( BC)?")


@dataclass(frozen=True, slots=True)
class PgType:
    """A row of pg_type, as far as it matters."""

    oid: int
    name: str
    kind: str
    """`b` base, `c` composite, `d` domain, `e` enum, `p` pseudo, `r` range, `m` multirange."""
    category: str
    """`A` is an array."""
    element: int
    base: int
    base_modifier: int


@dataclass(frozen=True, slots=True)
class SparkType:
    """What a column becomes."""

    ddl: str
    convert: Convert = field(compare=False)
    is_known: bool = True


def quoted(text: str) -> str:
    """Text as JSON."""
    return json.dumps(text, ensure_ascii=False)


def _as_is(text: str) -> str:
    return text


def _number(text: str) -> str:
    return f'"{text}"' if text in _NOT_NUMBERS else text


def _boolean(text: str) -> str:
    return "true" if text == "t" else "false"


def _bytes(text: str) -> str:
    if not text.startswith("\\x"):
        raise ProtocolError("a bytea is not in hex")
    try:
        return f'"{base64.b64encode(bytes.fromhex(text[2:])).decode()}"'
    except ValueError:
        raise ProtocolError("a bytea is not in hex") from None


def _time(text: str) -> str:
    """A date or a time as ISO 8601 has it; what has none there, such as `infinity`, stays as it is."""
    found = _DATE.fullmatch(text)
    if found is None:
        return quoted(text)
    year, day, time, zone, is_bc = found.groups()
    number = 1 - int(year) if is_bc else int(year)
    sign = "-" if number < 0 else "+" if number > 9999 else ""
    text = f"{sign}{abs(number):04d}-{day}"
    if time is not None:
        text += f"T{time}"
        if zone is not None:
            text += "Z" if zone == "+00" else zone if ":" in zone else f"{zone}:00"
    return f'"{text}"'


_TEXT = SparkType("STRING", quoted)
BY_NAME: Mapping[str, SparkType] = {
    "bool": SparkType("BOOLEAN", _boolean),
    "int2": SparkType("SMALLINT", _as_is),
    "int4": SparkType("INT", _as_is),
    "int8": SparkType("BIGINT", _as_is),
    "oid": SparkType("BIGINT", _as_is),
    "xid": SparkType("BIGINT", _as_is),
    "float4": SparkType("FLOAT", _number),
    "float8": SparkType("DOUBLE", _number),
    "date": SparkType("DATE", _time),
    "timestamp": SparkType("TIMESTAMP_NTZ", _time),
    "timestamptz": SparkType("TIMESTAMP", _time),
    "bytea": SparkType("BINARY", _bytes),
    **dict.fromkeys(
        (
            "text", "varchar", "bpchar", "char", "name", "citext", "xml", "uuid", "json", "jsonb", "time", "timetz",
            "interval", "inet", "cidr", "macaddr", "macaddr8", "bit", "varbit", "money",
        ),
        _TEXT,
    ),
}  # fmt: skip


class Types:
    """The types of a database."""

    def __init__(self, types: Mapping[int, PgType]) -> None:
        self._types = types

    def __contains__(self, oid: int) -> bool:
        return oid in self._types

    def name(self, oid: int) -> str:
        return self._types[oid].name if oid in self._types else f"with the oid {oid}"

    def spark(self, oid: int, modifier: int, dimensions: int = 1) -> SparkType:
        """What a column of a type becomes; `dimensions` is how deep an array is declared."""
        for _ in range(NESTED_MAX):
            found = self._types.get(oid)
            if found is None or found.kind != "d":
                break
            oid, modifier = found.base, found.base_modifier
        else:
            found = None
        if found is None or found.kind not in "be":
            return SparkType("STRING", quoted, is_known=False)
        if found.kind == "e":
            return _TEXT
        if found.category == "A" and found.element:
            return self._array(self.spark(found.element, modifier), max(1, dimensions))
        if found.name == "numeric":
            return _numeric(modifier)
        return BY_NAME.get(found.name, SparkType("STRING", quoted, is_known=False))

    def _array(self, element: SparkType, dimensions: int) -> SparkType:
        def convert(text: str) -> str:
            return _array_as_json(array_of(text), element.convert)

        ddl = element.ddl
        for _ in range(dimensions):
            ddl = f"ARRAY<{ddl}>"
        return SparkType(ddl, convert, element.is_known)


def _numeric(modifier: int) -> SparkType:
    if modifier >= 4:
        precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
        scale = scale - 0x800 if scale & 0x400 else scale  # a scale may be below zero from PostgreSQL 15 on
        if precision <= DECIMAL_DIGITS_MAX and 0 <= scale <= precision:
            return SparkType(f"DECIMAL({precision},{scale})", _number)
    return SparkType("STRING", quoted)


Array = list["str | Array | None"]


def array_of(text: str) -> Array:
    """An array as PostgreSQL writes it: `{1,NULL,"a,b",{2}}`, with its bounds in front where they do not begin at 1."""
    if text.startswith("["):
        text = text.partition("=")[2]
    root: Array = []
    stack: list[Array] = [root]
    at, size = 0, len(text)

    def wrong() -> ProtocolError:
        return ProtocolError(f"an array is not written as one, at place {at} of {size}")

    while at < size:
        char = text[at]
        if char == "{":
            if len(stack) > NESTED_MAX:
                raise wrong()
            inner: Array = []
            stack[-1].append(inner)
            stack.append(inner)
            at += 1
        elif char == "}":
            if len(stack) < 2:
                raise wrong()
            stack.pop()
            at += 1
        elif char == ",":
            at += 1
        elif char == '"':
            part, at = _quoted_element(text, at)
            if at < 0:
                raise wrong()
            stack[-1].append(part)
        else:
            end = at
            while end < size and text[end] not in ",{}":
                end += 1
            word = text[at:end]
            stack[-1].append(None if word == "NULL" else word)
            at = end
    if len(stack) != 1 or len(root) != 1 or not isinstance(root[0], list):
        raise wrong()
    return root[0]


def _quoted_element(text: str, at: int) -> tuple[str, int]:
    """The text between quotes, and where it goes on after them; below zero where they do not end."""
    parts, at = [], at + 1
    begin = at
    while at < len(text):
        if text[at] == "\\":
            parts.append(text[begin:at])
            begin = at + 1
            at += 2
        elif text[at] == '"':
            parts.append(text[begin:at])
            return "".join(parts), at + 1
        else:
            at += 1
    return "", -1


def _array_as_json(array: Array, convert: Convert) -> str:
    parts = (
        "null" if one is None else _array_as_json(one, convert) if isinstance(one, list) else convert(one)
        for one in array
    )
    return f"[{','.join(parts)}]"

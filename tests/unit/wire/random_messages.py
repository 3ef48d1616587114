"""Random messages of any class and version, from a seed: edges more often than chance would have them."""

from __future__ import annotations

from random import Random
from typing import Any

from ottla.types import Uuid
from ottla.wire import Message
from ottla.wire.schema import Field, Schema, Type

_RANGES = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "uint16": (0, (1 << 16) - 1),
    "uint32": (0, (1 << 32) - 1),
}
_TEXTS = ("", "a", "Ünïcode-é", "日本語", "𝄞", "x" * 126, "x" * 127, "x" * 128, "y" * 300)
_COUNTS = (0, 0, 1, 1, 2, 3)


def random_message(cls: type[Message], version: int, chance: Random) -> Any:
    return _struct(cls.schema, version, cls.schema.flexible.includes(version), chance)


def _struct(schema: Schema, version: int, flexible: bool, chance: Random) -> Any:
    held = {
        field.name: _field(field, version, flexible, chance)
        for field in schema.fields
        if field.versions.includes(version) and not (field.tagged.includes(version) and chance.random() < 0.4)
    }
    made = schema.cls(**held)
    if flexible and chance.random() < 0.2:
        known = {field.tag for field in schema.fields}
        tags = sorted({chance.choice((50, 51, 127, 128, 20000)) for _ in range(2)} - known)
        made.unknown_tags = tuple((tag, chance.randbytes(chance.randrange(5))) for tag in tags)
    return made


def _field(field: Field, version: int, flexible: bool, chance: Random) -> Any:
    if field.nullable.includes(version) and chance.random() < 0.3:
        return None
    return _value(field.type, version, flexible, chance)


def _value(kind: Type, version: int, flexible: bool, chance: Random) -> Any:
    if kind.struct is not None:
        return _struct(kind.struct, version, flexible, chance)
    if kind.element is not None:
        element = kind.element
        count = chance.choice(_COUNTS if element.struct is not None else (*_COUNTS, 31, 32, 130))
        return [_value(element, version, flexible, chance) for _ in range(count)]
    if kind.kind in _RANGES:
        first, last = _RANGES[kind.kind]
        return chance.choice((first, last, 0, 1, max(first, -1), chance.randint(first, last)))
    if kind.kind == "bool":
        return chance.random() < 0.5
    if kind.kind == "float64":
        return chance.choice((0.0, -1.5, 1e300, float("inf")))
    if kind.kind == "uuid":
        return Uuid(chance.randbytes(16))
    if kind.kind == "string":
        return chance.choice(_TEXTS)
    return chance.randbytes(chance.choice((0, 1, 126, 127, 128, 600)))

"""The types of settings: how a text becomes a value, and a value the text that `DescribeConfigs` answers.

Promises: what Kafka's parser takes is taken and what it refuses is refused, with its message; `spell` gives the text
that Kafka gives. Called by `config.table`, which knows the bounds, and by `config.describe`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from ottla.errors import InvalidConfig


class ConfigType(IntEnum):
    """The type of a setting, as `DescribeConfigs` numbers it."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Password:
    """A text that no log line and no error message shows; `value` is the text."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "[hidden]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


def boolean(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise InvalidConfig(f"Invalid value {value} for configuration {name}: Expected value to be either true or false")


def short(name: str, value: object) -> int:
    return _whole(name, value, 16, "SHORT")


def integer(name: str, value: object) -> int:
    return _whole(name, value, 32, "INT")


def long(name: str, value: object) -> int:
    return _whole(name, value, 64, "LONG")


_WHOLE = re.compile(r"[+-]?[0-9]+")


def _whole(name: str, value: object, bits: int, kind: str) -> int:
    number = value
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        number = int(value)
    limit = 1 << (bits - 1)
    if not isinstance(number, int) or isinstance(number, bool) or not -limit <= number < limit:
        raise InvalidConfig(f"Invalid value {value} for configuration {name}: Not a number of type {kind}")
    return number


_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([fFdD]?)")


def double(name: str, value: object) -> float:
    """A decimal number, also with Java's `f` or `d` behind it; what only Python reads (`inf`, `1_0`) is refused."""
    if isinstance(value, str) and (parts := _DOUBLE.fullmatch(value.strip())):
        return float(parts.group().removesuffix(parts[1]) if parts[1] else parts.group())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise InvalidConfig(f"Invalid value {value} for configuration {name}: Not a number of type DOUBLE")


def string(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidConfig(f"Invalid value {value} for configuration {name}: Expected value to be a string")
    return value.strip()


def class_name(name: str, value: object) -> str:
    """The name of a Java class. Ottla loads none, so any name is taken."""
    return string(name, value)


def password(name: str, value: object) -> Password:
    return value if isinstance(value, Password) else Password(string(name, value))


def string_list(name: str, value: object) -> tuple[str, ...]:
    """A comma-separated list; an empty text is an empty list."""
    if isinstance(value, str):
        value = [item.strip() for item in value.split(",")] if value.strip() else []
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise InvalidConfig(f"Invalid value {value} for configuration {name}: Expected a comma separated list.")
    return tuple(value)


_TYPES: dict[Callable[[str, Any], Any], ConfigType] = {
    boolean: ConfigType.BOOLEAN,
    string: ConfigType.STRING,
    integer: ConfigType.INT,
    short: ConfigType.SHORT,
    long: ConfigType.LONG,
    double: ConfigType.DOUBLE,
    string_list: ConfigType.LIST,
    class_name: ConfigType.CLASS,
    password: ConfigType.PASSWORD,
}


def type_of(parse: Callable[[str, Any], Any]) -> ConfigType:
    """The type that a parser of this module reads."""
    return _TYPES[parse]


def spell(value: object) -> str | None:
    """The text of a parsed value, as Kafka writes it; a password's is `[hidden]`."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return _spell_double(value)
        case tuple():
            return ",".join(value)
    return str(value)


def _spell_double(value: float) -> str:
    """Java's form: plain from a thousandth up to ten million, else with `E`, and always a fraction."""
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    # The first digit's place: in the whole part, or below the point as far as there are zeros.
    power = int(exponent or "0") + len(digits) - len(fraction) - 1
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:].rstrip('0') or '0'}E{power}"

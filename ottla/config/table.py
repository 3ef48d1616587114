"""The declaration of a setting, and the table that reads values for a set of them.

`class LogConfig(ConfigTable): segment_bytes = Setting("log.segment.bytes", int, ...)` declares; an instance holds one
value for each, already parsed and checked. Promises: a value that is not allowed raises `InvalidConfig` with the
setting's name, what was given and what would be right; reading a value costs no more than reading an attribute.
Called by whatever takes settings; `DescribeConfigs` and the documentation will read the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

from ottla.errors import InvalidConfig

T = TypeVar("T")

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class Setting(Generic[T]):
    """One setting. Read on an instance of its table it is the value, on the class it is this declaration.

    It defines `__get__` only, so the value in an instance's `__dict__` is found first and no Python code runs.
    """

    def __init__(
        self,
        name: str,
        parse: Callable[[str, Any], T],
        default: T,
        *,
        topic: str | None = None,
        min: float | None = None,
        max: float | None = None,
        valid: tuple[str, ...] | None = None,
        internal: bool = False,
        doc: str,
    ) -> None:
        self.name = name
        self.parse = parse
        self.default = default
        self.topic = topic
        self.min = min
        self.max = max
        self.valid = valid
        self.internal = internal
        self.doc = doc
        self.attribute = ""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute

    @overload
    def __get__(self, instance: None, owner: type) -> Setting[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> Setting[T] | T:
        return self if instance is None else self.default

    def read(self, name: str, value: object) -> T:
        """The parsed and checked value; `name` is the name it was given under, broker-wide or topic-level."""
        parsed = self.parse(name, value)
        if isinstance(parsed, int | float) and not isinstance(parsed, bool):
            if self.min is not None and parsed < self.min:
                raise InvalidConfig(
                    f"Invalid value {value} for configuration {name}: Value must be at least {_plain(self.min)}"
                )
            if self.max is not None and parsed > self.max:
                raise InvalidConfig(
                    f"Invalid value {value} for configuration {name}: Value must be no more than {_plain(self.max)}"
                )
        if self.valid is not None:
            for item in (parsed,) if isinstance(parsed, str) else parsed if isinstance(parsed, tuple) else ():
                if item not in self.valid:
                    raise InvalidConfig(
                        f"Invalid value {value} for configuration {name}: "
                        f"String must be one of: {', '.join(self.valid)}"
                    )
        return parsed


class ConfigTable:
    """A set of settings and their values. Immutable by habit: a change makes a new table with `with_topic`."""

    settings: ClassVar[dict[str, Setting[Any]]] = {}
    topic_settings: ClassVar[dict[str, Setting[Any]]] = {}

    def __init_subclass__(cls) -> None:
        declared = [value for value in vars(cls).values() if isinstance(value, Setting)]
        cls.settings = {**cls.settings, **{setting.name: setting for setting in declared}}
        cls.topic_settings = {
            **cls.topic_settings,
            **{setting.topic: setting for setting in declared if setting.topic is not None},
        }

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        """Take values under their broker-wide names; names of other tables are left to those."""
        for setting in self.settings.values():
            self.__dict__[setting.attribute] = setting.default
        for name, value in (values or {}).items():
            if name in self.settings:
                setting = self.settings[name]
                self.__dict__[setting.attribute] = setting.read(name, value)
        self._derive()

    def with_topic(self, overrides: Mapping[str, object]) -> Self:
        """A table with these topic-level overrides; an unknown name raises `InvalidConfig`."""
        table = type(self).__new__(type(self))
        table.__dict__.update(self.__dict__)
        for name, value in overrides.items():
            setting = self.topic_settings.get(name)
            if setting is None:
                raise InvalidConfig(f"Unknown topic config name: {name}")
            table.__dict__[setting.attribute] = setting.read(name, value)
        table._derive()
        return table

    def _derive(self) -> None:
        """Check settings against each other and compute what is asked often; the last step of construction."""


def integer(name: str, value: object) -> int:
    return _bounded(name, value, INT_MAX, "32-bit")


def long(name: str, value: object) -> int:
    return _bounded(name, value, LONG_MAX, "64-bit")


def _bounded(name: str, value: object, limit: int, width: str) -> int:
    if isinstance(value, str):
        try:
            value = int(value.strip())
        except ValueError:
            raise InvalidConfig(
                f"Invalid value {value} for configuration {name}: Not a number of type {width}"
            ) from None
    if not isinstance(value, int) or isinstance(value, bool) or not -limit - 1 <= value <= limit:
        raise InvalidConfig(f"Invalid value {value} for configuration {name}: Not a number of type {width}")
    return value


def double(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidConfig(f"Invalid value {value} for configuration {name}: Not a number of type DOUBLE")
    try:
        return float(value)
    except ValueError:
        raise InvalidConfig(f"Invalid value {value} for configuration {name}: Not a number of type DOUBLE") from None


def boolean(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise InvalidConfig(f"Invalid value {value} for configuration {name}: Expected value to be either true or false")


def string(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidConfig(f"Invalid value {value} for configuration {name}: Expected value to be a string")
    return value.strip()


def string_list(name: str, value: object) -> tuple[str, ...]:
    """A comma-separated list; an empty text is an empty list, a repeated item is refused."""
    if isinstance(value, str):
        value = [item.strip() for item in value.split(",")] if value.strip() else []
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise InvalidConfig(f"Invalid value {value} for configuration {name}: Expected a comma-separated list")
    if len(set(value)) != len(value):
        raise InvalidConfig(f"Configuration '{name}' values must not be duplicated.")
    if any(not item for item in value):
        raise InvalidConfig(f"Configuration '{name}' values must not be empty.")
    return tuple(value)


def _plain(bound: float) -> str:
    return str(int(bound)) if float(bound).is_integer() else str(bound)

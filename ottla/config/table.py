"""The declaration of a setting, and the table that reads values for a set of them.

`class LogConfig(ConfigTable): segment_bytes = Setting("log.segment.bytes", integer, ...)` declares; an instance holds
one value for each, already parsed and checked. Promises: a value that is not allowed raises `InvalidConfig` with the
setting's name, what was given and what would be right; reading a value costs no more than reading an attribute.
Called by whatever takes settings. `DescribeConfigs` and the documentation read the same table.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

from ottla.config.values import (
    ConfigType,
    Password,
    boolean,
    class_name,
    double,
    integer,
    long,
    password,
    short,
    string,
    string_list,
    type_of,
)
from ottla.errors import InvalidConfig

T = TypeVar("T")

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

__all__ = [
    "CLUSTER_WIDE",
    "GIB",
    "HIGH",
    "INT_MAX",
    "KIB",
    "LONG_MAX",
    "LOW",
    "MEDIUM",
    "MIB",
    "PER_BROKER",
    "READ_ONLY",
    "ConfigTable",
    "ConfigType",
    "Importance",
    "Password",
    "Setting",
    "Update",
    "boolean",
    "class_name",
    "double",
    "integer",
    "long",
    "password",
    "short",
    "string",
    "string_list",
]


class Importance(Enum):
    """How likely an operator is to need the setting."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Update(Enum):
    """Whether the setting can be changed while the broker runs, and for whom."""

    READ_ONLY = "read-only"
    """Only in the file, and with a restart."""
    PER_BROKER = "per-broker"
    """For one broker at a time: brokers may have to differ."""
    CLUSTER_WIDE = "cluster-wide"
    """For one broker, or as the default of all."""


HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
READ_ONLY, PER_BROKER, CLUSTER_WIDE = Update.READ_ONLY, Update.PER_BROKER, Update.CLUSTER_WIDE


class Setting(Generic[T]):
    """One setting. Read on an instance of its table it is the value, on the class it is this declaration.

    It defines `__get__` only, so the value in an instance's `__dict__` is found first and no Python code runs.

    A `required` setting has no default: `default` is then only what mypy takes the type from. A list drops what it
    holds twice and refuses empty items, unless `is_plain_list`; `may_be_empty=False` refuses an empty list or text.
    `check` adds a rule of its own and raises `InvalidConfig`.
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
        ignore_case: bool = False,
        may_be_empty: bool = True,
        is_plain_list: bool = False,
        check: Callable[[str, Any], None] | None = None,
        required: bool = False,
        internal: bool = False,
        importance: Importance = Importance.MEDIUM,
        update: Update = Update.READ_ONLY,
        doc: str,
    ) -> None:
        self.name = name
        self.parse = parse
        self.type = type_of(parse)
        self.default = default
        self.topic = topic
        self.min = min
        self.max = max
        self.valid = valid
        self.ignore_case = ignore_case
        self.may_be_empty = may_be_empty
        self.is_plain_list = is_plain_list
        self.check = check
        self.required = required
        self.internal = internal
        self.importance = importance
        self.update = update
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

    def on_broker(self, *, importance: Importance = Importance.MEDIUM, update: Update = Update.READ_ONLY) -> Setting[T]:
        """The same declaration for the broker's own table, under the same broker-wide name."""
        twin = copy.copy(self)
        twin.importance = importance
        twin.update = update
        return twin

    def read(self, name: str, value: object) -> T:
        """The parsed and checked value; `name` is the name it was given under, broker-wide or topic-level."""
        if value is None and self.default is None and not self.required:
            return self.default
        parsed = self.parse(name, value)
        if isinstance(parsed, tuple) and not self.is_plain_list:
            # Kafka drops what a list names twice, and keeps the first.
            parsed = tuple(dict.fromkeys(parsed))  # type: ignore[assignment]
        self._check_bounds(name, value, parsed)
        self._check_texts(name, value, parsed)
        if self.check is not None:
            self.check(name, parsed)
        return parsed

    def _check_bounds(self, name: str, value: object, parsed: object) -> None:
        if not isinstance(parsed, int | float) or isinstance(parsed, bool):
            return
        if self.min is not None and parsed < self.min:
            raise InvalidConfig(
                f"Invalid value {value} for configuration {name}: Value must be at least {_plain(self.min)}"
            )
        if self.max is not None and parsed > self.max:
            raise InvalidConfig(
                f"Invalid value {value} for configuration {name}: Value must be no more than {_plain(self.max)}"
            )

    def _check_texts(self, name: str, value: object, parsed: object) -> None:
        if isinstance(parsed, tuple):
            if not parsed and not self.may_be_empty:
                valid = f"[{', '.join(self.valid)}]" if self.valid else "any non-empty value"
                raise InvalidConfig(f"Configuration '{name}' must not be empty. Valid values include: {valid}")
            if not self.is_plain_list and "" in parsed:
                raise InvalidConfig(f"Configuration '{name}' values must not be empty.")
        elif parsed == "" and not self.may_be_empty:
            raise InvalidConfig(f"Invalid value {value} for configuration {name}: String must be non-empty")
        if self.valid is None:
            return
        for item in (parsed,) if isinstance(parsed, str) else parsed if isinstance(parsed, tuple) else ():
            if (item.upper() if self.ignore_case else item) not in self.valid:
                which = " (case insensitive)" if self.ignore_case else ""
                raise InvalidConfig(
                    f"Invalid value {item} for configuration {name}: "
                    f"String must be one of{which}: {', '.join(self.valid)}"
                )


class ConfigTable:
    """A set of settings and their values. Immutable by habit: a change makes a new table with `with_topic`."""

    settings: ClassVar[dict[str, Setting[Any]]] = {}
    """Every setting of the table and of the tables it is made of, by broker-wide name."""
    topic_settings: ClassVar[dict[str, Setting[Any]]] = {}
    """Those that a topic can override, by topic-level name."""

    def __init_subclass__(cls) -> None:
        declared = {
            value.name: value
            for base in reversed(cls.__mro__)
            for value in vars(base).values()
            if isinstance(value, Setting)
        }
        cls.settings = declared
        cls.topic_settings = {setting.topic: setting for setting in declared.values() if setting.topic is not None}

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        """Take values under their broker-wide names; names of other tables are left to those."""
        values = values or {}
        for setting in self.settings.values():
            if setting.name in values:
                self.__dict__[setting.attribute] = setting.read(setting.name, values[setting.name])
            elif setting.required:
                raise InvalidConfig(f'Missing required configuration "{setting.name}" which has no default value.')
            else:
                self.__dict__[setting.attribute] = setting.default
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

    def value_of(self, name: str) -> Any:
        """The value of the setting with this broker-wide name."""
        return self.__dict__[self.settings[name].attribute]

    def _derive(self) -> None:
        """Check settings against each other and compute what is asked often; the last step of construction."""


def _plain(bound: float) -> str:
    return str(int(bound)) if float(bound).is_integer() else str(bound)

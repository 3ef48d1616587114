"""Settings whose value is an object of Python's: serializers, partitioners, assignors, interceptors.

In Kafka these are names of Java classes. Taken here are an object, a class (made without arguments), a plain function
where one is enough, the name of a well-known class of Kafka's, for which Ottla has its own, and `module:Name` for what
can only be written as text. Promises: what cannot be used is refused in one line that says what could be.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from ottla.config.table import Importance, Setting, class_name, string_list
from ottla.errors import InvalidConfig

T = TypeVar("T")

_SERIALIZATION = "org.apache.kafka.common.serialization."
_ASSIGNORS = "org.apache.kafka.clients.consumer."
_PARTITIONERS = "org.apache.kafka.clients.producer."

_SERIALIZED = (
    "Boolean", "ByteArray", "ByteBuffer", "Bytes", "Double", "Float", "Integer", "List", "Long", "Short", "String",
    "UUID", "Void",
)  # fmt: skip
_OURS = {"ByteArray": "Bytes", "ByteBuffer": "Bytes", "UUID": "Uuid"}

WELL_KNOWN: dict[str, str] = {
    **{
        f"{_SERIALIZATION}{kind}{way}": f"ottla.client.serialization:{_OURS.get(kind, kind)}{way}"
        for kind in _SERIALIZED
        for way in ("Serializer", "Deserializer")
    },
    f"{_ASSIGNORS}RangeAssignor": "ottla.client.group.assignors:RangeAssignor",
    f"{_ASSIGNORS}RoundRobinAssignor": "ottla.client.group.assignors:RoundRobinAssignor",
    f"{_ASSIGNORS}StickyAssignor": "ottla.client.group.assignors:StickyAssignor",
    f"{_ASSIGNORS}CooperativeStickyAssignor": "ottla.client.group.assignors:CooperativeStickyAssignor",
    f"{_PARTITIONERS}RoundRobinPartitioner": "ottla.client.producer.partitioners:RoundRobinPartitioner",
    f"{_PARTITIONERS}UniformStickyPartitioner": "ottla.client.producer.partitioners:UniformStickyPartitioner",
}
"""Kafka's class, and where Ottla's own of the same behaviour is."""


class ObjectSetting(Setting[T]):
    """A setting that takes more than Kafka's text. `kind` reads what Kafka takes, and so gives the setting its type."""

    def __init__(
        self,
        name: str,
        kind: Callable[[str, Any], Any],
        parse: Callable[[str, Any], T],
        default: T,
        *,
        valid: tuple[str, ...] | None = None,
        importance: Importance = Importance.MEDIUM,
        doc: str,
    ) -> None:
        super().__init__(name, kind, default, valid=valid, is_plain_list=True, importance=importance, doc=doc)
        self.parse = parse


def one_object(has: str, *, wrap: Callable[[Callable[..., Any]], Any] | None = None) -> Callable[[str, Any], Any]:
    """A reader of one object that has the method `has`; a plain function is taken when it can be wrapped into one."""

    def read(name: str, value: object) -> object:
        return _object(name, value, has, wrap)

    return read


def objects(*any_of: str) -> Callable[[str, Any], tuple[Any, ...]]:
    """A reader of a list of objects, each with at least one of these methods."""

    def read(name: str, value: object) -> tuple[object, ...]:
        if isinstance(value, str):
            value = string_list(name, value)
        if not isinstance(value, list | tuple):
            value = (value,)
        found = tuple(_made(name, item) for item in value)
        for item in found:
            if not any(callable(getattr(item, method, None)) for method in any_of):
                raise InvalidConfig(f"{name}: {item!r} has none of the methods {', '.join(any_of)}")
        return found

    return read


def load(name: str, text: str) -> Any:
    """What a well-known class name of Kafka's, or `module:Name`, stands for."""
    place = WELL_KNOWN.get(text, text)
    module, colon, attribute = place.partition(":")
    if not colon:
        raise InvalidConfig(f"{name}: Ottla has no {text}; give an object, a class, or its place as 'module:Name'")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidConfig(f"{name}: {text} cannot be loaded: {error}") from error


def _object(name: str, value: object, has: str, wrap: Callable[[Callable[..., Any]], Any] | None) -> object:
    found = _made(name, value)
    if callable(getattr(found, has, None)):
        return found
    if wrap is not None and callable(found):
        return wrap(found)
    also = " or a function" if wrap is not None else ""
    raise InvalidConfig(f"{name}: {found!r} has no method {has}; give an object with one{also}")


def _made(name: str, value: object) -> object:
    """The object itself: loaded when it is a text, made when it is a class."""
    if isinstance(value, str):
        value = load(name, class_name(name, value))
    if not isinstance(value, type):
        return value
    try:
        return value()
    except TypeError as error:
        raise InvalidConfig(f"{name}: {value.__name__} cannot be made without arguments: {error}") from error

"""What a serializer and a deserializer are, and how a plain function becomes one.

A serializer turns an object into the bytes of a key or a value, a deserializer turns them back. Both know the topic
and the record's headers; a serializer may add to the headers. `None` is the absence of a key or a value (a tombstone)
and stays `None`. Called by the producer once for each key and value, by the consumer likewise: a client without one
hands bytes through, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

Headers: TypeAlias = list[tuple[str, bytes | None]]
"""A record's headers in their order; a name may come twice."""

T = TypeVar("T")
T_in = TypeVar("T_in", contravariant=True)
T_out = TypeVar("T_out", covariant=True)


class Serializer(Protocol[T_in]):
    """Objects to bytes. An object that cannot be written raises `SerializationError`."""

    def serialize(self, topic: str, value: T_in | None, headers: Headers) -> bytes | None: ...


class Deserializer(Protocol[T_out]):
    """Bytes to objects. Bytes that are no such object raise `SerializationError`."""

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> T_out | None: ...


class FunctionSerializer:
    """A function of the value alone: `value_serializer=str.encode`."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[Any], bytes | None]) -> None:
        self.function = function

    def serialize(self, topic: str, value: object | None, headers: Headers) -> bytes | None:
        return None if value is None else self.function(value)


class FunctionDeserializer:
    """A function of the bytes alone: `value_deserializer=json.loads`."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[bytes], Any]) -> None:
        self.function = function

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> Any:
        return None if data is None else self.function(data)

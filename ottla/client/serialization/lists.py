"""Lists of one kind of item, in the form of Kafka's `ListSerializer` (KIP-466).

The first byte tells the form. 0: items have one size; then come the places of missing items, the number of items and
the items. 1: the number of items, then each with its size before it, -1 for a missing one. Promises: the bytes are
Java's, and no count or size in damaged bytes makes the reader allocate more than they could hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Any, Generic, TypeVar

from ottla.client.errors import SerializationError
from ottla.client.serialization.primitives import (
    DoubleSerializer,
    FloatSerializer,
    IntegerSerializer,
    LongSerializer,
    ShortSerializer,
    UuidSerializer,
)
from ottla.client.serialization.protocol import Deserializer, Headers, Serializer

T = TypeVar("T")

_INT = Struct(">i")
_FIXED, _VARIABLE = 0, 1
_MISSING = -1
_FIXED_SIZE_SERIALIZERS: tuple[type[object], ...] = (
    ShortSerializer,
    IntegerSerializer,
    FloatSerializer,
    LongSerializer,
    DoubleSerializer,
    UuidSerializer,
)


class ListSerializer(Generic[T]):
    """`ListSerializer(StringSerializer())`."""

    def __init__(self, inner: Serializer[T]) -> None:
        self._inner = inner
        # Java looks at the very class, so a subclass of ours is written with sizes, which every reader understands.
        self._is_fixed = type(inner) in _FIXED_SIZE_SERIALIZERS

    def serialize(self, topic: str, value: Iterable[T | None] | None, headers: Headers) -> bytes | None:
        if value is None:
            return None
        items = [None if item is None else self._inner.serialize(topic, item, headers) for item in value]
        out = bytearray([_FIXED if self._is_fixed else _VARIABLE])
        if self._is_fixed:
            missing = [index for index, item in enumerate(items) if item is None]
            out += b"".join(map(_INT.pack, (len(missing), *missing)))
        out += _INT.pack(len(items))
        for item in items:
            if not self._is_fixed:
                out += _INT.pack(_MISSING if item is None else len(item))
            out += item or b""
        return bytes(out)


class ListDeserializer(Generic[T]):
    """`ListDeserializer(StringDeserializer())`. The inner one of items of one size has that size as `size`."""

    def __init__(self, inner: Deserializer[T]) -> None:
        self._inner = inner
        size: Any = getattr(inner, "size", None)
        self._item_size: int | None = size if isinstance(size, int) else None

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> list[T | None] | None:
        if data is None:
            return None
        reader = _Reader(topic, data)
        form = reader.take(1)[0]
        if form == _FIXED:
            items = self._fixed(reader)
        elif form == _VARIABLE:
            items = [self._variable(reader) for _ in range(reader.count(_INT.size))]
        else:
            raise SerializationError(f"the list from topic {topic} has the unknown form {form}")
        return [None if item is None else self._inner.deserialize(topic, item, headers) for item in items]

    def _fixed(self, reader: _Reader) -> list[bytes | None]:
        if self._item_size is None:
            raise SerializationError(
                f"the list from topic {reader.topic} has items of one size, and "
                f"{type(self._inner).__name__} does not say which"
            )
        missing = {reader.integer() for _ in range(reader.count(_INT.size))}
        count = reader.count(0)
        if (count - len(missing)) * self._item_size > reader.left:
            raise SerializationError(f"the list from topic {reader.topic} ends in the middle of an item")
        return [None if index in missing else reader.take(self._item_size) for index in range(count)]

    @staticmethod
    def _variable(reader: _Reader) -> bytes | None:
        size = reader.integer()
        return None if size == _MISSING else reader.take(size)


class _Reader:
    """Bytes from the front."""

    __slots__ = ("_at", "_data", "topic")

    def __init__(self, topic: str, data: bytes) -> None:
        self.topic = topic
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise SerializationError(f"the list from topic {self.topic} is damaged: {size} bytes where {self.left} are")
        self._at += size
        return self._data[self._at - size : self._at]

    def integer(self) -> int:
        (value,) = _INT.unpack(self.take(_INT.size))
        assert isinstance(value, int), "the form is of one whole number"
        return value

    def count(self, item_size: int) -> int:
        """A number of items, of which each has at least `item_size` bytes; never more than there are bytes at all."""
        count = self.integer()
        if not 0 <= count <= len(self._data) or count * item_size > self.left:
            raise SerializationError(f"the list from topic {self.topic} is damaged: it cannot have {count} items")
        return count

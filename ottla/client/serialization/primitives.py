"""Kafka's plain serializers: numbers big-endian in their width, texts in UTF-8, UUIDs as text, bytes as they are.

Promises: the bytes are those that the Java classes of the same names write and read; a value of another type, or bytes
of another size, raise `SerializationError`, so a wrong serializer is seen at the producer and not at its consumers.
"""

from __future__ import annotations

import uuid
from struct import Struct
from struct import error as StructError

from ottla.client.errors import SerializationError
from ottla.client.serialization.protocol import Headers
from ottla.types import Buffer


class BytesSerializer:
    """Bytes as they are; also a `bytearray` or a `memoryview`."""

    def serialize(self, topic: str, value: Buffer | None, headers: Headers) -> bytes | None:
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise SerializationError(f"bytes are needed for topic {topic}, and {type(value).__name__} was given")


class BytesDeserializer:
    """Bytes as they are."""

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> bytes | None:
        return data


class StringSerializer:
    """Text in UTF-8, or in the encoding given."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def serialize(self, topic: str, value: str | None, headers: Headers) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, str):
            raise SerializationError(f"a text is needed for topic {topic}, and {type(value).__name__} was given")
        try:
            return value.encode(self._encoding)
        except UnicodeEncodeError as error:
            raise SerializationError(f"the text for topic {topic} cannot be encoded: {error}") from error


class StringDeserializer:
    """Text in UTF-8, or in the encoding given. Other bytes are refused, where Java would put question marks.

    `StringDeserializer(errors="replace")` puts question marks too.
    """

    def __init__(self, encoding: str = "utf-8", errors: str = "strict") -> None:
        self._encoding = encoding
        self._errors = errors

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> str | None:
        if data is None:
            return None
        try:
            return str(data, self._encoding, self._errors)
        except UnicodeDecodeError as error:
            raise SerializationError(f"the bytes from topic {topic} are no {self._encoding} text: {error}") from error


class _IntegerSerializer:
    """A whole number in a fixed number of bytes."""

    size = 0

    def serialize(self, topic: str, value: int | None, headers: Headers) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise SerializationError(f"an integer is needed for topic {topic}, and {type(value).__name__} was given")
        try:
            return value.to_bytes(self.size, "big", signed=True)
        except OverflowError:
            raise SerializationError(f"{value} does not fit in {self.size} bytes, for topic {topic}") from None


class _IntegerDeserializer:
    """A whole number from a fixed number of bytes."""

    size = 0

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> int | None:
        if data is None:
            return None
        _check_size(topic, data, self.size)
        return int.from_bytes(data, "big", signed=True)


class ShortSerializer(_IntegerSerializer):
    """A whole number of 2 bytes."""

    size = 2


class ShortDeserializer(_IntegerDeserializer):
    """A whole number of 2 bytes."""

    size = 2


class IntegerSerializer(_IntegerSerializer):
    """A whole number of 4 bytes."""

    size = 4


class IntegerDeserializer(_IntegerDeserializer):
    """A whole number of 4 bytes."""

    size = 4


class LongSerializer(_IntegerSerializer):
    """A whole number of 8 bytes."""

    size = 8


class LongDeserializer(_IntegerDeserializer):
    """A whole number of 8 bytes."""

    size = 8


class _FloatingSerializer:
    """A floating-point number in its IEEE form."""

    form = Struct(">d")

    def serialize(self, topic: str, value: float | None, headers: Headers) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise SerializationError(f"a number is needed for topic {topic}, and {type(value).__name__} was given")
        try:
            return self.form.pack(value)
        except (OverflowError, StructError):
            raise SerializationError(f"{value} does not fit in {self.form.size} bytes, for topic {topic}") from None


class _FloatingDeserializer:
    """A floating-point number from its IEEE form."""

    form = Struct(">d")

    @property
    def size(self) -> int:
        return self.form.size

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> float | None:
        if data is None:
            return None
        _check_size(topic, data, self.form.size)
        (value,) = self.form.unpack(data)
        assert isinstance(value, float), "the form is of one floating-point number"
        return value


class FloatSerializer(_FloatingSerializer):
    """A floating-point number of 4 bytes."""

    form = Struct(">f")


class FloatDeserializer(_FloatingDeserializer):
    """A floating-point number of 4 bytes."""

    form = Struct(">f")


class DoubleSerializer(_FloatingSerializer):
    """A floating-point number of 8 bytes."""


class DoubleDeserializer(_FloatingDeserializer):
    """A floating-point number of 8 bytes."""


class BooleanSerializer:
    """One byte: 1 or 0."""

    def serialize(self, topic: str, value: bool | None, headers: Headers) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, bool):
            raise SerializationError(f"True or False is needed for topic {topic}, and {type(value).__name__} was given")
        return b"\1" if value else b"\0"


class BooleanDeserializer:
    """One byte: 1 or 0."""

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> bool | None:
        if data is None:
            return None
        _check_size(topic, data, 1)
        if data[0] > 1:
            raise SerializationError(f"the byte {data[0]} from topic {topic} is neither 0 nor 1")
        return data[0] == 1


class UuidSerializer:
    """A `uuid.UUID` as its text of 36 characters."""

    def serialize(self, topic: str, value: uuid.UUID | None, headers: Headers) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, uuid.UUID):
            raise SerializationError(f"a UUID is needed for topic {topic}, and {type(value).__name__} was given")
        return str(value).encode("ascii")


class UuidDeserializer:
    """A `uuid.UUID` from its text of 36 characters."""

    size = 36

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> uuid.UUID | None:
        if data is None:
            return None
        _check_size(topic, data, self.size)
        try:
            return uuid.UUID(str(data, "ascii"))
        except ValueError as error:
            raise SerializationError(f"the bytes from topic {topic} are no UUID: {error}") from error


class VoidSerializer:
    """Nothing: for keys that no record has."""

    def serialize(self, topic: str, value: None, headers: Headers) -> None:
        if value is not None:
            raise SerializationError(f"nothing is needed for topic {topic}, and {type(value).__name__} was given")


class VoidDeserializer:
    """Nothing: bytes are refused."""

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> None:
        if data is not None:
            raise SerializationError(f"there are {len(data)} bytes from topic {topic} where nothing was expected")


def _check_size(topic: str, data: bytes, size: int) -> None:
    if len(data) != size:
        raise SerializationError(f"{len(data)} bytes from topic {topic}, and {size} are needed")

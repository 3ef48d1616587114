"""How a store's keys and values become bytes: by name, in the layouts of Kafka's own serializers.

Promises: `decode(encode(value)) == value`; the bytes of `string`, `bytes`, `integer`, `long`, `double` are those of
the Java serializers of those names, so a Kafka Streams program reads a changelog written here and the other way round.
`json` is compact with its keys sorted: equal values have equal bytes, which a key needs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ottla.client.errors import SerializationError
from ottla.client.serialization import (
    BytesDeserializer,
    BytesSerializer,
    DoubleDeserializer,
    DoubleSerializer,
    IntegerDeserializer,
    IntegerSerializer,
    LongDeserializer,
    LongSerializer,
    StringDeserializer,
    StringSerializer,
)
from ottla.pipelines.errors import PipelineError


@dataclass(frozen=True, slots=True)
class Serde:
    """One layout. Two are equal when they have the same name."""

    name: str
    encode: Callable[[Any], bytes] = field(compare=False, repr=False)
    decode: Callable[[bytes], Any] = field(compare=False, repr=False)
    parse: Callable[[str], Any] = field(compare=False, repr=False)
    """A value from the text that stands for it in an address: `/keys/17` is the number 17 where keys are numbers."""

    def __reduce__(self) -> tuple[Callable[[str], Serde], tuple[str]]:
        """Pickled by name: it goes to Spark's workers."""
        return serde, (self.name,)


def serde(name: str | Serde) -> Serde:
    """The layout of this name."""
    if isinstance(name, Serde):
        return name
    found = _SERDES.get(name)
    if found is None:
        raise PipelineError(f"There is no serde {name!r}; there are {', '.join(_SERDES)}")
    return found


def _json_bytes(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise SerializationError(f"{value!r} cannot be JSON: {error}") from error


def _json_value(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise SerializationError(f"these bytes are no JSON: {error}") from error


def _parsed(kind: Callable[[str], Any], text: str) -> Any:
    try:
        return kind(text)
    except ValueError as error:
        raise SerializationError(f"{text!r} is not of the key's type: {error}") from error


def _plain(name: str, serializer: Any, deserializer: Any, parse: Callable[[str], Any]) -> Serde:
    def encode(value: Any) -> bytes:
        if value is None:
            raise SerializationError(f"null has no {name} form in a store: delete the key instead")
        data: bytes = serializer.serialize("a store", value, [])
        return data

    def decode(data: bytes) -> Any:
        return deserializer.deserialize("a store", data, [])

    return Serde(name, encode, decode, partial(_parsed, parse))


_SERDES = {
    one.name: one
    for one in (
        _plain("bytes", BytesSerializer(), BytesDeserializer(), bytes.fromhex),
        _plain("string", StringSerializer(), StringDeserializer(), str),
        _plain("integer", IntegerSerializer(), IntegerDeserializer(), int),
        _plain("long", LongSerializer(), LongDeserializer(), int),
        _plain("double", DoubleSerializer(), DoubleDeserializer(), float),
        Serde("json", _json_bytes, _json_value, partial(_parsed, json.loads)),
    )
}

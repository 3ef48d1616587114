"""Keys and values as bytes: what a serializer is, Kafka's plain ones, JSON, and those that know a schema.

Those that need a library (Avro, JSON Schema, Protobuf) are imported when they are first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ottla.client.serialization.protocol import (
    Deserializer,
    FunctionDeserializer,
    FunctionSerializer,
    Headers,
    Serializer,
)

if TYPE_CHECKING:
    from ottla.client.serialization.json_values import JsonDeserializer, JsonSerializer
    from ottla.client.serialization.lists import ListDeserializer, ListSerializer
    from ottla.client.serialization.primitives import (
        BooleanDeserializer,
        BooleanSerializer,
        BytesDeserializer,
        BytesSerializer,
        DoubleDeserializer,
        DoubleSerializer,
        FloatDeserializer,
        FloatSerializer,
        IntegerDeserializer,
        IntegerSerializer,
        LongDeserializer,
        LongSerializer,
        ShortDeserializer,
        ShortSerializer,
        StringDeserializer,
        StringSerializer,
        UuidDeserializer,
        UuidSerializer,
        VoidDeserializer,
        VoidSerializer,
    )

__all__ = [
    "Serializer",
    "Deserializer",
    "Headers",
    "FunctionSerializer",
    "FunctionDeserializer",
    "BooleanSerializer",
    "BooleanDeserializer",
    "BytesSerializer",
    "BytesDeserializer",
    "DoubleSerializer",
    "DoubleDeserializer",
    "FloatSerializer",
    "FloatDeserializer",
    "IntegerSerializer",
    "IntegerDeserializer",
    "JsonSerializer",
    "JsonDeserializer",
    "ListSerializer",
    "ListDeserializer",
    "LongSerializer",
    "LongDeserializer",
    "ShortSerializer",
    "ShortDeserializer",
    "StringSerializer",
    "StringDeserializer",
    "UuidSerializer",
    "UuidDeserializer",
    "VoidSerializer",
    "VoidDeserializer",
]

_PRIMITIVES = ("Boolean", "Bytes", "Double", "Float", "Integer", "Long", "Short", "String", "Uuid", "Void")
_HOME = {
    **{f"{kind}{way}": "primitives" for kind in _PRIMITIVES for way in ("Serializer", "Deserializer")},
    "JsonSerializer": "json_values",
    "JsonDeserializer": "json_values",
    "ListSerializer": "lists",
    "ListDeserializer": "lists",
}


def __getattr__(name: str) -> object:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value

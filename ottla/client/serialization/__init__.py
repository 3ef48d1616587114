"""Keys and values as bytes: what a serializer is, Kafka's plain ones, JSON, and those that know a schema.

Those that need a library (Avro, JSON Schema, Protobuf) are imported when they are first asked for.
"""

from typing import TYPE_CHECKING

from ottla.client.serialization.protocol import (
    Deserializer,
    FunctionDeserializer,
    FunctionSerializer,
    Headers,
    Serializer,
)
from ottla.lazy import front_door

if TYPE_CHECKING:
    from ottla.client.serialization.avro import AvroDeserializer, AvroSerializer
    from ottla.client.serialization.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
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
    from ottla.client.serialization.protobuf import ProtobufDeserializer, ProtobufSerializer
    from ottla.client.serialization.registry import (
        RegisteredSchema,
        Registry,
        Schema,
        SchemaReference,
        SchemaRegistry,
    )
    from ottla.client.serialization.schema_id import record_name, topic_name, topic_record_name

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
    # those that know a schema
    "AvroSerializer",
    "AvroDeserializer",
    "JsonSchemaSerializer",
    "JsonSchemaDeserializer",
    "ProtobufSerializer",
    "ProtobufDeserializer",
    "SchemaRegistry",
    "Registry",
    "Schema",
    "SchemaReference",
    "RegisteredSchema",
    "topic_name",
    "record_name",
    "topic_record_name",
]

_PRIMITIVES = ("Boolean", "Bytes", "Double", "Float", "Integer", "Long", "Short", "String", "Uuid", "Void")
_HOME = {
    **{f"{kind}{way}": "primitives" for kind in _PRIMITIVES for way in ("Serializer", "Deserializer")},
    "JsonSerializer": "json_values",
    "JsonDeserializer": "json_values",
    "ListSerializer": "lists",
    "ListDeserializer": "lists",
    "AvroSerializer": "avro",
    "AvroDeserializer": "avro",
    "JsonSchemaSerializer": "json_schema",
    "JsonSchemaDeserializer": "json_schema",
    "ProtobufSerializer": "protobuf",
    "ProtobufDeserializer": "protobuf",
    "SchemaRegistry": "registry",
    "Registry": "registry",
    "Schema": "registry",
    "SchemaReference": "registry",
    "RegisteredSchema": "registry",
    "topic_name": "schema_id",
    "record_name": "schema_id",
    "topic_record_name": "schema_id",
}

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _HOME)

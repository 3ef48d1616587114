"""Avro: its schemas as Spark's types and back, its values as what Arrow takes.

The types are those of Spark's own Avro reader: a union with null is a column that may be null, int with long is long,
float with double is double. Other unions, types that contain themselves and nanoseconds have no column and are refused
by name.

Promises: a value is read with the schema that it was written with and seen as the reader's schema has it; a logical
type is the reader's. A column that the schema does not have, or one that it needs and nobody gives, is refused before a
job starts; fastavro would leave out the one and find the other at the first row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from pyspark.sql import types as t

from ottla.client.errors import SerializationError
from ottla.client.serialization import AvroDeserializer, AvroSerializer, Registry, Schema
from ottla.client.serialization.registry import RegisteredSchema
from ottla.client.serialization.schema_id import library
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.schemas.registry import RegistryAddress

Convert = Callable[[Any], Any]

DECIMAL_DIGITS_MAX = 38
RECORD_NAME = "Record"
_PLAIN: dict[str, t.DataType] = {
    "boolean": t.BooleanType(),
    "int": t.IntegerType(),
    "long": t.LongType(),
    "float": t.FloatType(),
    "double": t.DoubleType(),
    "bytes": t.BinaryType(),
    "string": t.StringType(),
    "enum": t.StringType(),
    "fixed": t.BinaryType(),
}
_LOGICAL: dict[tuple[str, str], t.DataType] = {
    ("int", "date"): t.DateType(),
    ("long", "timestamp-millis"): t.TimestampType(),
    ("long", "timestamp-micros"): t.TimestampType(),
    ("long", "local-timestamp-millis"): t.TimestampNTZType(),
    ("long", "local-timestamp-micros"): t.TimestampNTZType(),
}
_REFUSED = ("timestamp-nanos", "local-timestamp-nanos")
_NESTED = (t.StructType, t.ArrayType, t.MapType)
_CUT: dict[str, tuple[type[t.DataType], ...]] = {
    "boolean": (t.NumericType, t.StringType, t.BinaryType),
    "int": (t.LongType, t.FractionalType),
    "long": (t.FractionalType,),
    "float": (t.DoubleType, t.DecimalType),
}
"""Columns that a schema would cut, or most of whose values it refuses: told before the job, not record by record."""
_WIDER = ({"int", "long"}, {"float", "double"})
_EXACT = Context(prec=2 * DECIMAL_DIGITS_MAX)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")


@dataclass(frozen=True, slots=True)
class AvroReading:
    """Bytes as the reader's schema has them; behind a schema's number when there is a registry."""

    schema: str
    registry: RegistryAddress | None = None

    def data_type(self) -> t.DataType:
        return spark_type(self.schema)

    def open_reader(self) -> Callable[[bytes], Any]:
        plain = json.dumps(_without_logical_types(json.loads(self.schema)))  # text: a plain type is a text itself
        registry = _PlainRegistry(self.registry.connect()) if self.registry else None
        read = AvroDeserializer(registry, plain).deserialize
        convert = _converter(_expanded(self.schema))
        if convert is None:
            return lambda data: read("", data, [])
        return lambda data: convert(read("", data, []))


@dataclass(frozen=True, slots=True)
class AvroWriting:
    """Values as Avro, behind `prefix`."""

    schema: str
    prefix: bytes = b""

    def open_writer(self) -> Callable[[Any], bytes]:
        write, prefix = AvroSerializer(self.schema).serialize, self.prefix

        def written(value: Any) -> bytes:
            data = write("", value, [])
            assert data is not None, "there is a value"
            return prefix + data

        return written


def spark_type(schema: str) -> t.DataType:
    """The column's type."""
    return _type(_expanded(schema), "the schema")


def avro_schema(data_type: t.DataType, name: str = RECORD_NAME) -> str:
    """A schema that has every value of a column."""
    return json.dumps(_schema(data_type, name))


def refuse_misfit(schema: str, data_type: t.DataType) -> None:
    """Raises where a column of this type can never be written with this schema."""
    _refuse_misfit(_expanded(schema), data_type, "value")


def schema_text(schema: str | Mapping[str, Any] | list[Any]) -> str:
    """A schema as JSON, however it was given; raises when it is none."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    _expanded(text)
    return text


def refuse_references(found: RegisteredSchema) -> None:
    """A schema that stands on others is read with what the registry has; as a reader's own it has to be whole."""
    if found.schema.references:
        raise PipelineError(
            f"the schema of subject {found.subject} refers to others: give the reader's schema, in one piece"
        )


# Schemas to types


def _expanded(text: str) -> Any:
    """The schema with every name replaced by what it stands for; what is left of names contains itself."""
    avro = library("fastavro", "avro")
    try:
        return avro.parse_schema(json.loads(text), expand=True, _write_hint=False)
    except (ValueError, KeyError, TypeError, avro.schema.SchemaParseException, avro.schema.UnknownType) as error:
        raise PipelineError(f"the Avro schema cannot be read: {error}") from error


def _type(schema: Any, where: str) -> t.DataType:
    if isinstance(schema, list):
        return _type(_chosen(schema, where), where)
    if isinstance(schema, str):
        schema = {"type": schema}
    kind, logical = schema["type"], schema.get("logicalType")
    if isinstance(kind, dict | list):
        return _type(kind, where)
    if kind in ("record", "error"):
        return t.StructType(
            [
                t.StructField(field["name"], _type(field["type"], f"{where}.{field['name']}"), _may_be_null(field))
                for field in schema["fields"]
            ]
        )
    if kind == "array":
        items = schema["items"]
        return t.ArrayType(_type(items, f"{where}[]"), _has_null(items))
    if kind == "map":
        values = schema["values"]
        return t.MapType(t.StringType(), _type(values, f"{where}{{}}"), _has_null(values))
    if logical in _REFUSED:
        raise PipelineError(f"{where} is {logical}, which Spark has no type for")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return _decimal(schema, where)
    if kind not in _PLAIN:
        raise PipelineError(f"{where} is {kind}, which contains itself, and a column cannot")
    return _LOGICAL.get((kind, logical), _PLAIN[kind])


def _decimal(schema: Any, where: str) -> t.DataType:
    precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
    if precision > DECIMAL_DIGITS_MAX:
        raise PipelineError(f"{where} is a decimal of {precision} digits, and Spark's have {DECIMAL_DIGITS_MAX}")
    return t.DecimalType(precision, scale)


def _chosen(union: list[Any], where: str) -> Any:
    """The one type that a union has beside null."""
    others = [one for one in union if _kind(one) != "null"]
    if len(others) == 1:
        return others[0]
    for kinds in _WIDER:
        if others and {_kind(one) for one in others} == kinds and all(isinstance(one, str) for one in others):
            return max(others, key=("int", "float", "long", "double").index)
    raise PipelineError(f"{where} is a union of {', '.join(_kind(one) for one in union)}, and a column has one type")


def _kind(schema: Any) -> str:
    return str(schema["type"]) if isinstance(schema, dict) else str(schema)


def _has_null(schema: Any) -> bool:
    return isinstance(schema, list) and any(_kind(one) == "null" for one in schema)


def _may_be_null(field: Any) -> bool:
    return _has_null(field["type"])


# Types to schemas


def _schema(data_type: t.DataType, name: str) -> Any:
    match data_type:
        case t.BooleanType():
            return "boolean"
        case t.ByteType() | t.ShortType() | t.IntegerType():
            return "int"
        case t.LongType():
            return "long"
        case t.FloatType():
            return "float"
        case t.DoubleType():
            return "double"
        case t.StringType():
            return "string"
        case t.BinaryType():
            return "bytes"
        case t.DateType():
            return {"type": "int", "logicalType": "date"}
        case t.TimestampType():
            return {"type": "long", "logicalType": "timestamp-micros"}
        case t.TimestampNTZType():
            return {"type": "long", "logicalType": "local-timestamp-micros"}
        case t.DecimalType():
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": data_type.precision,
                "scale": data_type.scale,
            }
        case t.ArrayType():
            return {"type": "array", "items": _or_null(_schema(data_type.elementType, name), data_type.containsNull)}
        case t.MapType() if isinstance(data_type.keyType, t.StringType):
            return {"type": "map", "values": _or_null(_schema(data_type.valueType, name), data_type.valueContainsNull)}
        case t.StructType():
            return {"type": "record", "name": name, "fields": [_field(field, name) for field in data_type.fields]}
        case _:
            raise PipelineError(f"{data_type.simpleString()} has no type in Avro: cast it, or leave it out")


def _field(field: t.StructField, name: str) -> dict[str, Any]:
    if not _NAME.match(field.name):
        raise PipelineError(f"column {field.name!r} has a name that Avro does not allow: rename it")
    # A record's name is known once in a schema, so each is named after its place.
    made: dict[str, Any] = {
        "name": field.name,
        "type": _or_null(_schema(field.dataType, f"{name}_{field.name}"), field.nullable),
    }
    if field.nullable:
        made["default"] = None
    return made


def _or_null(schema: Any, may_be_null: bool) -> Any:
    return ["null", schema] if may_be_null else schema


def _refuse_misfit(schema: Any, data_type: t.DataType, where: str) -> None:
    """Compares what has names, and numbers; the values of other types are compared when they are written."""
    if isinstance(schema, list):
        others = [one for one in schema if _kind(one) != "null"]
        if len(others) == 1:
            _refuse_misfit(others[0], data_type, where)
        return
    if not isinstance(schema, dict):
        schema = {"type": schema}
    match data_type:
        case t.StructType() if schema["type"] == "record":
            known = {field["name"]: field for field in schema["fields"]}
            given = {field.name: field for field in data_type.fields}
            for name in given:
                if name not in known:
                    raise PipelineError(f"{where}.{name} is not in the Avro schema {schema['name']}")
            for name, field in known.items():
                if name in given:
                    _refuse_misfit(field["type"], given[name].dataType, f"{where}.{name}")
                elif "default" not in field:
                    raise PipelineError(f"no column gives {where}.{name}, which the Avro schema {schema['name']} needs")
        case t.ArrayType() if schema["type"] == "array":
            _refuse_misfit(schema["items"], data_type.elementType, f"{where}[]")
        case t.MapType() if schema["type"] == "map":
            _refuse_misfit(schema["values"], data_type.valueType, f"{where}{{}}")
        case _ if isinstance(data_type, _NESTED) or schema["type"] in ("record", "array", "map"):
            raise PipelineError(f"{where} is {data_type.simpleString()}, and {schema['type']} in the Avro schema")
        case _ if isinstance(data_type, _CUT.get(schema["type"], ())):
            raise PipelineError(
                f"{where} is {data_type.simpleString()}, and {schema['type']} in the Avro schema: cast it"
            )


# Values


class _PlainRegistry:
    """A registry whose schemas have no logical types: what a number means is the reader's to say."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def register(self, subject: str, schema: Schema) -> int:
        raise AssertionError("a reader registers nothing")

    def lookup(self, subject: str, schema: Schema) -> int:
        raise AssertionError("a reader writes nothing")

    def latest(self, subject: str) -> RegisteredSchema:
        raise AssertionError("a value says which schema it has")

    def version(self, subject: str, version: int) -> RegisteredSchema:
        found = self._registry.version(subject, version)
        return RegisteredSchema(found.schema_id, found.subject, found.version, _plain(found.schema))

    def schema(self, schema_id: int) -> Schema:
        return _plain(self._registry.schema(schema_id))


def _plain(schema: Schema) -> Schema:
    if schema.type != "AVRO":
        return schema  # which the deserializer refuses, and says so
    try:
        text = json.dumps(_without_logical_types(json.loads(schema.text)))
    except ValueError as error:
        raise SerializationError(f"the Avro schema cannot be read: {error}") from error
    return Schema(text, schema.type, schema.references)


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: value if name == "default" else _without_logical_types(value)
        for name, value in schema.items()
        if name != "logicalType"
    }


def _converter(schema: Any) -> Convert | None:
    """From what fastavro reads to what Arrow takes; None where they are the same.

    Arrow takes a whole number for a date or a time, in the column's own unit, which saves making an object of each.
    """
    if isinstance(schema, list):
        return _unless_null(_converter(_chosen(schema, "")))
    if not isinstance(schema, dict):
        return _bytes if schema == "bytes" else None
    kind, logical = schema["type"], schema.get("logicalType")
    if isinstance(kind, dict | list):
        return _converter(kind)
    if kind == "record":
        fields = [(field["name"], _converter(field["type"])) for field in schema["fields"]]
        changed = [(name, convert) for name, convert in fields if convert is not None]
        return _of_record(changed) if changed else None
    if kind == "array":
        return _of_list(_converter(schema["items"]))
    if kind == "map":
        return _of_map(_converter(schema["values"]))
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return _of_decimal(int(schema.get("scale", 0)))
    if kind in ("bytes", "fixed"):
        return _bytes
    return _of_millis if kind == "long" and logical in ("timestamp-millis", "local-timestamp-millis") else None


def _unless_null(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda value: None if value is None else convert(value)


def _of_record(fields: list[tuple[str, Convert]]) -> Convert:
    def convert_fields(record: dict[str, Any]) -> dict[str, Any]:
        # A copy: a record that is a default is the schema's own. It may also leave out what has a default in turn.
        return record | {name: convert(record[name]) for name, convert in fields if name in record}

    return convert_fields


def _of_list(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda values: [convert(value) for value in values]


def _of_map(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda values: {name: convert(value) for name, value in values.items()}


def _of_decimal(scale: int) -> Convert:
    def convert(data: bytes | str) -> Decimal:
        return Decimal(int.from_bytes(_bytes(data), "big", signed=True)).scaleb(-scale, _EXACT)

    return convert


def _of_millis(value: int) -> int:
    return value * 1000


def _bytes(data: bytes | str) -> bytes:
    """A default is text in a schema, each character a byte, and fastavro hands it on as it stands there."""
    return data.encode("latin-1") if isinstance(data, str) else data

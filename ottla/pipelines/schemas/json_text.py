"""JSON by Spark's own functions, made strict, and JSON Schema as Spark's types and back.

Promises: what is read is one JSON value of the column's type and nothing after it, in UTF-8. `from_json` alone takes
the first value of several and lets broken text through. A field that is missing is null, one that the type does not
have is left out, one of another type makes the whole value a bad one.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as t

from ottla.pipelines.errors import PipelineError

FRAME = 5
"""A zero byte and a schema's number, before the value."""
_VALUE, _END, _CORRUPT = "_ottla_value", "_ottla_end", "_ottla_corrupt"
_EXACT_TIMES = {  # Spark writes milliseconds unless it is told, and its timestamps have microseconds
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_WRITABLE = (t.StructType, t.ArrayType, t.MapType, t.VariantType)


def read_column(data_type: t.DataType, column: Column, *, has_schema_id: bool) -> Column:
    """A struct: `value`, and `error` with the reason where there is none."""
    text = column.cast("string")
    bad_frame = f.lit(False)
    if has_schema_id:
        data = column.cast("binary")
        text = f.substring(data, FRAME + 1, 2**31 - 1).cast("string")
        bad_frame = (f.length(data) <= FRAME) | (f.substring(data, 1, 1) != f.lit(b"\0"))
    # One object around the value, with a mark after it: text that ends too early, or goes on, loses the mark or breaks
    # the object, and any type of value has a place for Spark's note of what it could not read.
    wrapped = f.concat(f.lit(f'{{"{_VALUE}":'), text, f.lit(f',"{_END}":1}}'))
    schema = t.StructType().add(_VALUE, data_type).add(_END, t.IntegerType()).add(_CORRUPT, t.StringType())
    read = f.from_json(wrapped, schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT})
    error = (
        f.when(column.isNull(), f.lit(None))
        .when(bad_frame, f.lit("the value does not begin with a schema's number; was it written without a registry?"))
        .when(~f.is_valid_utf8(text), f.lit("the value is not in UTF-8"))
        .when(read[_END].isNull(), f.lit("the value is no JSON"))
        .when(read[_CORRUPT].isNotNull(), f.lit(f"the value is JSON, but not {data_type.simpleString()}"))
    )
    return f.struct(read[_VALUE].alias("value"), error.alias("error"))


def write_column(data_type: t.DataType, column: Column, prefix: bytes) -> Column:
    """The bytes, behind `prefix`; null stays null. Fields that are null are left out, as Spark does."""
    if not isinstance(data_type, _WRITABLE):
        raise PipelineError(f"{data_type.simpleString()} is no JSON by itself: put it into a struct")
    data = f.to_json(column, _EXACT_TIMES).cast("binary")
    return f.concat(f.lit(prefix), data) if prefix else data


def spark_type(schema: str) -> t.DataType:
    """The type of a JSON Schema's values; what has no column is refused by its place."""
    try:
        whole = json.loads(schema)
    except ValueError as error:
        raise PipelineError(f"the JSON schema cannot be read: {error}") from error
    return _type(whole, whole, "#", ())


def json_schema(data_type: t.DataType, title: str = "Record") -> str:
    """A JSON Schema that every value of a column obeys once it is written."""
    schema = _schema(data_type)
    if isinstance(data_type, t.StructType):
        schema = {"$schema": "http://json-schema.org/draft-07/schema#", "title": title, **schema}
    return json.dumps(schema)


def _type(schema: Any, whole: Any, where: str, seen: tuple[str, ...]) -> t.DataType:
    if not isinstance(schema, dict):
        raise PipelineError(f"{where} of the JSON schema allows anything, and a column has one type")
    if "$ref" in schema:
        address = str(schema["$ref"])
        if address in seen:
            raise PipelineError(f"{where} of the JSON schema contains itself, and a column cannot")
        return _type(_find(address, whole, where), whole, address, (*seen, address))
    for union in ("oneOf", "anyOf"):
        if union in schema:
            others = [one for one in schema[union] if one != {"type": "null"}]
            if len(others) != 1:
                raise PipelineError(f"{where} of the JSON schema is a choice of several, and a column has one type")
            return _type(others[0], whole, where, seen)
    kinds = schema.get("type")
    kinds = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"]
    match kinds:
        case ["string"]:
            return t.StringType()
        case ["integer"]:
            return t.LongType()
        case ["number"] | ["integer", "number"] | ["number", "integer"]:
            return t.DoubleType()
        case ["boolean"]:
            return t.BooleanType()
        case ["array"]:
            return t.ArrayType(_type(schema.get("items"), whole, f"{where}/items", seen))
        case ["object"] if schema.get("properties"):
            return t.StructType(
                [
                    t.StructField(name, _type(one, whole, f"{where}/properties/{name}", seen))
                    for name, one in schema["properties"].items()
                ]
            )
        case ["object"]:
            values = schema.get("additionalProperties")
            return t.MapType(t.StringType(), _type(values, whole, f"{where}/additionalProperties", seen))
        case _:
            raise PipelineError(
                f"{where} of the JSON schema has no one type, and a column has: give the columns instead"
            )


def _find(address: str, whole: Any, where: str) -> Any:
    if not address.startswith("#/"):
        raise PipelineError(f"{where} of the JSON schema refers to {address}, outside of it: give the columns instead")
    found = whole
    for step in address[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or name not in found:
            raise PipelineError(f"{where} of the JSON schema refers to {address}, which is not there")
        found = found[name]
    return found


def _schema(data_type: t.DataType) -> dict[str, Any]:
    match data_type:
        case t.BooleanType():
            return {"type": "boolean"}
        case t.ByteType() | t.ShortType() | t.IntegerType() | t.LongType():
            return {"type": "integer"}
        case t.FloatType() | t.DoubleType() | t.DecimalType():
            return {"type": "number"}
        case t.StringType() | t.DateType() | t.TimestampType() | t.TimestampNTZType() | t.BinaryType():
            return {"type": "string"}
        case t.ArrayType():
            return {"type": "array", "items": _or_null(_schema(data_type.elementType), data_type.containsNull)}
        case t.MapType() if isinstance(data_type.keyType, t.StringType):
            values = _or_null(_schema(data_type.valueType), data_type.valueContainsNull)
            return {"type": "object", "additionalProperties": values}
        case t.StructType():
            fields = {field.name: _or_null(_schema(field.dataType), field.nullable) for field in data_type.fields}
            needed = [field.name for field in data_type.fields if not field.nullable]
            return {"type": "object", "properties": fields, **({"required": needed} if needed else {})}
        case _:
            raise PipelineError(f"{data_type.simpleString()} has no type in JSON: cast it, or leave it out")


def _or_null(schema: dict[str, Any], may_be_null: bool) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, schema]} if may_be_null else schema

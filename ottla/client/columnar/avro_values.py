"""Avro values to typed columns: bare, or behind a schema's id as Confluent's serializers write them.

Promises: row i of the result is the value in row i, read with the schema it was written with and resolved to the one
that is asked for, or the whole column is refused with the first row that is no such value, no shorter and no longer.
fastavro reads the values one by one; Arrow types are taken from the Avro schema (`arrow_type`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

import fastavro
import pyarrow as pa

from ottla.client.columnar.values import BadValue
from ottla.errors import KafkaError

Schema: TypeAlias = str | list[Any] | dict[str, Any]
"""An Avro schema, as JSON text or as what JSON text says."""

_PREFIX = struct.Struct(">bi")  # Confluent's magic byte, which is 0, and the schema's id


class AvroValues:
    """Decodes Avro values into columns of the type that `schema` describes.

    Without `lookup` the values are bare and were written with `schema`. With it they begin with a schema's id, and
    `lookup` gives the schema of an id (it is asked once for each, and may raise `LookupError` or a `KafkaError`);
    `schema` is then the one to resolve to, by default that of the first value, which stays the type from then on.
    """

    def __init__(self, schema: Schema | None = None, *, lookup: Callable[[int], Schema] | None = None) -> None:
        if schema is None and lookup is None:
            raise ValueError("AvroValues needs a schema, or a lookup of schemas by their ids")
        self._lookup = lookup
        self._reader: Any = None
        self._type: pa.DataType | None = None
        self._writers: dict[int, Any] = {}
        if schema is not None:
            self._resolve_to(schema)

    @property
    def type(self) -> pa.DataType:
        return pa.null() if self._type is None else self._type

    def decode(self, values: pa.Array) -> pa.Array:
        """See `ValueDecoder`."""
        if len(values) == 0:
            return pa.array([], self.type)
        data = values.buffers()[2]
        source = pa.BufferReader(b"" if data is None else data)
        ends = memoryview(values.buffers()[1]).cast("B").cast("i")[values.offset :]
        valid = None if values.null_count == 0 else values.is_valid().to_pylist()
        found: list[Any] = []
        for row in range(len(values)):
            if valid is not None and not valid[row]:
                found.append(None)
                continue
            found.append(self._read(source, row, ends[row], ends[row + 1]))
        if self._type is None:
            return pa.nulls(len(found))
        try:
            return pa.array(found, self._type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise _first_unfit(found, self._type, str(error)) from None

    def _read(self, source: Any, row: int, start: int, end: int) -> Any:
        source.seek(start)
        writer = self._reader if self._lookup is None else self._writer(source, row, end - start)
        try:
            value = fastavro.schemaless_reader(source, writer, None if writer is self._reader else self._reader)
        except _REFUSALS as error:
            raise BadValue(row, f"it is not Avro of the schema ({type(error).__name__}: {error})") from None
        if source.tell() != end:
            raise BadValue(row, f"the value takes {source.tell() - start} bytes, and there are {end - start}")
        return value

    def _writer(self, source: Any, row: int, size: int) -> Any:
        """The schema that the value was written with, by the id in front of it."""
        if size < _PREFIX.size:
            raise BadValue(row, f"{size} bytes are too few for a schema's id")
        magic, schema_id = _PREFIX.unpack(source.read(_PREFIX.size))
        if magic != 0:
            raise BadValue(row, f"it begins with {magic} and not with the 0 that comes before a schema's id")
        writer = self._writers.get(schema_id)
        if writer is None:
            assert self._lookup is not None, "the caller has looked"
            try:
                schema = self._lookup(schema_id)
                if self._type is None:
                    self._resolve_to(schema)
                    writer = self._reader
                else:
                    writer = _for_reading(schema)
            except (LookupError, KafkaError, ValueError) as error:
                raise BadValue(row, f"the schema {schema_id} cannot be had: {error}") from error
            self._writers[schema_id] = writer
        return writer

    def _resolve_to(self, schema: Schema) -> None:
        self._type = arrow_type(schema)
        self._reader = _for_reading(schema)


def arrow_type(schema: Schema) -> pa.DataType:
    """The Arrow type of values of an Avro schema; `ValueError` where Arrow has none (unions of several, recursion)."""
    return _arrow_type(_parsed(schema), {}, ())


def _arrow_type(schema: Any, named: dict[str, Any], around: tuple[str, ...]) -> pa.DataType:
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        if len(branches) != 1:
            raise ValueError(f"an Avro union of {len(branches)} types has no Arrow column: {json.dumps(schema)[:200]}")
        return _arrow_type(branches[0], named, around)
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return _PRIMITIVES[schema]
        if schema in around:
            raise ValueError(f"Avro's {schema} holds itself, for which there is no Arrow column")
        if schema not in named:
            raise ValueError(f"{schema!r} is no Avro type")
        return _arrow_type(named[schema], named, around)
    kind = schema["type"]
    logical = _LOGICAL.get((kind if isinstance(kind, str) else "", schema.get("logicalType")))
    if logical is not None:
        return logical
    match kind:
        case "record":
            named[schema["name"]] = schema
            inside = (*around, schema["name"])
            return pa.struct([(field["name"], _arrow_type(field["type"], named, inside)) for field in schema["fields"]])
        case "enum":
            named[schema["name"]] = schema
            return pa.string()
        case "array":
            return pa.list_(_arrow_type(schema["items"], named, around))
        case "map":
            return pa.map_(pa.string(), _arrow_type(schema["values"], named, around))
        case "bytes" | "fixed" if schema.get("logicalType") == "decimal":
            if kind == "fixed":
                named[schema["name"]] = schema
            return pa.decimal128(schema["precision"], schema.get("scale", 0))
        case "fixed":
            named[schema["name"]] = schema
            return pa.binary(schema["size"])
        case _:
            return _arrow_type(kind, named, around)


_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}

_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}


# What fastavro raises for bytes that are no value of the schema: nothing of it is documented, all of it was seen.
_REFUSALS = (EOFError, ValueError, IndexError, TypeError, KeyError, OverflowError, fastavro.read.SchemaResolutionError)


def _parsed(schema: Schema) -> Any:
    """The schema as fastavro wants it, with whole names. `ValueError` when it is none."""
    if isinstance(schema, str):
        schema = _from_text(schema)
    try:
        return fastavro.parse_schema(schema)
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, KeyError, TypeError) as error:
        raise ValueError(f"not an Avro schema ({type(error).__name__}: {error})") from None


def _from_text(text: str) -> Schema:
    try:
        found: Schema = json.loads(text)
    except ValueError:
        return text  # a type's bare name
    return found


def _for_reading(schema: Schema) -> Any:
    """The schema without the logical types that are numbers or text to Arrow.

    fastavro would make a datetime of each timestamp, for Arrow to take apart again.
    """
    if isinstance(schema, str):
        schema = _from_text(schema)
    return _parsed(_without_logical_types(schema))


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    keeps = schema.get("logicalType") == "decimal"
    return {
        name: _without_logical_types(part) if name in ("type", "items", "values", "fields") else part
        for name, part in schema.items()
        if name != "logicalType" or keeps
    }


def _first_unfit(values: list[Any], kind: pa.DataType, why: str) -> BadValue:
    for row, value in enumerate(values):
        try:
            pa.array([value], kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            return BadValue(row, str(error))
    return BadValue(0, why)

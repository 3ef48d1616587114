"""Formats of keys and values, as ksqlDB names them, and the serdes of a topology that they are.

KAFKA is what Kafka's own serializers write, one column of a simple type; JSON an object, or a key's one value;
DELIMITED comma-separated text; AVRO, PROTOBUF and JSON_SR values by a schema registry. Spark is imported when a serde
is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.pipelines.sql.catalog import Column, Source
from ottla.pipelines.sql.errors import SqlError
from ottla.pipelines.sql.types import KAFKA_SERDES, ddl
from ottla.pipelines.streams.serdes import Serde

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

VALUE_FORMATS = ("JSON", "KAFKA", "DELIMITED", "AVRO", "PROTOBUF", "JSON_SR")
KEY_FORMATS = ("KAFKA", "JSON", "NONE")
BY_REGISTRY = ("AVRO", "PROTOBUF", "JSON_SR")
PLAIN_TYPES = ("STRING", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP")


def check_key(name: str, columns: Sequence[Column], key_format: str) -> None:
    """Refuses key columns that the format has no form for."""
    if key_format not in KEY_FORMATS:
        raise SqlError(f"KEY_FORMAT is one of {', '.join(KEY_FORMATS)}, not {key_format}")
    if not columns:
        return
    if key_format == "NONE":
        raise SqlError(f"{name} has a key column {columns[0].name} and KEY_FORMAT NONE: say KAFKA or JSON")
    if key_format == "KAFKA" and len(columns) > 1:
        listed = ", ".join(column.name for column in columns)
        raise SqlError(f"{name} has the key columns {listed}, and the format KAFKA has one: KEY_FORMAT = 'JSON'")
    if key_format == "KAFKA" and columns[0].type not in KAFKA_SERDES:
        raise SqlError(_no_serializer(columns[0], "KEY_FORMAT"))


def check_value(name: str, columns: Sequence[Column], value_format: str) -> None:
    """Refuses value columns that the format has no form for."""
    if value_format not in VALUE_FORMATS:
        raise SqlError(f"VALUE_FORMAT is one of {', '.join(VALUE_FORMATS)}, not {value_format}")
    if not columns:
        raise SqlError(f"{name} has no value columns: a record's value needs one at least")
    if value_format == "KAFKA" and len(columns) > 1:
        listed = ", ".join(column.name for column in columns)
        raise SqlError(f"{name} has the value columns {listed}, and the format KAFKA has one: VALUE_FORMAT = 'JSON'")
    if value_format == "KAFKA" and columns[0].type not in KAFKA_SERDES:
        raise SqlError(_no_serializer(columns[0], "VALUE_FORMAT"))
    if value_format == "DELIMITED":
        for column in columns:
            if column.type not in PLAIN_TYPES and not column.type.startswith("DECIMAL"):
                raise SqlError(f"DELIMITED has no form for {column.name} {column.type}: VALUE_FORMAT = 'JSON'")


def _no_serializer(column: Column, what: str) -> str:
    listed = ", ".join(KAFKA_SERDES)
    return f"Kafka has no serializer for {column.name} {column.type}, only for {listed}: {what} = 'JSON'"


# --- serdes


def key_serde(columns: Sequence[Column], key_format: str) -> Serde:
    """The serde of a key without windows. A stream without key columns has its keys as bytes."""
    if not columns:
        return Serde.of("bytes")
    if key_format == "KAFKA":
        return Serde.of(KAFKA_SERDES[columns[0].type])
    if len(columns) > 1:
        return Serde("json", _fields(columns))
    return _json_scalar(columns[0].type)


def value_serde(source: Source, registry: str | None) -> Serde:
    """The serde of a value."""
    columns = source.value_columns
    match source.value_format:
        case "KAFKA":
            return Serde.of(KAFKA_SERDES[columns[0].type])
        case "DELIMITED":
            return _delimited(_fields(columns))
        case "JSON":
            return Serde("json", _fields(columns))
    from ottla.pipelines.sql.registry_serdes import registry_serde

    if registry is None:
        raise SqlError(f"{source.name} has values in {source.value_format}: name the registry with --schema-registry")
    return registry_serde(source.topic, source.value_format, _fields(columns), registry)


def windowed(inner: Serde, window: str, size_ms: int | None) -> Serde:
    """The key of a windowed table as Kafka Streams writes it, read as a struct of `key`, `start` and `end`."""

    def decode(raw: SparkColumn) -> SparkColumn:
        from pyspark.sql import functions as F

        times = 8 if window == "TIME" else 16
        key = _decoded(inner, F.substring(raw, F.lit(1), F.length(raw) - times))
        last = _decoded(Serde.of("long"), F.substring(raw, F.length(raw) - 7, F.lit(8)))
        if window == "TIME":
            end = last + F.lit(size_ms)
        else:
            end = _decoded(Serde.of("long"), F.substring(raw, F.length(raw) - 15, F.lit(8)))
        found = F.struct(key.alias("key"), last.alias("start"), end.alias("end"))
        return F.when(F.length(raw) >= times, found)

    def encode(value: SparkColumn) -> SparkColumn:
        from pyspark.sql import functions as F

        from ottla.pipelines.streams.compiler.columns import encode as encoded

        names = ["start"] if window == "TIME" else ["end", "start"]
        parts = [encoded(Serde.of("long"), value.getField(name)) for name in names]
        return F.concat(encoded(inner, value.getField("key")), *parts)

    return Serde(f"windowed {inner.name}", f"STRUCT<key: {_type(inner)}, start: BIGINT, end: BIGINT>", decode, encode)


def _decoded(serde: Serde, raw: SparkColumn) -> SparkColumn:
    from ottla.pipelines.streams.compiler.columns import parse, parsed_value

    return parsed_value(serde, parse(serde, raw))


def _type(serde: Serde) -> str:
    """A serde's type where a type stands, not a schema."""
    return f"STRUCT<{serde.type}>" if serde.name == "json" and serde.type.startswith("`") else serde.type


def _fields(columns: Sequence[Column]) -> str:
    return ddl([(column.name, column.type) for column in columns])


def _json_scalar(kind: str) -> Serde:
    """One value as JSON, which is not wrapped: ksqlDB's form of a key of one column."""
    reading = Serde("json", kind)

    def decode(raw: SparkColumn) -> SparkColumn:
        return _decoded(reading, raw)

    def encode(value: SparkColumn) -> SparkColumn:
        from pyspark.sql import functions as F

        from ottla.pipelines.streams.compiler.columns import JSON

        array = F.to_json(F.array(value), JSON)
        text = F.substring(array, F.lit(2), F.length(array) - 2)
        return F.when(value.isNotNull(), text.cast("binary"))

    return Serde("json key", kind, decode, encode)


def _delimited(schema: str) -> Serde:
    def decode(raw: SparkColumn) -> SparkColumn:
        from pyspark.sql import functions as F

        return F.when(raw.isNotNull(), F.from_csv(raw.cast("string"), schema, {"mode": "FAILFAST"}))

    def encode(value: SparkColumn) -> SparkColumn:
        from pyspark.sql import functions as F

        return F.when(value.isNotNull(), F.to_csv(value).cast("binary"))

    return Serde("delimited", schema, decode, encode)

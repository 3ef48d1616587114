"""The key of a record as transforms see it, beside the bytes that it came as.

`record.META` keeps the bytes, which a dead letter has. `seen` puts beside them what the source's `key` makes of them,
when the first transform of keys asks; `written` turns it into the bytes that a sink topic writes. A key that nobody
transforms stays the bytes it was. Called by `smt` and `sinks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from ottla.pipelines.connect import record
from ottla.pipelines.connect.record import KEY_CONVERTER, META

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ottla.pipelines.connect.spec import Pipeline

KEY = "key_now"
"""The field of the struct that has it."""
_CORRUPT = "__ottla_corrupt"


def is_seen(df: DataFrame) -> bool:
    return KEY in meta_type(df).fieldNames()


def meta_type(df: DataFrame) -> T.StructType:
    found = df.schema[META].dataType
    assert isinstance(found, T.StructType), "it is a struct from the source on"
    return found


def seen(df: DataFrame, pipeline: Pipeline) -> DataFrame:
    """The records with their keys as the source says that they are to be read."""
    if is_seen(df):
        return df
    options = pipeline.source.options
    key, form = record.of("key"), options.get("key", "bytes") if pipeline.source.kind == "topic" else "bytes"
    text = key.cast("string")
    if form == "string":
        bad = ~F.coalesce(F.is_valid_utf8(key), F.lit(True))
        df = _failed(df, bad, form, "the key is not UTF-8")
        return df.withColumn(META, F.col(META).withField(KEY, text))
    if form == "json":
        fields = T.StructType.fromDDL(options["key-schema"])
        assert isinstance(fields, T.StructType), "the file was checked"
        wanted = T.StructType([*fields.fields, T.StructField(_CORRUPT, T.StringType())])
        found = F.from_json(text, wanted, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT})
        df = df.withColumn("__ottla_key", found)
        found = F.col("__ottla_key")
        bad = found.getField(_CORRUPT).isNotNull() | (text.isNotNull() & (F.trim(text) == ""))
        df = _failed(df, F.coalesce(bad, F.lit(False)), form, "the key is not as the key-schema says")
        read = F.when(text.isNotNull(), F.struct(*(found.getField(one).alias(one) for one in fields.fieldNames())))
        return df.withColumn(META, F.col(META).withField(KEY, read)).drop("__ottla_key")
    return df.withColumn(META, F.col(META).withField(KEY, key))


def _failed(df: DataFrame, when: Column, form: str, message: str) -> DataFrame:
    return record.failed(df, when, stage=KEY_CONVERTER, transform=form, kind="DataException", message=message)


def written(df: DataFrame) -> Column:
    """The key's bytes: as they came, or of what the transforms made."""
    if not is_seen(df):
        return record.of("key")
    return as_bytes(record.of(KEY), meta_type(df)[KEY].dataType)


def as_bytes(value: Column, type_: T.DataType) -> Column:
    """Text and bytes as they are, numbers as text, records, lists and maps as JSON."""
    if isinstance(type_, T.BinaryType):
        return value
    if isinstance(type_, T.StructType | T.ArrayType | T.MapType):
        return F.to_json(value, {"ignoreNullFields": "false"}).cast("binary")
    return value.cast("string").cast("binary")

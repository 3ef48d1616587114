"""The column that goes with every record through a pipeline: where it came from, and what went wrong with it.

A record's fields are columns. Beside them stands `__ottla`, a struct: the record as it was in the source, the topic
that `route` chose, and the first error. Whoever finds an error only notes it (`failed`); the last step parts good from
bad by `errors: stop | skip | dead-letter`. So bad records cost no exception, and what is written of them is whole.

A dead letter is the record as it was, with its headers and, after them, those that Kafka Connect writes
(`__connect.errors.*`), as text. For records of files there is `__ottla.errors.file` instead of a topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from ottla.pipelines.connect.spec import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

META = "__ottla"
HEADERS_TYPE = T.ArrayType(T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.BinaryType())]))
ERROR_TYPE = T.StructType([T.StructField(name, T.StringType()) for name in ("stage", "transform", "class", "message")])
META_TYPE = T.StructType(
    [
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("timestamp", T.TimestampType()),
        T.StructField("file", T.StringType()),
        T.StructField("key", T.BinaryType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("headers", HEADERS_TYPE),
        T.StructField("is_tombstone", T.BooleanType()),
        T.StructField("target", T.StringType()),
        T.StructField("error", ERROR_TYPE),
    ]
)
WRITTEN = "written"
"""A field that the struct gets at the end, where values are written by a schema: the bytes."""
KEY_CONVERTER = "KEY_CONVERTER"
VALUE_CONVERTER = "VALUE_CONVERTER"
TRANSFORMATION = "TRANSFORMATION"
"""Stages of Kafka Connect."""
PREFIX = "__connect.errors."
WHOLE, RECORD = "whole", "record"
"""Fields that the struct gets where a transform said whether the value is a record of fields or all of it one value."""


def meta(**known: Column) -> Column:
    """The struct, with what is known of the record's origin."""
    assert known.keys() <= set(META_TYPE.fieldNames()), "another field than the struct has"
    return F.struct(
        *(known.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in META_TYPE.fields)
    )


def of(field: str) -> Column:
    """A field of the struct."""
    return F.col(META).getField(field)


def names(df: DataFrame) -> list[str]:
    """The fields of the records."""
    return [name for name in df.columns if name != META]


def is_whole(df: DataFrame) -> bool:
    """Whether the value is no record of fields: a lone field `value` of text or bytes, or what a transform took out."""
    there, marks = names(df), df.schema[META].dataType.fieldNames()  # type: ignore[attr-defined]  # it is a struct
    if there != ["value"] or RECORD in marks:
        return False
    return WHOLE in marks or isinstance(df.schema["value"].dataType, T.StringType | T.BinaryType)


def marked(meta: Column, type_: T.StructType, *, is_whole: bool) -> Column:
    """The struct, in which stands what `is_whole` is to say."""
    new, old = (WHOLE, RECORD) if is_whole else (RECORD, WHOLE)
    meta = meta.withField(new, F.lit(True))
    return meta.dropFields(old) if old in type_.fieldNames() else meta


def field(name: str) -> Column:
    """A column by its whole name: a dot in it is no step into a struct."""
    return F.col(f"`{name.replace('`', '``')}`")


def is_good() -> Column:
    return of("error").isNull()


def failed(df: DataFrame, when: Column, *, stage: str, transform: str, kind: str, message: Column | str) -> DataFrame:
    """Note an error with the records for which `when` holds, unless they have one: the first is the cause."""
    return with_error(df, F.when(when, error(stage=stage, transform=transform, kind=kind, message=message)))


def with_error(df: DataFrame, found: Column) -> DataFrame:
    """Note the error that `found` is, where it is one."""
    return df.withColumn(META, F.col(META).withField("error", F.coalesce(of("error"), found)))


def error(*, stage: str, transform: str, kind: str | Column, message: Column | str) -> Column:
    """An error as a struct."""
    parts = (stage, transform, kind, message)
    columns = (F.lit(part) if isinstance(part, str) else part for part in parts)
    return F.struct(
        *(column.cast("string").alias(name) for name, column in zip(ERROR_TYPE.fieldNames(), columns, strict=True))
    )


def part_good_from_bad(df: DataFrame, pipeline: Pipeline) -> tuple[DataFrame, DataFrame | None]:
    """The records to write, and the dead letters as rows of the sink: key, value, headers, topic."""
    counted = F.count(F.when(~is_good(), True)).alias("bad")
    match pipeline.errors:
        case "stop":
            return df.filter(F.when(is_good(), True).otherwise(F.raise_error(told()).cast("boolean"))), None
        case "skip":
            return (df.observe("records", counted) if df.isStreaming else df).filter(is_good()), None
        case _:
            assert pipeline.dead_letter is not None, "the file was checked"
            bad = df.filter(~is_good())
            return df.filter(is_good()), dead_letters(bad, pipeline.name, pipeline.dead_letter.topic)


def observed(df: DataFrame, name: str = "records") -> DataFrame:
    """Count bad records where nothing else does, for the progress."""
    return df.observe(name, F.count(F.when(~is_good(), True)).alias("bad")) if df.isStreaming else df


def told() -> Column:
    """What is said of a bad record that stops the pipeline."""
    place = F.coalesce(
        F.concat(of("topic"), F.lit("-"), of("partition").cast("string"), F.lit("@"), of("offset").cast("string")),
        of("file"),
        F.lit("a record"),
    )
    bad = of("error")
    return F.concat(
        F.lit("BAD_RECORD "), place, F.lit(": "), bad.getField("transform"), F.lit(": "), bad.getField("message"),
        F.lit(" ("), bad.getField("class"), F.lit("). `errors: skip` or `errors: dead-letter` would go on."),
    )  # fmt: skip


def dead_letters(bad: DataFrame, pipeline: str, topic: str) -> DataFrame:
    """Bad records as they were, with their errors as headers."""
    return bad.select(*(column.alias(name) for name, column in dead_letter_columns(pipeline, topic).items()))


def dead_letter_columns(pipeline: str, topic: str) -> dict[str, Column]:
    """Topic, key, value and headers of a dead letter."""
    found = of("error")
    said = {
        "topic": of("topic"),
        "partition": of("partition"),
        "offset": of("offset"),
        "connector.name": F.lit(pipeline),
        "stage": found.getField("stage"),
        "class.name": found.getField("transform"),
        "exception.class.name": found.getField("class"),
        "exception.message": found.getField("message"),
    }
    added = [_header(PREFIX + name, value) for name, value in said.items()]
    added.append(_header("__ottla.errors.file", of("file")))
    ours = F.filter(F.array(*added), lambda header: header.getField("value").isNotNull())
    headers = F.concat(F.coalesce(of("headers"), F.array().cast(HEADERS_TYPE)), ours).cast(HEADERS_TYPE)
    return {"topic": F.lit(topic), "key": of("key"), "value": of("value"), "headers": headers}


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))

"""Values of topics by a schema: Avro, Protobuf and a registry's JSON, as fields and back.

Promises: a value that cannot be read, or a record that cannot be written, is a bad record with its reason, and leaves
the others alone; a tombstone stays one, on both sides. What is wrong with the schema itself, or a registry that does
not answer, is told with the line of the part before the first record. Called by `sources` and `sinks`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from ottla.client.errors import SerializationError
from ottla.pipelines.connect import record
from ottla.pipelines.connect.errors import SpecError
from ottla.pipelines.connect.record import META, VALUE_CONVERTER, WRITTEN
from ottla.pipelines.errors import MissingDependency, PipelineError
from ottla.pipelines.schemas import RegistryAddress, from_topic, to_topic

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ottla.pipelines.connect.spec import Part, Pipeline

WHOLE = "__ottla_whole"
TROUBLE = "__ottla_trouble"


def is_by_schema(part: Part) -> bool:
    """Whether a part is a topic whose values have a schema of their own, and not only the columns of JSON."""
    return part.kind == "topic" and not {"registry", "schema-file"}.isdisjoint(part.options)


def read(df: DataFrame, pipeline: Pipeline) -> DataFrame:
    """The fields of the values; one that is no record by its schema is the one field `value`."""
    with _at_its_line(pipeline, "source"):
        raw = df.select(META, record.of("value").alias("value"))
        read = from_topic(raw, mode="PERMISSIVE", error=TROUBLE, **_told(pipeline, "source"))
    form, value, trouble = pipeline.source.options["value"], F.col("value"), F.col(TROUBLE)
    type_ = read.schema["value"].dataType
    df = _bad(read, trouble.isNotNull(), form, trouble.getField("message"))
    if not isinstance(type_, T.StructType):
        return df.select("value", META)
    if META in type_.fieldNames():
        raise pipeline.wrong(("source",), f"the schema has a field {META}, which is ours")
    # JSON and a union can say null where a record is wanted: that has no fields, and is no tombstone either.
    df = _bad(df, value.isNull() & ~record.of("is_tombstone"), form, F.lit("the value is null, and no record"))
    return df.select(*(value.getField(name).alias(name) for name in type_.fieldNames()), META)


def write(df: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Beside the fields, in `record.META`, the bytes of the value that they make; none for a tombstone."""
    has_value = record.is_good() & ~F.coalesce(record.of("is_tombstone"), F.lit(False))
    fields = record.names(df)
    if not fields:
        raise pipeline.wrong(("sink",), "there are no fields to write")
    with _at_its_line(pipeline, "sink"):
        whole = df.withColumn(WHOLE, F.when(has_value, F.struct(*map(record.field, fields))))
        made = to_topic(whole, column=WHOLE, mode="PERMISSIVE", error=TROUBLE, **_told(pipeline, "sink"))
    trouble = F.col(TROUBLE)
    made = _bad(made, trouble.isNotNull(), pipeline.sink.options["value"], trouble.getField("message"))
    return made.withColumn(META, F.col(META).withField(WRITTEN, F.col(WHOLE))).drop(WHOLE, TROUBLE)


def _bad(df: DataFrame, when: Column, form: str, message: Column) -> DataFrame:
    return record.failed(df, when, stage=VALUE_CONVERTER, transform=form, kind="DataException", message=message)


def _told(pipeline: Pipeline, role: str) -> dict[str, Any]:
    """What `from_topic` and `to_topic` take, as the file has it."""
    part: Part = getattr(pipeline, role)
    options = part.options
    topic = options.get("topic")
    if isinstance(topic, tuple):
        topic = topic[0]
    registry = None
    if "registry" in options:
        first, *more = options["registry"]
        user, password = options.get("registry-user"), options.get("registry-password", "")
        registry = RegistryAddress(first, tuple(more), user=user, password=password)
    return {
        "schema": options.get("schema") or pipeline.schema_file(role), "format": options["value"], "topic": topic,
        "registry": registry, "subject": options.get("subject"), "message": options.get("message"),
    }  # fmt: skip


@contextmanager
def _at_its_line(pipeline: Pipeline, role: str) -> Iterator[None]:
    """What the schemas say of a part, with its line in the file."""
    try:
        yield
    except (SpecError, MissingDependency):
        raise
    except ImportError as error:  # a library that is asked for only here
        raise MissingDependency(str(error)) from error
    except (PipelineError, SerializationError) as error:
        raise pipeline.wrong((role,), str(error)) from error

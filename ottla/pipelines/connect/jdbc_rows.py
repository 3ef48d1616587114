"""The rows of a table that records become: their keys, which of them say that a row goes, and the last of each key.

Promises: a record without a key, or with null in it, is a bad one before the sink sees it; of several rows of one key
in a micro-batch the last counts. Last is by offset within a partition, by time between partitions, and for records of
files by file and place in it, so that a micro-batch that is tried again comes to the same rows. Called by `sinks` and
`jdbc`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ottla.pipelines.connect import keys, record
from ottla.pipelines.connect.errors import nearest
from ottla.pipelines.connect.jdbc_dialects import DELETED
from ottla.pipelines.connect.record import META

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ottla.pipelines.connect.spec import Pipeline

STAGE = "TASK_PUT"
"""Kafka Connect's word for what a sink does."""
ORDER = "__ottla_order"
"""A struct with what says which row is the last of its key."""
KAFKA_KEYS = ("__connect_topic", "__connect_partition", "__connect_offset")


def has_key(pipeline: Pipeline) -> bool:
    return pipeline.sink.kind == "jdbc" and pipeline.sink.options["pk-mode"] != "none"


def deletes(pipeline: Pipeline) -> bool:
    return pipeline.sink.kind == "jdbc" and bool(pipeline.sink.options["delete-enabled"])


def key_names(df: DataFrame, pipeline: Pipeline) -> list[str]:
    """The columns that say which row it is."""
    options = pipeline.sink.options
    given = list(options.get("pk-fields", ()))
    match options["pk-mode"]:
        case "kafka":
            return given or list(KAFKA_KEYS)
        case "record_key":
            type_ = keys.meta_type(df)[keys.KEY].dataType
            return given or (type_.fieldNames() if isinstance(type_, T.StructType) else [])
        case _:
            return given


def checked(df: DataFrame, pipeline: Pipeline) -> DataFrame:
    """The records, of which those without a key are bad ones."""
    if not has_key(pipeline):
        return df
    if pipeline.sink.options["pk-mode"] == "record_key":
        df = keys.seen(df, pipeline)
    found = _keys(df, pipeline)
    is_null = F.lit(False)
    for column in found.values():
        is_null = is_null | column.isNull()
    if pipeline.sink.options["pk-mode"] == "record_value":
        is_null = is_null & ~F.coalesce(record.of("is_tombstone"), F.lit(False))
    message = f"a row needs a key, and it is null: {' and '.join(found)}"
    return record.failed(df, is_null, stage=STAGE, transform="jdbc", kind="ConnectException", message=message)


def _keys(df: DataFrame, pipeline: Pipeline) -> dict[str, Column]:
    names, place = key_names(df, pipeline), ("sink", "pk-fields")
    match pipeline.sink.options["pk-mode"]:
        case "kafka":
            return dict(zip(names, map(record.of, ("topic", "partition", "offset")), strict=True))
        case "record_value":
            there = record.names(df)
            for name in names:
                if name not in there:
                    raise pipeline.wrong(place, f"there is no field {name}: {nearest(name, there or ['nothing'])}")
            return {name: record.field(name) for name in names}
    key, type_ = record.of(keys.KEY), keys.meta_type(df)[keys.KEY].dataType
    if isinstance(type_, T.StructType):
        for name in names:
            if name not in type_.fieldNames():
                raise pipeline.wrong(place, f"there is no field {name} of the key: {nearest(name, type_.fieldNames())}")
        return {name: key.getField(name) for name in names}
    if isinstance(type_, T.BinaryType):
        raise pipeline.wrong(
            ("sink", "pk-mode"),
            "the key is bytes: `key: string`, or `key: json` and `key-schema` of the source say how a key is read",
        )
    if len(names) != 1:
        raise pipeline.wrong(place, f"the key is {type_.simpleString()}, so pk-fields is the one column for it")
    return {names[0]: key}


def rows(df: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Good records as rows: the keys, the other fields, whether the row goes, and what the last is found by."""
    if not has_key(pipeline):
        return df.drop(META)
    found = _keys(df, pipeline)
    for name in record.names(df):
        if name.lower() == DELETED:
            raise pipeline.wrong(("sink",), f"a field {name} would be taken for a column of the staging table")
        if isinstance(df.schema[name].dataType, T.StructType | T.ArrayType | T.MapType):
            what = df.schema[name].dataType.simpleString()
            raise pipeline.wrong(("sink",), f"{name} is {what}, for which a table has no column: flatten or drop it")
    others = [record.field(name) for name in record.names(df) if name not in found]
    gone = F.coalesce(record.of("is_tombstone"), F.lit(False)).cast("int").alias(DELETED)
    order = F.struct(*(record.of(name).alias(name) for name in ("topic", "partition", "offset", "timestamp", "file")))
    return df.select(*(column.alias(name) for name, column in found.items()), *others, gone, order.alias(ORDER))


def last(df: DataFrame, key: Sequence[str]) -> DataFrame:
    """Of each key the last row, without what it was found by."""
    order, by, place = F.col(ORDER), [record.field(name) for name in key], F.col("__ottla_place")
    topic, partition, file = (order.getField(name) for name in ("topic", "partition", "file"))
    newest = Window.partitionBy(*by, topic, partition, file).orderBy(
        order.getField("offset").desc_nulls_last(), place.desc()
    )
    latest = Window.partitionBy(*by).orderBy(
        order.getField("timestamp").desc_nulls_last(),
        *(one.desc_nulls_last() for one in (topic, partition, file)), place.desc(),
    )  # fmt: skip
    # The place of a line in its file, for records that have no offset: Spark reads a file from its beginning.
    df = df.withColumn("__ottla_place", F.monotonically_increasing_id())
    for window in (newest, latest):
        df = df.withColumn("__ottla_rank", F.row_number().over(window)).filter("__ottla_rank = 1")
    return df.drop("__ottla_rank", "__ottla_place", ORDER)

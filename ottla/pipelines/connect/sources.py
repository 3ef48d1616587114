"""The sources by name, as DataFrames of fields with the record's own column (`record.META`) beside them.

Promises: a value that cannot be read by its schema makes the record a bad one, never a row of nulls; a tombstone stays
one. Every source is a stream, but a `jdbc` without a column that grows and one of several that is `static`. Called by
`runner` and `flow`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ottla.pipelines.connect import envelope, record, values
from ottla.pipelines.connect.packages import require_driver, require_format
from ottla.pipelines.connect.reasons import reason
from ottla.pipelines.connect.record import META, VALUE_CONVERTER
from ottla.pipelines.connect.transforms import parsed_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

    from ottla.pipelines.connect.spec import Part, Pipeline
    from ottla.pipelines.postgresql.catalog import Table

CORRUPT = "__ottla_corrupt"


def read(
    spark: SparkSession,
    pipeline: Pipeline,
    spool: str | None = None,
    tables: Sequence[Table] = (),
    excluded: frozenset[tuple[str, str, str]] = frozenset(),
) -> DataFrame:
    """The records of the pipeline's source.

    `spool` is where a source `http`, a growing table or a captured database keeps them; of the last, `tables` are those
    that are captured, without the columns `excluded`.
    """
    source = pipeline.source
    try:
        match source.kind:
            case "topic":
                return _topic(spark, pipeline)
            case "json":
                return _lines(_files(spark, source, "text"), source)
            case "http":
                assert spool is not None, "the runner has started the server"
                return _lines(_spooled(spark, spool), source)
            case "text":
                return _texts(_files(spark, source, "text"))
            case "csv":
                return _csv(spark, pipeline)
            case "parquet":
                schema = parsed_schema(source.options["schema"])
                df = _files(spark, source, "parquet", schema)
                kept = _kept(schema.fieldNames(), pipeline)
                return df.select(
                    *schema.fieldNames(), record.meta(file=F.col("_metadata.file_path"), value=kept).alias(META)
                )
            case "jdbc":
                table = jdbc_reader(spark, source).load()
                if spool is None:
                    return _with_meta(table, pipeline)
                # The spool's files are numbered, by which a sink knows the later of two rows of one key.
                origin = record.meta(file=F.col("_metadata.file_path"), value=_kept(table.columns, pipeline))
                return _grown(spark, spool, table.schema).withColumn(META, origin)
            case "postgresql-cdc":
                assert spool is not None, "the runner has made it"
                return envelope.read(spark, pipeline, os.path.abspath(spool), tables, excluded)
            case "delta":
                require_format(spark, "delta")
                return _with_meta(_reader(spark, source).format("delta").load(source.options["path"]), pipeline)
            case kind:
                assert kind == "iceberg", f"{kind} is in the table of sources and not here"
                require_format(spark, "iceberg")
                return _with_meta(_reader(spark, source).format("iceberg").load(source.options["table"]), pipeline)
    except PySparkException as error:
        raise pipeline.wrong(("source",), reason(str(error))) from None


def _topic(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    source = pipeline.source
    options = source.options
    reader = (
        spark.readStream.format("ottla")
        .options(**source.passed("kafka."))
        .option("kafka.bootstrap.servers", options["bootstrap.servers"])
        .option("startingOffsets", options["starting-offsets"])
        .option("includeHeaders", "true")
        .option("columns", "key,value,topic,partition,offset,timestamp,headers")
    )
    if "topic" in options:
        reader = reader.option("subscribe", ",".join(options["topic"]))
    else:
        reader = reader.option("subscribePattern", options["pattern"])
    reader = reader.option("maxOffsetsPerTrigger", options["max-records-per-batch"])
    if "group" in options:
        reader = reader.option("commitGroup", options["group"])
    origin = record.meta(
        topic=F.col("topic"), partition=F.col("partition"), offset=F.col("offset"), timestamp=F.col("timestamp"),
        key=F.col("key"), value=F.col("value"), headers=F.col("headers"), is_tombstone=F.col("value").isNull(),
    )  # fmt: skip
    df = reader.load().select(origin.alias(META))
    if values.is_by_schema(source):
        return values.read(df, pipeline)
    value = record.of("value")
    match options["value"]:
        case "bytes":
            return df.select(value.alias("value"), META)
        case "string":
            # Bytes that are no UTF-8 would become other bytes on the way back.
            df = record.failed(
                df, ~F.coalesce(F.is_valid_utf8(value), F.lit(True)),
                stage=VALUE_CONVERTER, transform="string", kind="DataException", message="the value is not UTF-8",
            )  # fmt: skip
            return df.select(value.cast("string").alias("value"), META)
        case format_:
            assert format_ == "json", f"{format_} is in the table of formats and not here"
            return _json(df, value.cast("string"), parsed_schema(options["schema"]))


def _lines(df: DataFrame, source: Part) -> DataFrame:
    """Lines of text as the records that they say."""
    if source.options.get("value") == "string":
        return _texts(df)
    value = F.col("value")
    whole = df.select(record.meta(file=F.col("_metadata.file_path"), value=value.cast("binary")).alias(META))
    return _json(whole, record.of("value").cast("string"), parsed_schema(source.options["schema"]))


def _json(df: DataFrame, text: Column, schema: T.StructType) -> DataFrame:
    """The fields of JSON texts. Spark gives what it cannot read back in a column, which makes a bad record of it."""
    wanted = T.StructType([*schema.fields, T.StructField(CORRUPT, T.StringType())])
    parsed = F.from_json(text, wanted, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT})
    df = df.withColumn("__ottla_parsed", parsed)
    found = F.col("__ottla_parsed")
    not_of_type = F.concat_ws(
        ", ",
        *(
            F.when(
                F.get_json_object(text, f"$['{one.name}']").isNotNull() & found.getField(one.name).isNull(),
                F.lit(f"{one.name} is no {one.dataType.simpleString()}"),
            )
            for one in schema.fields
            if "'" not in one.name
        ),
    )
    message = F.when(F.try_parse_json(text).isNull(), F.lit("the value is not JSON")).otherwise(
        F.concat(F.lit("the value is not as the schema says"), F.concat(F.lit(": "), not_of_type))
    )
    # An empty text is no record of its own to Spark, which gives nothing for it.
    is_bad = found.getField(CORRUPT).isNotNull() | (text.isNotNull() & (F.trim(text) == ""))
    df = record.failed(
        df, F.coalesce(is_bad, F.lit(False)),
        stage=VALUE_CONVERTER, transform="json", kind="DataException", message=message,
    )  # fmt: skip
    return df.select(*(found.getField(name).alias(name) for name in schema.fieldNames()), META)


def _reader(spark: SparkSession, source: Part) -> DataFrameReader | DataStreamReader:
    return spark.read if source.options.get("static") else spark.readStream


def _files(spark: SparkSession, source: Part, format_: str, schema: T.StructType | None = None) -> DataFrame:
    reader = _reader(spark, source).format(format_)
    if schema is not None:
        reader = reader.schema(schema)
    if "max-files-per-batch" in source.options:
        reader = reader.option("maxFilesPerTrigger", source.options["max-files-per-batch"])
    if format_ == "csv":
        reader = reader.options(
            header=source.options["header"], sep=source.options["delimiter"], mode="PERMISSIVE",
            columnNameOfCorruptRecord=CORRUPT, enforceSchema=False,
        )  # fmt: skip
    return reader.load(source.options["path"])


def _csv(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    source = pipeline.source
    schema = parsed_schema(source.options["schema"])
    wanted = T.StructType([*schema.fields, T.StructField(CORRUPT, T.StringType())])
    value = F.coalesce(F.col(CORRUPT).cast("binary"), _kept(schema.fieldNames(), pipeline))
    origin = record.meta(file=F.col("_metadata.file_path"), value=value)
    df = _files(spark, source, "csv", wanted).withColumn(META, origin)
    df = record.failed(
        df, F.col(CORRUPT).isNotNull(),
        stage=VALUE_CONVERTER, transform="csv", kind="DataException", message="the line is not as the schema says",
    )  # fmt: skip
    return df.select(*map(record.field, schema.fieldNames()), META)


def _spooled(spark: SparkSession, spool: str) -> DataFrame:
    return _emptied(spark.readStream.format("text")).load(os.path.abspath(spool))


def _grown(spark: SparkSession, spool: str, schema: T.StructType) -> DataFrame:
    return _emptied(spark.readStream.format("parquet")).schema(schema).load(os.path.abspath(spool))


def _emptied(reader: DataStreamReader) -> DataStreamReader:
    # Spark removes a file when a later micro-batch has begun, so what is in a checkpoint is never needed again.
    return reader.option("cleanSource", "delete").option("spark.sql.streaming.fileSource.cleaner.numThreads", "1")


def jdbc_reader(spark: SparkSession, source: Part, table: str | None = None) -> DataFrameReader:
    """Reads the table or the query of a source `jdbc`, or another table in its place."""
    options = source.options
    require_driver(spark, options["driver"])
    reader = spark.read.format("jdbc").option("url", options["url"])
    names = {"driver": "driver", "user": "user", "password": "password", "fetch-size": "fetchsize"}
    if table is None:
        names |= {"table": "dbtable", "query": "query"}
    else:
        reader = reader.option("dbtable", table)
    for ours, theirs in names.items():
        if ours in options:
            reader = reader.option(theirs, options[ours])
    return reader


def _with_meta(df: DataFrame, pipeline: Pipeline) -> DataFrame:
    return df.withColumn(META, record.meta(value=_kept(df.columns, pipeline)))


def _texts(df: DataFrame) -> DataFrame:
    """Lines of text as records of the one field `value`."""
    return df.select("value", record.meta(file=F.col("_metadata.file_path"), value=F.col("value")).alias(META))


def _kept(names: list[str], pipeline: Pipeline) -> Column:
    """The value of a dead letter whose source has columns and no bytes: the fields as they were read, as JSON.

    They are kept from the beginning: a transform that fails leaves nulls where it failed.
    """
    if pipeline.errors != "dead-letter":
        return F.lit(None).cast("binary")
    return F.to_json(F.struct(*map(record.field, names)), {"ignoreNullFields": "false"}).cast("binary")

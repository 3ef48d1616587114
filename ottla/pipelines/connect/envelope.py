"""Changes of a database as a DataFrame: Debezium's envelope, and the transform that takes the row out of it.

With one table the fields of the records are those of the envelope, `before`, `after`, `source`, `op` and `ts_ms`, in
the table's types, and the key is a record of the key's columns. Several tables have no types in common: there the value
is the envelope as JSON, in the one field `value`. Promises: a value that Spark's type has not, and one that PostgreSQL
did not send, makes the record a bad one. Called by `sources` and `transforms`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from ottla.pipelines.connect import record
from ottla.pipelines.connect.change_source import FORMAT, ChangeDataSource
from ottla.pipelines.connect.keys import KEY
from ottla.pipelines.connect.record import META, VALUE_CONVERTER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from ottla.pipelines.connect.spec import Pipeline
    from ottla.pipelines.connect.transforms import Step
    from ottla.pipelines.postgresql.catalog import Table

SOURCE = (
    "version STRING, connector STRING, name STRING, ts_ms BIGINT, snapshot STRING, db STRING, `schema` STRING, "
    "`table` STRING, txId BIGINT, lsn BIGINT"
)
ROWS = ("before", "after")
KIND = "DataException"
_CORRUPT = "__ottla_corrupt"
_FOUND = "__ottla_found"
_UNAVAILABLE = "__ottla_unavailable"


def read(
    spark: SparkSession,
    pipeline: Pipeline,
    spool: str,
    tables: Sequence[Table],
    excluded: frozenset[tuple[str, str, str]],
) -> DataFrame:
    """The changes that come into a spool."""
    spark.dataSource.register(ChangeDataSource)
    reader = spark.readStream.format(FORMAT).option("path", spool)
    lines = reader.option("ordered", str(pipeline.sink.kind == "topic").lower()).load()
    origin = record.meta(
        topic=F.col("topic"), partition=F.lit(0), offset=F.col("offset"),
        timestamp=F.timestamp_micros("timestamp_us"), key=F.col("key").cast("binary"),
        value=F.col("value").cast("binary"), is_tombstone=F.col("value").isNull(),
    )  # fmt: skip
    missing = F.from_json("unavailable", "ARRAY<STRING>")
    df = lines.select(origin.alias(META), missing.alias(_UNAVAILABLE))
    if len(tables) > 1:
        df = _failed(df, F.col(_UNAVAILABLE).isNotNull(), _not_sent())
        return df.select(record.of("value").cast("string").alias("value"), META)
    (table,) = tables
    columns = [one for one in table.columns if (table.schema, table.name, one.name) not in excluded]
    row = _struct((one.name, one.type.ddl) for one in columns)
    source = f"source STRUCT<{_nested(SOURCE)}>"
    df = _parsed(df, T.StructType.fromDDL(f"before {row}, after {row}, {source}, op STRING, ts_ms BIGINT"))
    placeholder = pipeline.source.options.get("unavailable-value-placeholder")
    texts = [one.name for one in columns if one.type.ddl == "STRING"] if placeholder is not None else []
    is_missing = F.coalesce(
        F.size(F.array_except(F.col(_UNAVAILABLE), F.array(*map(F.lit, texts)).cast("array<string>"))) > 0, F.lit(False)
    )
    df = _failed(df, is_missing, _not_sent())
    after = F.col("after")
    for name in texts:
        told = F.coalesce(F.array_contains(_UNAVAILABLE, name), F.lit(False))
        after = after.withField(
            _quoted(name), F.when(told, F.lit(placeholder)).otherwise(F.col("after").getField(name))
        )
    if texts:
        df = df.withColumn("after", F.when(F.col("after").isNotNull(), after))
    if table.key:
        types = {one.name: one.type.ddl for one in columns}
        key = F.from_json(record.of("key").cast("string"), _struct((name, types[name]) for name in table.key))
        df = df.withColumn(META, F.col(META).withField(KEY, key))
    return df.select(*ROWS, "source", "op", "ts_ms", META)


def _parsed(df: DataFrame, schema: T.DataType) -> DataFrame:
    """The fields of the envelope; what has no place in its type makes the record a bad one."""
    assert isinstance(schema, T.StructType), "it was made as one"
    text = record.of("value").cast("string")
    whole = T.StructType([*schema.fields, T.StructField(_CORRUPT, T.StringType())])
    df = df.withColumn(_FOUND, F.from_json(text, whole, {"columnNameOfCorruptRecord": _CORRUPT}))
    found = F.col(_FOUND)
    row = schema["after"].dataType
    assert isinstance(row, T.StructType), "likewise"
    wrong = F.concat_ws(
        ", ",
        *(
            F.when(
                F.get_json_object(text, f"$.{side}['{one.name}']").isNotNull()
                & found.getField(side).getField(one.name).isNull(),
                F.lit(f"{side}.{one.name} is no {one.dataType.simpleString()}"),
            )
            for side in ROWS
            for one in row.fields
            if "'" not in one.name
        ),
    )
    df = _failed(df, found.getField(_CORRUPT).isNotNull(), F.concat(F.lit("a value has no place in its type: "), wrong))
    return df.select(*(found.getField(name).alias(name) for name in schema.fieldNames()), META, _UNAVAILABLE)


def _not_sent() -> Column:
    return F.concat(
        F.lit("PostgreSQL has not sent what an update left as it was: "), F.array_join(_UNAVAILABLE, ", "),
        F.lit(". `ALTER TABLE ... REPLICA IDENTITY FULL` lets it send TOASTed values, and for text "
              "`unavailable-value-placeholder` stands in"),
    )  # fmt: skip


def _failed(df: DataFrame, when: Column, message: Column) -> DataFrame:
    return record.failed(df, when, stage=VALUE_CONVERTER, transform="postgresql-cdc", kind=KIND, message=message)


def _struct(fields: Iterator[tuple[str, str]]) -> str:
    return f"STRUCT<{', '.join(f'{_quoted(name)}: {ddl}' for name, ddl in fields)}>"


def _nested(fields: str) -> str:
    """Fields as they stand in a struct: `a STRING, b INT` as `a: STRING, b: INT`."""
    return ", ".join(f"{name}: {ddl}" for name, _, ddl in (one.partition(" ") for one in fields.split(", ")))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def extract_new_record_state(step: Step) -> DataFrame:
    """Debezium's ExtractNewRecordState: the row as it is after the change, and what becomes of rows that went."""
    for name in (*ROWS, "op"):
        step.known(name)
    row = step.type_of("after")
    if not isinstance(row, T.StructType) or step.type_of("before") != row:
        raise step.wrong("`before` and `after` are to be records of the same fields, as in Debezium's envelope")
    handling = step.options["delete.tombstone.handling.mode"]
    op, is_tombstone = record.field("op"), F.coalesce(record.of("is_tombstone"), F.lit(False))
    is_deletion = F.coalesce(op == "d", F.lit(False))
    # A truncation is of no row, and a bad record is kept for what becomes of bad records.
    gone = F.coalesce(op == "t", F.lit(False))
    if handling in ("drop", "tombstone"):
        gone |= is_deletion
    if handling in ("drop", "rewrite", "delete-to-tombstone"):
        gone |= is_tombstone
    df = step.df.filter(~(gone & record.is_good()))
    rewrites = handling.startswith("rewrite")
    fields = []
    for one in row.fieldNames():
        after = record.field("after").getField(one)
        before = record.field("before").getField(one)
        fields.append((F.when(is_deletion, before).otherwise(after) if rewrites else after).alias(one))
    if rewrites:
        fields.append(F.when(op.isNotNull(), is_deletion.cast("string")).alias("__deleted"))
    prefix = step.options["add.fields.prefix"]
    added = step.options.get("add.fields", ())
    fields.extend(_added(step, name).alias(prefix + name.replace(".", "_")) for name in added)
    names = [*row.fieldNames(), *(["__deleted"] if rewrites else [])]
    meta = F.col(META)
    if handling == "delete-to-tombstone":
        meta = meta.withField("is_tombstone", is_tombstone | is_deletion)
    made = df.select(*fields, meta.alias(META))
    if len({name.lower() for name in made.columns}) != len(made.columns):
        raise step.wrong(f"a field would be there twice, among {', '.join(names)} and those that are added")
    return made


def _added(step: Step, name: str) -> Column:
    """A field of the envelope, or of its `source`, by Debezium's way to name it."""
    first, dot, rest = name.partition(".")
    if dot:
        return record.field(step.known(first)).getField(rest)
    if name in record.names(step.df):
        return record.field(name)
    source = step.df.schema["source"].dataType if "source" in step.df.columns else None
    if isinstance(source, T.StructType) and name in source.fieldNames():
        return record.field("source").getField(name)
    raise step.wrong(f"there is no field {name}, neither in the envelope nor in its source")

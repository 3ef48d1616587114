"""What only Spark knows of SQL: the types of a query's columns, what is wrong with it, and the rows there are now.

Queries are analysed over empty views in a session of their own, which has no views of a user's and none of the freedoms
that a topology's steps do not have (aliases in GROUP BY, columns that refer to each other). Called by `engine`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ottla.pipelines.connect.reasons import reason
from ottla.pipelines.sql import formats
from ottla.pipelines.sql.catalog import Source
from ottla.pipelines.sql.errors import SqlError
from ottla.pipelines.sql.plan import Plan
from ottla.pipelines.sql.planner import extractor, key_serde, refs, views
from ottla.pipelines.sql.statements import BatchSelect
from ottla.pipelines.sql.tokens import quoted
from ottla.pipelines.sql.types import ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

STRICT = {"spark.sql.groupByAliases": "false", "spark.sql.lateralColumnAlias.enableImplicitResolution": "false",
          "spark.sql.groupByOrdinal": "false"}  # fmt: skip
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+")
_RAISED = "[USER_RAISED_EXCEPTION] "
_SETTING = re.compile(r"\. To go on without such records, set .*", re.DOTALL)
_PLACE = re.compile(r"(?:; line \d+,? pos \d+;?|\(line \d+, pos \d+\)).*", re.DOTALL)
"""Where Spark saw it in the text that it was given, which is not the user's."""


@contextmanager
def one_line() -> Iterator[None]:
    """Spark's errors as a `SqlError` of one line."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SqlError(told(error)) from error


def told(error: BaseException) -> str:
    """What Spark says, in one line."""
    return plain(_SQLSTATE.sub("", _PLACE.sub("", reason(str(error)))))


def plain(said: str) -> str:
    """What an error says, without the settings of topologies that SQL does not have."""
    return _SETTING.sub("", said.removeprefix(_RAISED)).strip()


def types(spark: SparkSession, plan: Plan) -> list[str]:
    """The types of a plan's outputs."""
    with one_line():
        session = spark.newSession()
        for name, value in STRICT.items():
            session.conf.set(name, value)
        windowed = plan.windows is not None and not plan.reads_windowed
        for name, columns in views(plan.sources, is_windowed=windowed).items():
            session.createDataFrame([], ddl(columns)).createOrReplaceTempView(quoted(name))
        fields = session.sql(plan.analysis).schema.fields
    return [sql_type(field.dataType, one.name) for field, one in zip(fields, plan.outputs, strict=True)]


def sql_type(kind: DataType, name: str) -> str:
    """A type as the catalog has it; refused where a stream's column cannot have it."""
    from pyspark.sql import types as t

    match kind:
        case t.DecimalType():
            return f"DECIMAL({kind.precision}, {kind.scale})"
        case t.ArrayType():
            return f"ARRAY<{sql_type(kind.elementType, name)}>"
        case t.MapType():
            return f"MAP<{sql_type(kind.keyType, name)}, {sql_type(kind.valueType, name)}>"
        case t.StructType():
            fields = (f"{quoted(field.name)}: {sql_type(field.dataType, name)}" for field in kind.fields)
            return f"STRUCT<{', '.join(fields)}>"
        case t.NullType():
            raise SqlError(f"{name} is NULL and has no type: CAST(NULL AS STRING) has one")
    found = kind.simpleString().upper()
    if found not in ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BINARY", "DATE",
                     "TIMESTAMP"):  # fmt: skip
        raise SqlError(f"{name} is {found}, which no column of a topic is: CAST it to STRING or another type")
    return found


# --- what there is now


def select(
    spark: SparkSession, statement: BatchSelect, sources: Iterable[Source], bootstrap: str, kafka: Mapping[str, str],
    registry: str | None,
) -> DataFrame:  # fmt: skip
    """A query of Spark's over what the topics hold now: of a stream all records, of a table the newest of each key.

    Views have ROWTIME and their like where the query names them, so that a star stands for columns.
    """
    named = {name.upper() for name in statement.names}
    with one_line():
        for source in sources:  # anew for each query: a frame reads up to the ends that it found first
            frame = rows(spark, source, bootstrap, kafka, registry)
            hidden = [name for name in frame.columns if source.column(name) is None and name not in named]
            frame.drop(*hidden).createOrReplaceTempView(quoted(source.name))
        return spark.sql(statement.text)


def rows(
    spark: SparkSession, source: Source, bootstrap: str, kafka: Mapping[str, str], registry: str | None
) -> DataFrame:
    """The rows of a stream or table as they are now."""
    from pyspark.sql import functions as F

    from ottla.pipelines.streams.compiler import checks
    from ottla.pipelines.streams.handlers import ErrorHandling

    reader = spark.read.format("ottla").options(**{f"kafka.{name}": value for name, value in kafka.items()})
    reader = reader.option("kafka.bootstrap.servers", bootstrap).option("kafka.isolation.level", "read_committed")
    records = reader.option("subscribe", source.topic).load()
    columns = ["key", "value", "timestamp", *checks.PLACES]
    records = records.select(*columns)
    if source.kind == "TABLE":
        newest = F.max_by(F.struct(*columns[1:]), "offset").alias("newest")
        records = records.where(F.col("key").isNotNull()).groupBy("key").agg(newest).select("key", "newest.*")
    records = records.where(F.col("value").isNotNull())
    good, _ = checks.decoded(records, key_serde(source), formats.value_serde(source, registry), ErrorHandling(), None)
    good = good.withColumn("timestamp", F.unix_millis("timestamp"))
    found = refs(source)
    time = extractor(source)
    if time is not None:
        kind = good.select(F.expr(time).alias("t")).schema["t"].dataType.simpleString()
        good = good.withColumn("timestamp", F.unix_millis(F.expr(time)) if kind == "timestamp" else F.expr(time))
    order = [*(column.name for column in source.columns), *(name for name in found if source.column(name) is None)]
    return good.select(*(F.expr(found[name]).alias(name) for name in order))


def values(spark: SparkSession, source: Source, columns: Sequence[str], texts: Sequence[Sequence[str]]) -> DataFrame:
    """Rows of expressions as the columns of a source, those that are not given null."""
    with one_line():
        frames: list[DataFrame] = []
        by_name = {name.lower(): place for place, name in enumerate(columns)}
        for row in texts:
            parts = []
            for column in source.columns:
                place = by_name.get(column.name.lower())
                given = "NULL" if place is None else row[place]
                parts.append(f"cast(({given}) AS {column.type}) AS {quoted(column.name)}")
            if "rowtime" in by_name:
                parts.append(f"cast(({row[by_name['rowtime']]}) AS BIGINT) AS ROWTIME")
            frames.append(spark.sql(f"SELECT {', '.join(parts)}"))
        whole = frames[0]
        for other in frames[1:]:
            whole = whole.unionAll(other)
        return whole


def insert(frame: DataFrame, source: Source, bootstrap: str, kafka: Mapping[str, str], registry: str | None) -> None:
    """Writes rows of a source's columns to its topic."""
    from pyspark.sql import functions as F

    from ottla.pipelines.streams.compiler.columns import encode

    keys, given = source.key_columns, source.value_columns

    def packed(columns: Sequence[Any], is_alone: bool) -> Any:
        if is_alone:
            return F.col(quoted(columns[0].name))
        return F.struct(*(F.col(quoted(column.name)) for column in columns))

    value = encode(formats.value_serde(source, registry), packed(given, source.value_format == "KAFKA"))
    parts = [value.alias("value")]
    if keys:
        key = encode(formats.key_serde(keys, source.key_format), packed(keys, len(keys) == 1))
        if source.kind == "TABLE":
            missing = F.raise_error(F.lit(f"a row of {source.name} needs its PRIMARY KEY, and it is null"))
            key = F.when(F.col(quoted(keys[0].name)).isNotNull(), key).otherwise(missing.cast("binary"))
        parts.append(key.alias("key"))
    if "ROWTIME" in frame.columns:
        parts.append(F.timestamp_millis(F.col("ROWTIME")).alias("timestamp"))
    with one_line():
        writer = frame.select(*parts).write.format("ottla")
        writer = writer.options(**{f"kafka.{name}": setting for name, setting in kafka.items()})
        writer = writer.option("kafka.bootstrap.servers", bootstrap).option("topic", source.topic)
        writer.option("includeTimestamp", "ROWTIME" in frame.columns).mode("append").save()


def explain(frame: DataFrame) -> str:
    """Spark's own plan."""
    import io
    from contextlib import redirect_stdout

    said = io.StringIO()
    with one_line(), redirect_stdout(said):
        frame.explain(mode="formatted")
    return said.getvalue().strip()

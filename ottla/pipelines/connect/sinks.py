"""The sinks by name: what a pipeline's records become, and the queries that write them.

Promises: with a checkpoint, every sink has each record once, whatever is killed and started again: topics by a
transaction a micro-batch, files and Delta and Iceberg by Spark's own logs of what is written, databases by a mark in
the same transaction. Dead letters go to their topic in the sink's own transaction where both are topics of one cluster,
and by a query of their own, with its own checkpoint, where they are not. Called by `runner`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from ottla.pipelines.connect import jdbc_rows, keys, partitions, record, values
from ottla.pipelines.connect.jdbc import JdbcTable
from ottla.pipelines.connect.packages import require_format
from ottla.pipelines.connect.record import HEADERS_TYPE, WRITTEN
from ottla.pipelines.connect.smt import HEADERS
from ottla.pipelines.connect.spec import AVAILABLE_NOW, DeadLetter, Part, Pipeline
from ottla.pipelines.sink.partitioning import already_placed, partition_column, to_partitions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.pipelines.connect.flow import Flow

QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Something to write, and how."""

    name: str
    """The directory of its checkpoint: `main`, `dead-letter`, or one below `sinks` or `dead-letters`."""
    df: DataFrame
    format: str
    options: dict[str, str]
    partition_by: Sequence[str] = ()
    each_batch: Callable[[DataFrame, int], None] | None = None
    """For what Spark has no streaming sink for."""
    sink: str | None = None
    """The sink whose records it writes; None of dead letters."""
    sources: tuple[str, ...] = ()
    """Of several: those it reads, in the order in which the checkpoint has them."""

    def start(self, query: str, checkpoint: str, trigger: str | None) -> StreamingQuery:
        """A running query."""
        writer = self.df.writeStream.queryName(query).option("checkpointLocation", checkpoint)
        if trigger == AVAILABLE_NOW:
            writer = writer.trigger(availableNow=True)
        elif trigger is not None:
            writer = writer.trigger(processingTime=trigger)
        if self.each_batch is not None:
            return writer.foreachBatch(self.each_batch).start()
        writer = writer.format(self.format).options(**self.options)
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        if self.format == "iceberg":
            return writer.toTable(self.options["path"])
        return writer.outputMode("append").start()

    def write(self) -> None:
        """A bounded source's records, all at once."""
        if self.each_batch is not None:
            self.each_batch(self.df, 0)
            return
        writer = self.df.write.format(self.format).options(**self.options).mode("append")
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        writer.save()


def outcomes(df: DataFrame, pipeline: Pipeline) -> list[Outcome]:
    """What a pipeline of one sink writes: the records, and the dead letters unless they go with them."""
    if values.is_by_schema(pipeline.sink):
        df = values.write(df, pipeline)  # before good and bad are parted: a record that has no bytes is a bad one
    df = jdbc_rows.checked(df, pipeline)
    df, levels = partitions.by_time(df, pipeline)
    if pipeline.has_shared_outcome:
        return [_good_and_bad(record.observed(df), pipeline)]
    if pipeline.errors == "dead-letter":
        df = record.observed(df)
    good, bad = record.part_good_from_bad(df, pipeline)
    found = [_main(good, pipeline, levels)]
    if bad is not None:
        assert pipeline.dead_letter is not None, "there are dead letters"
        options = _dead_letter_options(pipeline, pipeline.dead_letter)
        found.append(Outcome("dead-letter", _of_topic(bad, pipeline.dead_letter.topic, options), "ottla", options))
    return found


def outcomes_of_all(flow: Flow, pipeline: Pipeline) -> list[Outcome]:
    """What a pipeline writes that has several sources or sinks, or a `sql`: each sink by a query of its own.

    A record that is bad before it comes to a sink is one dead letter, however many sinks would read it; one that a sink
    cannot take is a dead letter of that sink.
    """
    found: list[Outcome] = []
    letter = pipeline.dead_letter
    for name in pipeline.sinks:
        # The first source says how keys are read, as it does in the transforms.
        one, df = pipeline.of_sink(name).of_source(pipeline.graph.sources[name][0]), flow.of_sink(name)
        if letter is None:
            made = outcomes(df, one)
        else:
            df = record.observed(df, "before-the-sink").filter(record.is_good())
            made = _with_own_letters(df, one)
        for outcome in made:
            is_main = outcome.name == "main"
            place = (f"sinks/{name}" if pipeline.has_names else "main") if is_main else f"dead-letters/sink-{name}"
            found.append(
                replace(outcome, name=place, sink=name if is_main else None, sources=pipeline.graph.sources[name])
            )
    if letter is not None:
        options = _dead_letter_options(pipeline, letter)
        for bad in flow.bad():
            rows = _of_topic(bad.rows, letter.topic, options)
            found.append(Outcome(f"dead-letters/{bad.name}", rows, "ottla", options, sources=bad.sources))
    return found


def _with_own_letters(df: DataFrame, pipeline: Pipeline) -> list[Outcome]:
    """Good records for a sink, some of which it may not be able to take."""
    can_refuse = (
        values.is_by_schema(pipeline.sink) or jdbc_rows.has_key(pipeline) or partitions.OPTION in pipeline.sink.options
    )
    if not can_refuse:
        return [_main(df, pipeline)]
    return outcomes(df, pipeline)


def _main(good: DataFrame, pipeline: Pipeline, levels: Sequence[str] = ()) -> Outcome:
    """The good records in the sink."""
    if pipeline.sink.kind == "topic":
        options = _topic_options(pipeline.sink)
        rows = _rows(good, pipeline)
        if "topic" in pipeline.sink.options:
            rows = _of_topic(rows, pipeline.sink.options["topic"], options)
        else:
            # Which topics there will be is known when the records are: a whole topic goes to one task.
            rows = already_placed(rows.repartition("topic"))
        return Outcome("main", rows, "ottla", options)
    # A tombstone says that a key is gone, which a file cannot say, nor a table that is only added to.
    if not jdbc_rows.deletes(pipeline):
        good = good.filter(~F.coalesce(record.of("is_tombstone"), F.lit(False)))
    keys_of = jdbc_rows.key_names(good, pipeline) if jdbc_rows.has_key(pipeline) else []
    return _outcome(jdbc_rows.rows(good, pipeline), pipeline, keys_of, levels)


def _good_and_bad(df: DataFrame, pipeline: Pipeline) -> Outcome:
    """Records and dead letters as one frame, and so in one transaction.

    Each row is made the one or the other, rather than two frames put together, which would read the source twice.
    """
    assert pipeline.dead_letter is not None, "there are dead letters"
    options = _topic_options(pipeline.sink)
    good = _row_columns(df, pipeline)
    bad = record.dead_letter_columns(pipeline.name, pipeline.dead_letter.topic)
    rows = df.select(
        record.is_good().alias("__ottla_good"),
        *(F.when(record.is_good(), good[name]).otherwise(bad[name]).alias(name) for name in good),
    )
    if "topic" not in pipeline.sink.options:
        return Outcome("main", already_placed(rows.drop("__ottla_good").repartition("topic")), "ottla", options)
    by_key = partition_column(rows, _partition_count(pipeline.sink.options["topic"], options))
    dead = F.pmod(F.xxhash64("key", "value"), F.lit(_partition_count(pipeline.dead_letter.topic, options))).cast("int")
    rows = rows.withColumn("partition", F.when(F.col("__ottla_good"), by_key).otherwise(dead)).drop("__ottla_good")
    return Outcome("main", already_placed(rows.repartition("topic", "partition")), "ottla", options)


def _of_topic(rows: DataFrame, topic: str, options: dict[str, str]) -> DataFrame:
    """Rows of one topic, so divided that a partition is written by one task, as a transaction of many tasks needs."""
    return to_partitions(rows, topic, partitions=_partition_count(topic, options))


def _partition_count(topic: str, options: dict[str, str]) -> int:
    from ottla.client import Producer
    from ottla.client.config import FIRST_CONTACT

    kafka = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    with Producer({**FIRST_CONTACT, **kafka}) as producer:
        return len(producer.partitions_for(topic))


def _outcome(df: DataFrame, pipeline: Pipeline, keys_of: Sequence[str], levels: Sequence[str]) -> Outcome:
    sink = pipeline.sink
    options = sink.options
    by = options.get("partition-by", ())
    for name in by:
        if name not in df.columns:
            raise pipeline.wrong(("sink", "partition-by"), f"there is no field {name}")
    by = (*by, *levels)
    match sink.kind:
        case "jdbc":
            table = JdbcTable(sink, keys_of)
            table.prepare(df)
            return Outcome("main", df, "", {}, each_batch=_EachBatch(table))
        case "csv":
            told = {"path": options["path"], "sep": options["delimiter"], "header": str(options["header"]).lower()}
            return Outcome("main", df, "csv", told, by)
        case "text":
            texts = [one.name for one in df.schema.fields if isinstance(one.dataType, T.StringType)]
            if df.columns != texts[:1]:
                raise pipeline.wrong(
                    ("sink",), f"a sink text takes one field of text, and there is {', '.join(df.columns)}"
                )
            return Outcome("main", df, "text", {"path": options["path"]})
        case "delta":
            require_format(df.sparkSession, "delta")
            return Outcome("main", df, "delta", {"path": options["path"]}, by)
        case "iceberg":
            require_format(df.sparkSession, "iceberg")
            return Outcome("main", df, "iceberg", {"path": options["table"]})
        case kind:
            return Outcome("main", df, kind, {"path": options["path"]}, by)


class _EachBatch:
    """Writes a micro-batch to a database, under the id of the query."""

    def __init__(self, table: JdbcTable) -> None:
        self._table = table
        self._alone = str(uuid.uuid4())

    def __call__(self, df: DataFrame, batch: int) -> None:
        query = df.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        self._table.write(df, query or self._alone, batch)


def _rows(df: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Records as the sink of topics takes them."""
    return df.select(*(column.alias(name) for name, column in _row_columns(df, pipeline).items()))


def _row_columns(df: DataFrame, pipeline: Pipeline) -> dict[str, Column]:
    """Topic, key, value and headers of a good record."""
    options = pipeline.sink.options
    key = keys.written(df)
    if "key" in options:
        if options["key"] not in record.names(df):
            raise pipeline.wrong(("sink", "key"), f"there is no field {options['key']}")
        key = _bytes(record.field(options["key"]), df.schema[options["key"]].dataType)
    topic = F.lit(options["topic"]) if "topic" in options else F.coalesce(record.of("target"), record.of("topic"))
    gone = F.coalesce(record.of("is_tombstone"), F.lit(False))
    made = HEADERS if HEADERS in keys.meta_type(df).fieldNames() else "headers"
    headers = F.coalesce(record.of(made), F.array().cast(HEADERS_TYPE)).cast(HEADERS_TYPE)
    return {"topic": topic, "key": key, "value": F.when(~gone, _value(df, pipeline)), "headers": headers}


def _value(df: DataFrame, pipeline: Pipeline) -> Column:
    if values.is_by_schema(pipeline.sink):
        return record.of(WRITTEN)
    names = record.names(df)
    is_lone = record.is_whole(df)
    format_ = pipeline.sink.options.get("value", "string" if is_lone else "json")
    match format_:
        case "json":
            if is_lone and record.WHOLE in keys.meta_type(df).fieldNames():
                # JSON knows no text but of lists and records: of a list of one, what is between the brackets.
                text = F.to_json(F.array("value"))
                return F.substr(text, F.lit(2), F.length(text) - 2).cast("binary")
            return F.to_json(F.struct(*map(record.field, names)), {"ignoreNullFields": "false"}).cast("binary")
        case _:
            if not is_lone:
                raise pipeline.wrong(
                    ("sink",), f"values of {format_} take the one field value, and there is {', '.join(names)}"
                )
            return keys.as_bytes(F.col("value"), df.schema["value"].dataType)


def _bytes(column: Column, type_: T.DataType) -> Column:
    """A key: text and bytes as they are, numbers as text, the rest as JSON."""
    if isinstance(type_, T.StructType | T.ArrayType | T.MapType):
        return F.to_json(column).cast("binary")
    return column.cast("binary") if isinstance(type_, T.BinaryType) else column.cast("string").cast("binary")


def _topic_options(sink: Part) -> dict[str, str]:
    return {
        **sink.passed("kafka."),
        "kafka.bootstrap.servers": sink.options["bootstrap.servers"],
        "delivery": sink.options["delivery"],
    }


def _dead_letter_options(pipeline: Pipeline, letter: DeadLetter) -> dict[str, str]:
    """With the settings of the part that has the same brokers: it knows how to speak to them."""
    told: dict[str, Any] = {}
    for part in pipeline.topics:
        if part.options["bootstrap.servers"] == letter.servers:
            told = told or part.passed("kafka.")
    return {**told, "kafka.bootstrap.servers": letter.servers, "delivery": "exactly-once"}

"""The shuffle in front of an exactly-once sink: each Kafka partition's rows in one task, where any producer would put
them.

`to_partitions` gives a frame its column `partition` and one task for each partition; `write_stream` does that and names
the sink; `already_placed` says of a frame that it has that shape. All three add the column `ottla_placed_at`, without
which an exactly-once writer refuses a frame. Rows keep the partition that they name; others go by their key's murmur2,
as Kafka's own producers send them; rows without a key by a hash of their value, so that a task that Spark runs again
finds the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.sink.rows import PLACED_AT, TASKS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

TASKS_MAX = 1024


def to_partitions(
    df: DataFrame,
    topic: str,
    *,
    bootstrap_servers: str | None = None,
    partitions: int | None = None,
    kafka: Mapping[str, str] | None = None,
) -> DataFrame:
    """The frame with a column `partition`, shuffled so that each partition of `topic` is written by one task.

    How many partitions the topic has is asked at `bootstrap_servers` unless `partitions` says it; `kafka` are further
    settings of the client that asks, such as `{"security.protocol": "SSL"}`.
    """
    count = partitions if partitions is not None else _partition_count(topic, bootstrap_servers, kafka or {})
    if count <= 0:
        raise PipelineError(f"the topic {topic} has {count} partitions")
    placed = df.withColumn("partition", partition_column(df, count))
    return divided(placed, count)


def divided(df: DataFrame, partition_count: int) -> DataFrame:
    """The frame, divided by its column `partition` into a task for each partition, and marked as placed."""
    tasks = min(partition_count, TASKS_MAX)
    return _marked(df.drop(PLACED_AT).repartitionById(tasks, "partition"), {TASKS: tasks})


def already_placed(df: DataFrame) -> DataFrame:
    """The frame, marked as one in which the rows of each Kafka partition come from one task. You vouch for that.

    For frames in which they do so without `to_partitions`: divided by a partition column of your own, in a single task,
    or without keys in no more tasks than the topic has partitions. Two tasks that meet in a partition nevertheless fail
    the micro-batch, and nothing of it is written.
    """
    return _marked(df, {})


def _marked(df: DataFrame, metadata: dict[str, int]) -> DataFrame:
    from pyspark.sql import functions

    # In a stream this is the time at which Spark planned the micro-batch; Spark keeps it for the batch's replay.
    # By `select`, which is all that a flow of a declarative pipeline may do: it looks at no column of the frame.
    return df.select("*", functions.current_timestamp().alias(PLACED_AT, metadata=metadata))


def write_stream(
    df: DataFrame, topic: str, *, bootstrap_servers: str, options: Mapping[str, str] | None = None
) -> DataStreamWriter:
    """`df.writeStream` to a topic through `to_partitions`: set a checkpoint and `start()`.

    `options` are those of the sink, `kafka.*` among them; `.option` of what is returned takes them too. Every output
    mode is exactly once. Over Spark Connect there is no update mode.
    """
    given = {name.lower(): value for name, value in (options or {}).items()}
    kafka = {name[len("kafka.") :]: value for name, value in given.items() if name.startswith("kafka.")}
    asked = {name: value for name, value in kafka.items() if name.startswith(("security.", "sasl.", "ssl."))}
    shuffled = to_partitions(df, topic, bootstrap_servers=bootstrap_servers, kafka=asked)
    writer = _stream_writer(shuffled).format("ottla").option("kafka.bootstrap.servers", bootstrap_servers)
    return writer.option("topic", topic).options(**(options or {}))


def _stream_writer(df: DataFrame) -> DataStreamWriter:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    writer: Any = df.writeStream
    if not isinstance(writer, DataStreamWriter):
        return cast(DataStreamWriter, writer)  # Spark Connect has another, whose `foreachBatch` does not know its query
    from ottla.pipelines.sink.stream_modes import TopicStreamWriter

    return TopicStreamWriter(df)


def partition_column(df: DataFrame, partition_count: int) -> Column:
    """The partition of each row among `partition_count`, as Kafka's own producers choose it."""
    from pyspark.sql import functions

    columns = {name.lower(): name for name in df.columns}
    if "value" not in columns:
        raise PipelineError("the column value is missing: a record needs one, string or binary")
    by_value = functions.pmod(functions.xxhash64(columns["value"]), functions.lit(partition_count)).cast("int")
    chosen = by_value
    if "key" in columns:
        by_key = _by_key(partition_count)(functions.col(columns["key"]).cast("binary"))
        chosen = functions.when(functions.col(columns["key"]).isNull(), by_value).otherwise(by_key)
    if "partition" in columns:
        chosen = functions.coalesce(functions.col(columns["partition"]).cast("int"), chosen)
    return chosen


def _by_key(partition_count: int) -> Callable[[Column], Column]:
    """Spark's function of a column of keys."""
    import pyarrow as pa
    from pyspark.sql.pandas.functions import arrow_udf

    def chosen(keys: pa.Array) -> pa.Array:
        return key_partitions(keys, partition_count)

    # Spark reads from the types what kind of function it is, and cannot look up names that are only local.
    chosen.__annotations__ = {"keys": pa.Array, "return": pa.Array}
    function: Callable[[Column], Column] = arrow_udf(chosen, "int")  # type: ignore[call-overload]
    return function


def key_partitions(keys: pa.Array, partition_count: int) -> pa.Array:
    """Each key's partition; null for a null key."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from ottla.client.columnar import ArrowRows

    rows = ArrowRows(pa.record_batch([keys], names=["key"]), now_ms=0)
    buffer = rows.partitions(partition_count, [0])
    found = pa.Array.from_buffers(pa.int32(), len(keys), [None, pa.py_buffer(buffer)])
    return pc.if_else(pc.is_null(keys), pa.scalar(None, pa.int32()), found)


def _partition_count(topic: str, bootstrap_servers: str | None, kafka: Mapping[str, str]) -> int:
    from ottla.client import Producer
    from ottla.client.config import FIRST_CONTACT

    if bootstrap_servers is None:
        raise PipelineError(f"how many partitions {topic} has is not known: give bootstrap_servers, or partitions")
    with Producer({**FIRST_CONTACT, "bootstrap.servers": bootstrap_servers, **kafka}) as producer:
        return len(producer.partitions_for(topic))

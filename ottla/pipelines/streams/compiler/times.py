"""A source's records with the times that its extractor gives them, as Spark's operators.

What a record's own time or a function says is a projection. What depends on the records before is a step of its own in
front of the query's: Spark chains the two, because neither gives updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import DataType, DateType, NumericType, StructType, TimestampNTZType, TimestampType

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams import handlers, timestamps
from ottla.pipelines.streams.compiler.checks import HEADERS, counted
from ottla.pipelines.streams.compiler.columns import column, text, untext
from ottla.pipelines.streams.compiler.stateful import MapShelf
from ottla.pipelines.streams.tasks.stamping import Stamping
from ottla.pipelines.streams.tasks.task import Task
from ottla.pipelines.streams.tasks.versions import History
from ottla.pipelines.streams.timestamps import ARGUMENTS, UNKNOWN_TIME, TimestampExtractor

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.stateful_processor import TimerValues

PLACES = ("topic", "partition", "offset")
STAMPED = (
    "topic STRING, partition INT, offset BIGINT, timestamp BIGINT, key_text STRING, value_text STRING, "
    "headers_text STRING"
)
Timed = tuple[int, str | None, str | None]
"""A record's time, and its key and value as JSON text."""
_PIN = "_pin"
"""A column that is not deterministic, so that Spark does not push a filter below it and work a function out twice."""


def needs_places(extractor: TimestampExtractor) -> bool:
    """Whether `timed` needs the columns `PLACES`; without them the record at fault is not told by its offset."""
    return extractor.expression is not None or extractor.knows_partition_time


def timed(
    frame: DataFrame, extractor: TimestampExtractor, topics: tuple[str, ...], task: Column | None, counter: str | None
) -> DataFrame:
    """Records of `key`, `value`, `timestamp` and others, with their times. `counter` counts what is passed over.

    `task` is what to group by where partition time is known.
    """
    if extractor.name == timestamps.WALLCLOCK:
        # The time of the micro-batch, which Spark keeps for its replay.
        return frame.withColumn("timestamp", F.unix_millis(F.current_timestamp()))
    if extractor.knows_partition_time:
        assert task is not None, "what knows partition time has a task for each partition"
        frame = _in_order(frame, _Stamper(Stamping(extractor)), task)
    elif extractor.expression is not None:
        found = _milliseconds(frame, column(extractor.expression, *ARGUMENTS[1:]))
        frame = frame.withColumns({"timestamp": found, _PIN: F.spark_partition_id()})
    line = F.concat(_place(frame, topics), F.lit(f": {_reason(extractor)}"))
    error = F.raise_error(F.concat(F.lit(f"{handlers.EXTRACTION_FAILED}: "), line))
    time = F.col("timestamp")
    if extractor.name == timestamps.FAIL:
        return frame.where(F.when(time >= 0, F.lit(True)).otherwise(error))
    frame = frame.withColumn("timestamp", F.when(time.isNotNull(), time).otherwise(error.cast("bigint")))
    frame = frame.withColumn(_PIN, F.spark_partition_id())
    if counter is not None:
        where = F.concat(_place(frame, topics), F.lit(": the time is "), time.cast("string"))
        frame = counted(frame, counter, F.when(time < 0, where))
    return frame.where((time >= 0) & (F.col(_PIN) >= 0)).drop(_PIN)


def _reason(extractor: TimestampExtractor) -> str:
    if extractor.name == timestamps.FAIL:
        others = ", ".join(name for name in timestamps.NAMES if name != timestamps.FAIL)
        return f"the record's timestamp is negative. To go on, give its source timestamp= {others} or a function"
    if extractor.name == timestamps.PARTITION_TIME:
        return "the record's timestamp is negative, and none before it in its partition has a time to take"
    return "the timestamp extractor found no time in the record"


def _place(frame: DataFrame, topics: tuple[str, ...]) -> Column:
    if not set(PLACES) <= set(frame.columns):
        return F.lit(f"topic {' or '.join(topics)}")
    return F.concat(F.lit("topic "), "topic", F.lit(", partition "), "partition", F.lit(", offset "), "offset")


def _milliseconds(frame: DataFrame, found: Column) -> Column:
    """What a function gives, as milliseconds."""
    kind: DataType = frame.select(found.alias("found")).schema["found"].dataType
    match kind:
        case NumericType():
            return found.cast("bigint")
        case TimestampType() | TimestampNTZType() | DateType():
            return F.unix_millis(found.cast("timestamp"))
    raise PipelineError(
        f"a timestamp is a number of milliseconds or a TIMESTAMP, not {kind.simpleString()}: cast it to one of them, "
        'or say so in python(function, "long")'
    )


def of_history(frame: DataFrame, history: History, task: Column, counter: str | None) -> DataFrame:
    """The changes of a versioned table's topic that are some. `counter` counts the others."""
    judged = _in_order(frame, _Historian(history), task).withColumn(_PIN, F.spark_partition_id())
    if counter is not None:
        judged = counted(judged, counter, F.when(F.col("timestamp").isNull(), _place(judged, ())))
    return judged.where(F.col("timestamp").isNotNull() & (F.col(_PIN) >= 0)).drop(_PIN)


def _in_order(frame: DataFrame, processor: _OfPartitions, task: Column) -> DataFrame:
    """Records with the times that a task for each partition gives them; null where it gives none."""
    columns = frame.columns
    kinds: StructType = frame.schema
    has_headers = "headers" in columns
    rows = frame.select(
        task.alias("task"),
        *PLACES,
        "timestamp",
        text(F.col("key"), "key").alias("key_text"),
        text(F.col("value"), "value").alias("value_text"),
        (F.to_json("headers") if has_headers else F.lit(None).cast("string")).alias("headers_text"),
    )
    results = rows.groupBy("task").transformWithStateInPandas(processor, STAMPED, "Append", "None")
    made = {
        "key": untext(F.col("key_text"), "key", kinds["key"].dataType),
        "value": untext(F.col("value_text"), "value", kinds["value"].dataType),
        "headers": F.from_json("headers_text", HEADERS),
        "seq": F.lit(0).cast("bigint"),
    }
    return results.select(*(made.get(name, F.col(name)).alias(name) for name in columns))


class _OfPartitions(StatefulProcessor):
    """What Spark calls for the partitions of one number that have records in a batch."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[pd.DataFrame]:
        """One batch, partition by partition."""
        import pandas as pd

        batch = pd.concat(rows, ignore_index=True).sort_values([*PLACES], kind="stable")
        for (topic, partition), group in batch.groupby(["topic", "partition"], sort=True):
            names = ("timestamp", "key_text", "value_text")
            records = [
                (int(time), _text(key_text), _text(value_text))
                for time, key_text, value_text in zip(*(group[name].tolist() for name in names), strict=True)
            ]
            times = self.times(f"{topic}/{partition}", records)
            yield group.drop(columns="task", errors="ignore").assign(timestamp=pd.array(times, dtype="Int64"))

    def times(self, place: str, records: list[Timed]) -> list[int | None]:
        """The times of a partition's records, in order."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is held."""


class _Stamper(_OfPartitions):
    """Gives records the times that depend on those before."""

    def __init__(self, stamping: Stamping) -> None:
        self._stamping = stamping

    def init(self, handle: StatefulProcessorHandle) -> None:
        """The time of each topic's partition."""
        self._times = handle.getMapState("partition_times", "place STRING", "time BIGINT")

    def times(self, place: str, records: list[Timed]) -> list[int | None]:
        """By what the extractor makes of them."""
        known = self._times.getValue((place,)) if self._times.containsKey((place,)) else None
        before = UNKNOWN_TIME if known is None else int(known[0])
        times, after = self._stamping.stamp(records, before)
        if after != before:
            self._times.updateValue((place,), (after,))
        return times


class _Historian(_OfPartitions):
    """Takes the changes of a versioned table, which has one topic, so that a task has one partition."""

    def __init__(self, history: History) -> None:
        self._history = history

    def init(self, handle: StatefulProcessorHandle) -> None:
        """The table's time, and those of its rows."""
        self._state = handle.getMapState("history", "key STRING", "value STRING")

    def times(self, place: str, records: list[Timed]) -> list[int | None]:
        """Their own, or none for a change that is none."""
        task = Task.load(MapShelf(self._state))
        taken = self._history.admitted(task, [(time, key or "") for time, key, _ in records])
        task.save()
        return [time if is_taken else None for (time, _, _), is_taken in zip(records, taken, strict=True)]


def _text(value: object) -> str | None:
    """pandas has several ways to say null."""
    return value if isinstance(value, str) else None

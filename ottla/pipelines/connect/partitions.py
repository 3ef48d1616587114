"""The directories of a file sink that are named after a time, as columns.

Promises: a directory depends on the record and on the file alone: not on when it is written, so that a micro-batch that
is tried again goes to the same ones, nor on Spark's session time zone. A record without a time is a bad one. Called by
`sinks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from ottla.pipelines.connect import record
from ottla.pipelines.connect.errors import nearest
from ottla.pipelines.connect.jdbc_rows import STAGE
from ottla.pipelines.connect.path_format import Directory, Number, directories
from ottla.pipelines.connect.spec import interval_s

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ottla.pipelines.connect.spec import Pipeline

OPTION = "partition-by-time"
_TIME = "__ottla_time"


def by_time(df: DataFrame, pipeline: Pipeline) -> tuple[DataFrame, list[str]]:
    """The records with a column for each directory of the sink's pattern, and the names of these columns."""
    options = pipeline.sink.options.get(OPTION)
    if options is None:
        return df, []
    levels = directories(options["pattern"])
    there = record.names(df)
    for level in levels:
        if level.name.lower() in (name.lower() for name in there):
            raise pipeline.wrong(("sink", OPTION, "pattern"), f"there is a field {level.name} already")
    name = options.get("field")
    if name is not None and name not in there:
        raise pipeline.wrong(("sink", OPTION, "field"), f"there is no field {name}: {nearest(name, there)}")
    df = df.withColumn(_TIME, _local(_instant(df, pipeline), options["timezone"]))
    what = "the record has no timestamp" if name is None else f"{name} is no time"
    has_value = ~F.coalesce(record.of("is_tombstone"), F.lit(False))  # a tombstone has no file to go to
    df = record.failed(
        df, F.col(_TIME).isNull() & has_value,
        stage=STAGE, transform=OPTION, kind="PartitionException", message=what,
    )  # fmt: skip
    duration_s = int(interval_s(options["duration"])) if "duration" in options else None
    for level in levels:
        df = df.withColumn(level.name, _value(level, duration_s))
    return df.drop(_TIME), [level.name for level in levels]


def _instant(df: DataFrame, pipeline: Pipeline) -> Column:
    """A point in time: the record's own, or a field's, in the forms that Connect's RecordField takes."""
    options = pipeline.sink.options[OPTION]
    name = options.get("field")
    if name is None:
        return record.of("timestamp")
    value, type_ = record.field(name), df.schema[name].dataType
    if isinstance(type_, T.TimestampType):
        return value
    if isinstance(type_, T.IntegralType):
        return F.timestamp_millis(value)
    if isinstance(type_, T.StringType):
        # A text without a zone of its own is of UTC, whatever the session's zone is.
        is_whole = value.contains(":") & value.rlike(r"(?:[Zz]|[+-]\d\d(?::?\d\d)?)\s*$")
        rest = F.when(value.contains(":"), F.lit("Z")).otherwise(F.lit("T00:00:00Z"))
        return F.when(is_whole, value).otherwise(F.concat(value, rest)).try_cast("timestamp")
    raise pipeline.wrong(
        ("sink", OPTION, "field"),
        f"{name} is {type_.simpleString()}: a time is a timestamp, milliseconds in a whole number, or text as ISO 8601",
    )


def _local(instant: Column, timezone: str) -> Column:
    """The clock on the wall of a zone, as a time without a zone: no arithmetic of the session's comes in between."""
    since_epoch = F.expr("INTERVAL '0.000001' SECOND") * F.unix_micros(instant)
    utc = F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'") + since_epoch
    return F.convert_timezone(F.lit("UTC"), F.lit(timezone), utc)


def _value(level: Directory, duration_s: int | None) -> Column:
    return F.concat(*(F.lit(part) if isinstance(part, str) else _number(part, duration_s) for part in level.value))


def _number(part: Number, duration_s: int | None) -> Column:
    time = F.col(_TIME)
    match part.letter:
        case "y" | "Y":
            number = F.year(time) % 100 if part.width == 2 else F.year(time)
        case "M":
            number = F.month(time)
        case "d":
            number = F.dayofmonth(time)
        case "D":
            number = F.dayofyear(time)
        case letter:
            second = F.hour(time) * 3600 + F.minute(time) * 60 + F.second(time)
            if duration_s is not None:
                second = second - second % duration_s
            number = {"H": F.floor(second / 3600), "m": F.floor(second / 60) % 60, "s": second % 60}[letter]
    text = number.cast("bigint").cast("string")
    return F.when(F.length(text) < part.width, F.lpad(text, part.width, "0")).otherwise(text)

"""Records that cannot be read or written, as `handlers.ErrorHandling` says: an error, or passed over and counted.

All of it is Spark's own expressions. Where a handler continues, `observe` counts what it passes over, which Spark tells
with each micro-batch (`dropping` reads it), and dead letters are rows of the same query, so they are written in the
transaction of the batch that passed over them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from ottla.pipelines.streams import handlers
from ottla.pipelines.streams.compiler.columns import decode, fault, parse, parsed_value
from ottla.pipelines.streams.compiler.steps import keep
from ottla.pipelines.streams.handlers import ErrorHandling, Response

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ottla.pipelines.streams.serdes import Serde

PLACES = ("topic", "partition", "offset")
"""The columns that say which record is at fault."""
HEADERS = "array<struct<key: string, value: binary>>"
SERIALIZATION_EXCEPTION = "org.apache.kafka.common.errors.SerializationException"
RECORD_OVERHEAD = 61 + 21 + 10
"""The bytes of a batch's header, and those of a record and its two lengths at most."""
HEADER_OVERHEAD = 10
_PIN = "_pin"
"""A column that is not deterministic, so that Spark does not push a filter below it and parse everything twice."""


def can_fail(*serdes: Serde) -> bool:
    """Whether some bytes are none of a serde's."""
    return any(serde.decode is not None or serde.name not in ("bytes", "string") for serde in serdes)


def decoded(
    records: DataFrame, key: Serde, value: Serde, handling: ErrorHandling, counter: str | None
) -> tuple[DataFrame, DataFrame | None]:
    """Records with `key` and `value` decoded, and dead letters of the others where they are wanted.

    Serdes that can fail need the columns `PLACES`, dead letters `timestamp` and `headers` as well. `counter` is the
    metric that counts what is passed over; None where another query counts and writes it.
    """
    serdes = {"key": key, "value": value}
    if not can_fail(key, value):
        return records.withColumns({name: decode(serde, name) for name, serde in serdes.items()}), None
    parsed = records.withColumns(
        {_PIN: F.spark_partition_id(), **{f"_{name}": parse(serde, F.col(name)) for name, serde in serdes.items()}}
    )
    part, reason = F.lit(None).cast("string"), F.lit(None).cast("string")
    for name, serde in reversed(serdes.items()):  # of both, the key comes first
        found = fault(serde, F.col(f"_{name}"), F.col(name))
        if found is not None:
            wrong, why = found
            part, reason = F.when(wrong, F.lit(name)).otherwise(part), F.when(wrong, F.lit(why)).otherwise(reason)
    where = F.concat(F.lit("topic "), "topic", F.lit(", partition "), "partition", F.lit(", offset "), "offset")
    line = F.concat(where, F.lit(": the "), part, F.lit(" cannot be deserialised: "), reason)
    is_good = reason.isNull() & (F.col(_PIN) >= 0)
    dead = None
    if handling.deserialization is Response.FAIL:
        good = parsed.where(F.when(is_good, F.lit(True)).otherwise(_error(handlers.DESERIALIZATION, line)))
    else:
        good = parsed
        if counter is not None:
            good = counted(good, counter, line)
            if handling.dead_letter_topic is not None:
                dead = _dead_letters(parsed.where(~is_good), handling.dead_letter_topic, reason)
        good = good.where(is_good)
    values = {name: parsed_value(serde, F.col(f"_{name}")) for name, serde in serdes.items()}
    return good.withColumns(values).select(*records.columns), dead


def produced(
    frame: DataFrame,
    rows: dict[str, Column],
    faults: list[tuple[Column, str]],
    handling: ErrorHandling,
    counter: str,
) -> tuple[DataFrame, dict[str, Column]]:
    """Rows for a sink as the production handler has them: `rows` are their columns, over a frame.

    `faults` say which of them cannot be written and why, of the bytes in `_key` and `_value`. On a shared frame only
    rows that are `_alive` count.
    """
    goes_on = handling.production is Response.CONTINUE
    if not faults and not goes_on:
        return frame, rows
    frame = frame.withColumns({f"_{name}": rows[name] for name in ("topic", "key", "value")})
    rows = {**rows, **{name: F.col(f"_{name}") for name in ("topic", "key", "value")}}
    is_too_large = _size(frame) > handling.request_size_max
    if goes_on:
        limit = f"the record is larger than max.request.size, which is {handling.request_size_max} bytes"
        faults = [(is_too_large, limit), *faults]
    is_alive = F.col("_alive") if "_alive" in frame.columns else F.lit(True)
    reason = F.lit(None).cast("string")
    for wrong, why in reversed(faults):
        reason = F.when(is_alive & wrong, F.lit(why)).otherwise(reason)
    line = F.concat(F.lit("topic "), "_topic", F.lit(": "), reason)
    if not goes_on:
        error = _error(handlers.PRODUCTION, line)
        return frame, {**rows, "value": F.when(reason.isNull(), F.col("_value")).otherwise(error)}
    frame = counted(frame.withColumn("_reason", reason), counter, line)
    is_good = F.col("_reason").isNull()
    if handling.dead_letter_topic is None:
        return keep(frame, is_good), rows
    # What is too large for a topic is too large for the dead letters: there it has neither key nor value.
    dead = {
        "topic": F.lit(handling.dead_letter_topic),
        "key": F.when(~is_too_large, F.col("_key")),
        "value": F.when(~is_too_large, F.col("_value")),
        "headers": error_headers(F.col("_reason"), F.col("_topic")),
    }
    return frame, {**rows, **{name: F.when(is_good, rows[name]).otherwise(column) for name, column in dead.items()}}


def _size(frame: DataFrame) -> Column:
    """The bytes of a record in a batch of its own, at most: with all headers of a record, and of a batch."""
    size = F.lit(RECORD_OVERHEAD)
    for name in ("_key", "_value"):
        size = size + F.coalesce(F.length(name), F.lit(0))
    if "headers" not in frame.columns:
        return size
    added = F.aggregate(
        "headers", F.lit(0), lambda so_far, one: so_far + F.length(one.key) + F.coalesce(F.length(one.value), F.lit(0))
    )
    return size + F.coalesce(added + HEADER_OVERHEAD * F.size("headers"), F.lit(0))


def _error(setting: str, line: Column) -> Column:
    """A row's error, which `handlers.told` finds in a query's failure."""
    failed, name = handlers.FAILED[setting]
    advice = f". To go on without such records, set {setting} to {name}"
    return F.raise_error(F.concat(F.lit(f"{failed}: "), line, F.lit(advice)))


def counted(frame: DataFrame, name: str, line: Column) -> DataFrame:
    """A frame of which Spark counts the rows that have such a line, and keeps one of them for the log."""
    return frame.observe(name, F.count(line).alias("count"), F.max(line).alias("example"))


def _dead_letters(records: DataFrame, topic: str, reason: Column) -> DataFrame:
    """The records as they were, with their own headers and those of Kafka Streams' dead letters (KIP-1034)."""
    own = F.coalesce(F.col("headers"), F.array().cast(HEADERS))
    headers = F.concat(own, error_headers(reason, **{name: F.col(name) for name in PLACES}))
    time_ms = F.unix_millis("timestamp")
    return records.select(
        F.lit(topic).alias("topic"),
        "key",
        "value",
        F.when(time_ms >= 0, time_ms).alias("timestamp"),
        headers.alias("headers"),
    )


def error_headers(reason: Column, topic: Column, **place: Column) -> Column:
    """What went wrong, as Kafka Streams' headers say it. The stack trace is its first line: Spark has no other."""
    exception = F.concat(F.lit(f"{SERIALIZATION_EXCEPTION}: "), reason)
    told = {"exception": exception, "message": reason, "stacktrace": exception, "topic": topic, **place}
    pairs = [
        F.struct(F.lit(f"__streams.errors.{name}").alias("key"), text.cast("string").cast("binary").alias("value"))
        for name, text in told.items()
    ]
    return F.array(*pairs).cast(HEADERS)

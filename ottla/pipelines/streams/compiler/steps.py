"""What is done to one record at a time, as projections and filters.

A frame has `key`, `value`, `timestamp` and `seq`, which numbers what one record became. A frame that several paths
share also has `_alive`: whether the row is still on the path that is being built. Then nothing is filtered, only
marked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from ottla.pipelines.streams.compiler.columns import called, column
from ottla.pipelines.streams.expressions import Expression
from ottla.pipelines.streams.graph import (
    Filter,
    FlatMap,
    ForEach,
    GlobalJoin,
    Map,
    MapValues,
    Node,
    Pass,
    Peek,
    SelectKey,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BRANCHES = 1 << 20
"""How many records one may become in a flat_map, as far as their order is kept."""


Told = Callable[["DataFrame", Node, "Column"], "DataFrame"]
"""Has Spark count the rows of a frame that a step drops because they lack a key or a value."""


def apply(frame: DataFrame, steps: tuple[Node, ...], tables: Callable[[str], DataFrame], told: Told) -> DataFrame:
    """A frame after some steps. `tables` gives the rows of a global table, as `key` and `value`."""
    for step in steps:
        frame = _apply(frame, step, tables, told)
    return frame


def _apply(frame: DataFrame, node: Node, tables: Callable[[str], DataFrame], told: Told) -> DataFrame:
    alive = F.col("_alive") if "_alive" in frame.columns else None
    match node.work:
        case MapValues(value=value, table=table):
            if table:
                there = F.col("value").isNotNull()
                alive = there if alive is None else alive & there
            return frame.withColumn("value", column(value, "key", "value", alive=alive))
        case Map(key=key, value=value):
            new_key = column(key, "key", "value", alive=alive)
            return frame.withColumns({"key": new_key, "value": column(value, "key", "value", alive=alive)})
        case SelectKey(key=key):
            return frame.withColumn("key", column(key, "key", "value", alive=alive))
        case FlatMap(records=records, values_only=values_only):
            return _flat_map(frame, column(records, "key", "value", alive=alive), values_only)
        case Filter(condition=condition, negated=negated, unless=unless, table=table):
            holds = _holds(condition, alive, negated)
            for earlier in unless:
                holds = holds & ~_holds(earlier, alive, negated=False)
            if table:
                return frame.withColumn("value", F.when(holds & F.col("value").isNotNull(), F.col("value")))
            return keep(frame, holds)
        case Peek(function=function):
            return keep(frame, called(function, alive, answer=True))
        case GlobalJoin():
            return _global_join(frame, node, node.work, tables(node.work.table), told)
        case Pass(what="to_table"):  # a row without a key is none, as in Kafka Streams
            there = F.col("key").isNotNull()
            return keep(told(frame, node, ~there), there)
        case Pass():
            return frame
    raise AssertionError(f"{node.name} is not a step between roots and ends")


def keep(frame: DataFrame, condition: Column) -> DataFrame:
    """The rows for which a condition holds; on a shared frame the others stay, marked."""
    if "_alive" in frame.columns:
        return frame.withColumn("_alive", F.col("_alive") & condition)
    return frame.where(condition)


def end(frame: DataFrame, work: ForEach) -> DataFrame:
    """Calls a function for each row; no row is left."""
    alive = F.col("_alive") if "_alive" in frame.columns else None
    return keep(frame, called(work.function, alive, answer=False))


def _holds(condition: Expression | None, alive: Column | None, negated: bool) -> Column:
    """A condition as in Kafka Streams: true or false. SQL's null is false, and stays out of both filters."""
    if condition is None:
        return F.lit(True)
    found = column(condition, "key", "value", alive=alive).cast("boolean")
    return F.coalesce(~found if negated else found, F.lit(False))


def _flat_map(frame: DataFrame, records: Column, values_only: bool) -> DataFrame:
    shared = "_alive" in frame.columns
    explode = F.posexplode_outer if shared else F.posexplode
    exploded = frame.select("*", explode(records).alias("_position", "_element"))
    element = F.col("_element")
    new = {
        "key": F.col("key") if values_only else element["key"],
        "value": element if values_only else element["value"],
        "seq": F.col("seq") * BRANCHES + F.coalesce(F.col("_position"), F.lit(0)),
    }
    there = F.col("_position").isNotNull()
    if shared:
        new["_alive"] = F.col("_alive") & there
    return exploded.withColumns(new).drop("_position", "_element")


def _global_join(frame: DataFrame, node: Node, work: GlobalJoin, table: DataFrame, told: Told) -> DataFrame:
    rows = table.select(F.col("key").alias("_table_key"), F.col("value").alias("_table_value"))
    wanted = frame.withColumn("_wanted", column(work.key, "key", "value"))
    lacks = F.col("value").isNull()
    wanted = told(wanted, node, lacks if work.left else lacks | F.col("_wanted").isNull())
    joined = wanted.join(F.broadcast(rows), F.col("_wanted") == F.col("_table_key"), "left")
    # A record without a value is not joined, as in Kafka Streams.
    joined = keep(joined, F.col("value").isNotNull())
    if not work.left:
        joined = keep(joined, F.col("_table_key").isNotNull())
    alive = F.col("_alive") if "_alive" in frame.columns else None
    pair = joined.withColumns({"left": F.col("value"), "right": F.col("_table_value")})
    result = pair.withColumn("value", column(work.joiner, "key", "left", "right", alive=alive))
    return result.drop("left", "right", "_wanted", "_table_key", "_table_value")

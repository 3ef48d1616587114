"""What remembers, as Spark's operators: built-in aggregation where there is one, tasks (`stateful`) where not.

Each function takes the frames of a root's inputs and returns its results as `key`, `value`, `timestamp`; results of
windows have as key a struct of `key`, `start` and `end`. `kind` marks late records, whose `late` is the record's value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FractionalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.aggregates import Fold
from ottla.pipelines.streams.compiler.columns import JSON, column, text, untext
from ottla.pipelines.streams.compiler.stateful import transform
from ottla.pipelines.streams.graph import (
    Accumulation,
    Aggregate,
    Aggregation,
    Cogrouping,
    Folds,
    Reduction,
    Regroup,
    StreamJoin,
    StreamTableJoin,
    TableJoin,
)
from ottla.pipelines.streams.tasks.aggregating import KeyAggregate, Regrouping, TableAggregate
from ottla.pipelines.streams.tasks.cogrouping import CogroupedWindows
from ottla.pipelines.streams.tasks.foreign_keys import Matching, Newest, Subscribing
from ottla.pipelines.streams.tasks.gathering import Gathering
from ottla.pipelines.streams.tasks.joining import TableLookup, WindowedJoin
from ottla.pipelines.streams.tasks.sessions import SessionAggregate
from ottla.pipelines.streams.tasks.sliding import SlidingAggregate
from ottla.pipelines.streams.tasks.tables import TableJoining
from ottla.pipelines.streams.tasks.task import RESULT, Operator
from ottla.pipelines.streams.tasks.versions import VersionedLookup
from ottla.pipelines.streams.tasks.windowing import WindowAggregate
from ottla.pipelines.streams.windows import SessionWindows, SlidingWindows, TimeWindows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ottla.pipelines.streams.expressions import Expression

PLACES = ("topic", "partition", "offset", "seq", "timestamp")


def is_built_in(work: Aggregate) -> bool:
    """Whether Spark has the aggregate itself: one of named folds, without a clock."""
    return work.windows is None and isinstance(work.aggregation, Folds)


def aggregate(
    frame: DataFrame, work: Aggregate, task: Column, *, updates: bool, finals: bool, built_in: bool
) -> DataFrame:
    """A table by key, or by key and window, of which each change, the last word, or both are wanted."""
    if work.of_table:
        return _table_aggregate(frame, work, task)
    if built_in:
        assert isinstance(work.aggregation, Folds), "Spark has named aggregates only"
        return _built_in(frame, work.aggregation)
    arguments = _arguments(work.aggregation)
    given = F.to_json(F.struct(*arguments.values())) if arguments else F.lit("{}")
    if isinstance(work.aggregation, Folds):
        value_text = F.when(F.col("value").isNotNull(), given)
        value_type = _folded_type(frame, work.aggregation, arguments)
    else:
        value_text = text(F.col("value"), "value")
        value_type = _value_type(frame.schema["value"].dataType, work.aggregation)
    late = text(F.col("value"), "value") if work.late_topic is not None else F.lit(None).cast("string")
    rows = _rows(frame, 0, task, value_text, late)
    results = transform(_operator(work, updates=updates, finals=finals), rows)
    key = untext(F.col("key_text"), "key", frame.schema["key"].dataType)
    columns = {
        "key": key if work.windows is None else F.struct(key.alias("key"), "start", "end"),
        "value": untext(F.col("value_text"), "value", value_type),
        "late": untext(F.col("other_text"), "value", frame.schema["value"].dataType),
    }
    return results.withColumns(columns).select("kind", "key", "value", "timestamp", "late")


def cogroup(frames: list[DataFrame], work: Aggregate, tasks: list[Column], *, updates: bool, finals: bool) -> DataFrame:
    """As `aggregate`, of several streams."""
    assert isinstance(work.aggregation, Cogrouping), "only a cogroup has several streams"
    none = F.lit(None).cast("string")
    sides = []
    for side, (frame, task) in enumerate(zip(frames, tasks, strict=True)):
        _same_keys(frames[0], frame)
        sides.append(_rows(frame, side, task, text(F.col("value"), "value"), none))
    rows = reduce(lambda so_far, other: so_far.unionByName(other), sides)
    results = transform(_operator(work, updates=updates, finals=finals), rows)
    key = untext(F.col("key_text"), "key", frames[0].schema["key"].dataType)
    columns = {
        "key": key if work.windows is None else F.struct(key.alias("key"), "start", "end"),
        "value": untext(F.col("value_text"), "value", _value_type(None, work.aggregation)),
    }
    return results.withColumns(columns).select("kind", "key", "value", "timestamp")


def regroup(frame: DataFrame, work: Regroup, task: Column) -> DataFrame:
    """A table's changes told to the groups: `value` is a struct of what is `new` in the group and what was `old`."""
    there = F.col("value").isNotNull()
    given = frame.withColumns(
        {
            "_group": column(work.key, "key", "value", alive=there),
            "_row": column(work.value, "key", "value", alive=there),
        }
    )
    rows = _rows(given, 0, task, text(F.col("_row"), "value"), text(F.col("_group"), "key"))
    kind = given.schema["_row"].dataType
    change = F.struct(
        untext(F.col("value_text"), "value", kind).alias("new"), untext(F.col("other_text"), "value", kind).alias("old")
    )
    key = untext(F.col("key_text"), "key", given.schema["_group"].dataType)
    return transform(Regrouping(), rows).select(key.alias("key"), change.alias("value"), "timestamp")


Told = Callable[["DataFrame"], "DataFrame"]
"""Has Spark count what tasks have dropped, by the `kind` of their results."""


def stream_join(
    left: DataFrame, right: DataFrame, work: StreamJoin, tasks: tuple[Column, Column], told: Told
) -> DataFrame:
    """Two streams, within windows."""
    return _pairs(left, right, WindowedJoin(work.windows, work.kind), work.joiner, tasks, told)


def stream_table_join(
    left: DataFrame,
    right: DataFrame,
    work: StreamTableJoin,
    tasks: tuple[Column, Column],
    history_ms: int | None,
    told: Told,
) -> DataFrame:
    """A stream and a table, which has a history if it is versioned."""
    operator = TableLookup(work.kind) if history_ms is None else VersionedLookup(work.kind, history_ms)
    return _pairs(left, right, operator, work.joiner, tasks, told)


def table_join(left: DataFrame, right: DataFrame, work: TableJoin, tasks: tuple[Column, Column]) -> DataFrame:
    """Two tables."""
    pairs = _both(left, right, TableJoining(work.kind), tasks, told=None)
    return _table_result(pairs, work)


def aggregated_table_join(left: DataFrame, right: DataFrame, work: TableJoin) -> DataFrame:
    """As `table_join`, for checkpoints of the first version: an aggregate that keeps the times of deleted rows."""
    _same_keys(left, right)
    frames = {"left": left, "right": right}
    sides = []
    for side, frame in frames.items():
        others = [
            F.lit(None).cast(frames[name].schema["value"].dataType).alias(name) for name in frames if name != side
        ]
        chosen = frame.select("key", *PLACES, F.col("value").alias(side), F.lit(side).alias("side"), *others)
        sides.append(chosen.select("key", *PLACES, "left", "right", "side"))
    rows = sides[0].unionByName(sides[1]).where(F.col("key").isNotNull())
    order = F.struct("offset", "seq")
    latest = rows.groupBy("key").agg(
        *(
            # max_by passes over rows whose order is null, which those of the other side have here.
            F.max_by(F.struct(side, "timestamp"), F.when(F.col("side") == side, order)).alias(f"latest_{side}")
            for side in frames
        ),
        *(F.max(F.col(side).isNotNull()).alias(f"ever_{side}") for side in frames),
    )
    times = [F.col(f"latest_{side}.timestamp") for side in frames]
    latest = latest.withColumns({side: F.col(f"latest_{side}.{side}") for side in frames})
    latest = latest.withColumn("timestamp", F.greatest(*times))  # which passes over a side that has no row
    ever = {"inner": F.col("ever_left") & F.col("ever_right"), "left": F.col("ever_left")}
    # A row that never had a result is not deleted: nobody knows it.
    known = latest.where(ever.get(work.kind, F.lit(True)))
    return _table_result(known, work)


def _table_result(rows: DataFrame, work: TableJoin) -> DataFrame:
    """What a key's `left` and `right` make together."""
    has = [F.col(side).isNotNull() for side in ("left", "right")]
    condition = {"inner": has[0] & has[1], "left": has[0]}.get(work.kind, has[0] | has[1])
    value = column(work.joiner, "key", "left", "right", alive=condition)
    return rows.withColumn("value", value).select("key", "value", "timestamp")


def subscribe(frame: DataFrame, foreign_key: Expression, task: Column) -> DataFrame:
    """The left table of a foreign-key join, told to the foreign keys: `value` is a struct of what is told."""
    refers = frame.withColumn("_refers", column(foreign_key, "key", "value", alive=F.col("value").isNotNull()))
    rows = _rows(refers, 0, task, text(F.col("value"), "value"), text(F.col("_refers"), "key"))
    told = F.struct(
        untext(F.col("other_text"), "key", frame.schema["key"].dataType).alias("key"),
        untext(F.col("value_text"), "value", frame.schema["value"].dataType).alias("row"),
        F.col("version"),
        F.col("kind").alias("what"),
        F.col("start").alias("since"),
        F.col("other_version").alias("left"),
    )
    key = untext(F.col("key_text"), "key", refers.schema["_refers"].dataType)
    return transform(Subscribing(), rows).select(key.alias("key"), told.alias("value"), "timestamp")


def match(left: DataFrame, right: DataFrame, kind: str, tasks: tuple[Column, Column], *, last_words: bool) -> DataFrame:
    """Where both tables of a foreign-key join meet: `value` is a struct of both rows and their versions."""
    told = left.schema["value"].dataType
    assert isinstance(told, StructType)
    _same_keys(left, right)
    # The left row's key travels as text: a task only hands it back.
    # What an earlier version has told has no subscription.
    names = ("version", "what", "since", "left")
    numbers = [F.coalesce(F.col(f"value.{name}").cast("string"), F.lit("0")) for name in names]
    who = F.to_json(F.array(text(F.col("value.key"), "key"), *numbers))
    lefts = _rows(left, 0, tasks[0], text(F.col("value.row"), "value"), who)
    rights = _rows(right, 1, tasks[1], text(F.col("value"), "value"), F.lit(None).cast("string"))
    results = transform(Matching(last_words), lefts.unionByName(rights))
    answer = F.struct(
        untext(F.col("value_text"), "value", told["row"].dataType).alias("left"),
        untext(F.col("other_text"), "value", right.schema["value"].dataType).alias("right"),
        F.col("version"),
        F.col("other_version"),
        F.lit(kind).alias("kind"),
        F.col("kind").alias("what"),
        F.col("start").alias("since"),
    )
    key = untext(F.col("key_text"), "key", told["key"].dataType)
    return results.select(key.alias("key"), answer.alias("value"), "timestamp")


def foreign_key_result(frame: DataFrame, joiner: Expression, task: Column) -> DataFrame:
    """The newest answer for each row of the left table."""
    answer = frame.schema["value"].dataType
    assert isinstance(answer, StructType)
    # The join's kind is the same in all answers, and travels with the right row, which may be none.
    right = F.to_json(F.struct(F.col("value.right").alias("right"), F.col("value.kind").alias("kind")), JSON)
    numbers = [F.col(f"value.{name}").cast("string") for name in ("version", "other_version", "what", "since")]
    has_result = _has_result("value.").cast("int").cast("string")
    extra = F.to_json(F.array(right, *numbers, has_result))
    rows = _rows(frame, 0, task, text(F.col("value.left"), "value"), extra)
    results = transform(Newest(), rows)
    kinds = StructType([StructField("right", answer["right"].dataType), StructField("kind", StringType())])
    other = F.from_json(F.col("other_text"), kinds, JSON)
    newest = results.select(
        untext(F.col("key_text"), "key", frame.schema["key"].dataType).alias("key"),
        untext(F.col("value_text"), "value", answer["left"].dataType).alias("left"),
        other.getField("right").alias("right"),
        other.getField("kind").alias("kind"),
        "timestamp",
    )
    return _foreign_key_result(newest, joiner)


def aggregated_foreign_key_result(frame: DataFrame, joiner: Expression) -> DataFrame:
    """As `foreign_key_result`, for checkpoints of the first version: an aggregate that keeps deleted rows' versions."""
    order = F.struct("value.version", "value.other_version")
    newest = frame.groupBy("key").agg(F.max_by(F.struct("value", "timestamp"), order).alias("newest"))
    rows = newest.withColumns(
        {
            "timestamp": F.col("newest.timestamp"),
            "left": F.col("newest.value.left"),
            "right": F.col("newest.value.right"),
            "kind": F.col("newest.value.kind"),
        }
    )
    return _foreign_key_result(rows, joiner)


def _foreign_key_result(rows: DataFrame, joiner: Expression) -> DataFrame:
    return rows.withColumn("value", column(joiner, "key", "left", "right", alive=_has_result())).select(
        "key", "value", "timestamp"
    )


def _has_result(where: str = "") -> Column:
    """Whether the rows of both sides make a result."""
    left, right, kind = (F.col(f"{where}{name}") for name in ("left", "right", "kind"))
    return left.isNotNull() & (right.isNotNull() | kind.eqNullSafe("left"))


def _pairs(
    left: DataFrame, right: DataFrame, operator: Operator, joiner: Expression, tasks: tuple[Column, Column], told: Told
) -> DataFrame:
    pairs = _both(left, right, operator, tasks, told)
    return pairs.withColumn("value", column(joiner, "key", "left", "right")).select("key", "value", "timestamp")


def _both(
    left: DataFrame, right: DataFrame, operator: Operator, tasks: tuple[Column, Column], told: Told | None
) -> DataFrame:
    """What a task makes of two sides: `key`, `left`, `right` and `timestamp`."""
    _same_keys(left, right)
    none = F.lit(None).cast("string")
    sides = [
        _rows(frame, side, tasks[side], text(F.col("value"), "value"), none) for side, frame in enumerate((left, right))
    ]
    results = transform(operator, sides[0].unionByName(sides[1]))
    if told is not None:
        results = told(results).where(F.col("kind") == RESULT)
    return results.select(
        untext(F.col("key_text"), "key", left.schema["key"].dataType).alias("key"),
        untext(F.col("value_text"), "value", left.schema["value"].dataType).alias("left"),
        untext(F.col("other_text"), "value", right.schema["value"].dataType).alias("right"),
        "timestamp",
    )


def _rows(frame: DataFrame, side: int, task: Column, value_text: Column, extra: Column) -> DataFrame:
    """A frame as tasks take it."""
    return frame.select(
        task.alias("task"),
        F.lit(side).alias("side"),
        *PLACES,
        text(F.col("key"), "key").alias("key_text"),
        value_text.alias("value_text"),
        extra.alias("extra"),
    )


def _same_keys(left: DataFrame, right: DataFrame) -> None:
    kinds = [frame.schema["key"].dataType.simpleString() for frame in (left, right)]
    if kinds[0] != kinds[1]:
        raise PipelineError(f"a join needs keys of one type, not {kinds[0]} and {kinds[1]}: give both the same serde")


def _operator(work: Aggregate, *, updates: bool, finals: bool) -> Operator:
    gathering = Gathering(work.aggregation)
    match work.windows:
        case None:
            return KeyAggregate(gathering)
        case TimeWindows():
            if gathering.streams > 1:
                return CogroupedWindows(gathering, work.windows, updates, finals)
            return WindowAggregate(gathering, work.windows, updates, finals)
        case SlidingWindows():
            return SlidingAggregate(gathering, work.windows, updates, finals, suppressed=not work.final)
        case SessionWindows():
            return SessionAggregate(gathering, work.windows, updates, finals)


def _built_in(frame: DataFrame, aggregation: Folds) -> DataFrame:
    functions = {"sum": F.sum, "min": F.min, "max": F.max, "mean": F.avg}
    arguments = _arguments(aggregation)
    rows = frame.where(F.col("key").isNotNull() & F.col("value").isNotNull()).select(
        "key", "timestamp", *arguments.values()
    )
    results = [
        F.count(F.lit(1)) if fold.name == "count" else functions[fold.name](F.col(f"a{index}"))
        for index, (_, fold) in enumerate(aggregation.folds)
    ]
    return _by_key(rows, aggregation, results)


def _table_aggregate(frame: DataFrame, work: Aggregate, task: Column) -> DataFrame:
    """A table of a grouped table: what leaves a group is taken out of its row before what comes is put in."""
    change = frame.schema["value"].dataType
    assert isinstance(change, StructType), "a grouped table's changes are structs of new and old"
    if isinstance(work.aggregation, Folds):
        return _there_and_back(frame, work.aggregation)
    rows = _rows(frame, 0, task, text(F.col("value.new"), "value"), text(F.col("value.old"), "value"))
    results = transform(TableAggregate(Gathering(work.aggregation)), rows)
    value_type = _value_type(change["new"].dataType, work.aggregation)
    columns = {
        "key": untext(F.col("key_text"), "key", frame.schema["key"].dataType),
        "value": untext(F.col("value_text"), "value", value_type),
    }
    return results.withColumns(columns).select("kind", "key", "value", "timestamp")


def _there_and_back(frame: DataFrame, aggregation: Folds) -> DataFrame:
    """Counts, sums and means that forget, which Spark has: sums in which what leaves has the other sign."""
    sides = F.array(*(F.struct(F.col(f"value.{name}").alias("value"), F.lit(sign).alias("sign"))
                      for name, sign in (("new", 1), ("old", -1))))  # fmt: skip
    moves = frame.select("key", "timestamp", F.explode(sides).alias("_side"))
    moves = moves.select("key", "timestamp", "_side.value", "_side.sign").where(F.col("value").isNotNull())
    rows = moves.select("key", "timestamp", "sign", *_arguments(aggregation).values())
    results = []
    for index, (_, fold) in enumerate(aggregation.folds):
        argument = F.col(f"a{index}") if fold.argument is not None else F.lit(1)
        total = F.sum(argument * F.col("sign"))
        many = F.sum(F.when(argument.isNotNull(), F.col("sign")))
        results.append(F.when(many != 0, total / many) if fold.name == "mean" else total)
    return _by_key(rows, aggregation, results)


def _by_key(rows: DataFrame, aggregation: Folds, results: list[Column]) -> DataFrame:
    names = [name for name, _ in aggregation.folds]
    if names == [None]:
        value = results[0]
    else:
        value = F.struct(*(result.alias(str(name)) for name, result in zip(names, results, strict=True)))
    return rows.groupBy("key").agg(F.max("timestamp").alias("timestamp"), value.alias("value"))


def _arguments(aggregation: Aggregation) -> dict[int, Column]:
    folds = aggregation.folds if isinstance(aggregation, Folds) else ()
    return {
        index: column(fold.argument, "key", "value").alias(f"a{index}")
        for index, (_, fold) in enumerate(folds)
        if fold.argument is not None
    }


def _value_type(given: DataType | None, aggregation: Reduction | Accumulation | Cogrouping) -> DataType:
    if isinstance(aggregation, Reduction):
        assert given is not None, "a reduction's values are those of its records"
        return given
    adder = aggregation.adders[0] if isinstance(aggregation, Cogrouping) else aggregation.adder
    return DataType.fromDDL(adder.returns)


def _folded_type(frame: DataFrame, aggregation: Folds, arguments: dict[int, Column]) -> DataType:
    schema = frame.select(*arguments.values()).schema if arguments else StructType()
    kinds = [
        _fold_type(fold, schema[f"a{index}"].dataType if fold.argument is not None else LongType())
        for index, (_, fold) in enumerate(aggregation.folds)
    ]
    names = [name for name, _ in aggregation.folds]
    if names == [None]:
        return kinds[0]
    return StructType([StructField(str(name), kind) for name, kind in zip(names, kinds, strict=True)])


def _fold_type(fold: Fold, argument: DataType) -> DataType:
    if isinstance(argument, DecimalType):
        raise PipelineError(f"{fold.name} in a window takes integers and doubles: cast the decimal to one of them")
    match fold.name:
        case "count":
            return LongType()
        case "mean":
            return DoubleType()
        case "sum":
            if isinstance(argument, FractionalType):
                return DoubleType()
            if isinstance(argument, LongType | IntegerType | ShortType | ByteType):
                return LongType()
            raise PipelineError(f"sum takes a number, not {argument.simpleString()}")
    return argument

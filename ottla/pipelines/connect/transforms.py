"""The transforms by name, as expressions of Spark over the fields of a record.

Promises: a field that is not there is told before the first record is read, with its line in the file and the nearest
name; a value that a transform cannot take makes the record a bad one and leaves the others alone. `filter` and the
other conditions are Spark SQL as it is: an expression that raises there stops the pipeline (`try_cast` and
`try_divide` do not raise). Called by `runner`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import reduce
from pickle import PicklingError
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ottla.pipelines.connect import functions, record, smt
from ottla.pipelines.connect.envelope import extract_new_record_state
from ottla.pipelines.connect.errors import SpecError, nearest
from ottla.pipelines.connect.reasons import reason
from ottla.pipelines.connect.record import META, TRANSFORMATION
from ottla.pipelines.connect.spec import Part, Pipeline
from ottla.pipelines.connect.yaml_file import Path as Place
from ottla.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TOPIC_NAME = r"^(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}$"


def apply(df: DataFrame, pipeline: Pipeline) -> DataFrame:
    """All transforms of a pipeline of one source without `sql`, in order."""
    transforms = Transforms(df.sparkSession, pipeline)
    for index in range(len(pipeline.transforms)):
        df = transforms.one(df, index, pipeline)
    return df


class Transforms:
    """The transforms of a pipeline, whose functions the workers can import from now on."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline) -> None:
        self._called = _functions(spark, pipeline)

    def one(self, df: DataFrame, index: int, pipeline: Pipeline) -> DataFrame:
        """One of them applied to records of the pipeline's source."""
        part = pipeline.transforms[index]
        step = Step(df, part, pipeline, ("transforms", index, part.kind), self._called.get(index))
        try:
            return smt.apply(step) if part.is_connect else _BY_NAME[part.kind](step)
        except (PySparkException, PicklingError) as error:
            # Spark's own words for a type or an expression that is not one, at the line that has it.
            raise step.wrong(reason(str(error))) from error


def _functions(spark: SparkSession, pipeline: Pipeline) -> dict[int, functions.Function]:
    """The functions of the transforms, which the workers can import from now on: Spark pickles them as it is told."""
    found: dict[int, functions.Function] = {}
    references = []
    for index, part in enumerate(pipeline.transforms):
        if part.function is not None:
            found[index] = part.function
        elif "function" in part.options:
            try:
                reference = functions.Reference.of(part.options["function"], pipeline.directory)
                found[index] = functions.load(reference)
            except functions.FunctionError as error:
                raise pipeline.wrong(("transforms", index, part.kind), str(error)) from error
            references.append(reference)
    functions.send(spark, references, pipeline.file)
    return found


class Step:
    """One transform, about to be applied to a DataFrame."""

    def __init__(
        self, df: DataFrame, part: Part, pipeline: Pipeline, place: Place, function: functions.Function | None
    ) -> None:
        self.df = df
        self.part = part
        self._function = function
        self.options = part.options
        self.pipeline = pipeline
        self._place = place

    def wrong(self, message: str) -> SpecError:
        return self.pipeline.wrong(self._place, message)

    @property
    def function(self) -> functions.Function:
        assert self._function is not None, f"a transform {self.part.kind} has a function"
        return self._function

    def known(self, name: str) -> str:
        """A field's name, if there is such a field."""
        there = record.names(self.df)
        if name not in there:
            raise self.wrong(f"there is no field {name}: {nearest(name, there) if there else 'there are none'}")
        return name

    def free(self, name: str) -> str:
        """A name that no field has yet."""
        if name in self.df.columns:
            raise self.wrong(f"there is a field {name} already")
        return name

    def type_of(self, name: str) -> T.DataType:
        return self.df.schema[self.known(name)].dataType

    def select(self, fields: list[Column]) -> DataFrame:
        """These columns, with the record's own beside them."""
        return self.df.select(*fields, F.col(META))

    def replaced(self, name: str, value: Column, *, kind: str, because: str) -> DataFrame:
        """A field's new value; a record whose value was something and became nothing is a bad one."""
        # The new value first gets a column of its own, so that Spark computes it once.
        new = "__ottla_new"
        df = self.df.withColumn(new, value)
        old = record.field(name)
        df = record.failed(
            df, old.isNotNull() & F.col(new).isNull(),
            stage=TRANSFORMATION, transform=self.part.kind, kind=kind, message=F.concat(F.lit(because), _shown(old)),
        )  # fmt: skip
        return df.withColumn(name, F.col(new)).drop(new)


def mask(step: Step) -> DataFrame:
    given = step.options.get("with")
    return reduce(
        lambda df, name: df.withColumn(name, _masked(step, name, given)),
        map(step.known, step.options["fields"]),
        step.df,
    )


def _masked(step: Step, name: str, given: object) -> Column:
    """What hides a value; nothing stays nothing, which hides as much as Kafka Connect does."""
    type_ = step.type_of(name)
    if given is not None:
        hidden = F.lit(given)
    elif isinstance(type_, T.StringType):
        hidden = F.lit("")
    elif isinstance(type_, T.BinaryType):
        hidden = F.lit(b"")
    elif isinstance(type_, T.NumericType):
        hidden = F.lit(0)
    elif isinstance(type_, T.BooleanType):
        hidden = F.lit(False)
    else:
        hidden = F.lit(None)
    return F.when(record.field(name).isNotNull(), hidden.cast(type_))


def cast(step: Step) -> DataFrame:
    for name, type_ in step.options["fields"].items():
        value = record.field(step.known(name)).try_cast(type_)
        step.df = step.replaced(name, value, kind="CastException", because=f"{name} is no {type_}: ")
    return step.df


def rename(step: Step) -> DataFrame:
    new = {step.known(old): name for old, name in step.options["fields"].items()}
    names = [new.get(name, name) for name in record.names(step.df)]
    twice = next((name for name in names if names.count(name) > 1 or name == META), None)
    if twice is not None:
        raise step.wrong(f"there is a field {twice} already")
    return step.select([record.field(old).alias(name) for old, name in zip(record.names(step.df), names, strict=True)])


def drop(step: Step) -> DataFrame:
    leave = set(map(step.known, step.options["fields"]))
    return step.select([record.field(name) for name in record.names(step.df) if name not in leave])


def keep(step: Step) -> DataFrame:
    return step.select([record.field(step.known(name)) for name in step.options["fields"]])


def insert(step: Step) -> DataFrame:
    name = step.free(step.options["field"])
    if "sql" in step.options:
        return step.df.withColumn(name, F.expr(step.options["sql"]))
    if "value" in step.options:
        return step.df.withColumn(name, F.lit(step.options["value"]))
    origin = record.of(step.options["from"])
    return step.df.withColumn(name, origin.cast("string") if step.options["from"] == "key" else origin)


def route(step: Step) -> DataFrame:
    name = step.known(step.options["field"])
    before, mark, after = step.options["topic"].partition("{value}")
    if not mark:
        raise step.wrong("the topic has no {value} in it, so the field has no say")
    topic = F.concat(F.lit(before), record.field(name).cast("string"), F.lit(after))
    is_name = F.coalesce(topic.rlike(TOPIC_NAME), F.lit(False))
    message = F.concat(
        F.lit(f"no topic can be named after {name}: "), F.coalesce(_shown(record.field(name)), F.lit("null"))
    )
    df = record.failed(
        step.df, ~is_name, stage=TRANSFORMATION, transform="route", kind="RouteException", message=message
    )
    return df.withColumn(META, F.col(META).withField("target", F.when(is_name, topic)))


def filter_(step: Step) -> DataFrame:
    return step.df.filter(F.when(record.is_good(), F.expr(step.options["where"])).otherwise(True))


def flatten(step: Step) -> DataFrame:
    delimiter = step.options["delimiter"]

    def leaves(column: Column, type_: T.DataType, name: str) -> list[tuple[str, Column]]:
        if not isinstance(type_, T.StructType):
            return [(name, column)]
        return [
            leaf
            for inner in type_.fields
            for leaf in leaves(column.getField(inner.name), inner.dataType, f"{name}{delimiter}{inner.name}")
        ]

    found = [
        leaf
        for outer in step.df.schema.fields
        if outer.name != META
        for leaf in leaves(record.field(outer.name), outer.dataType, outer.name)
    ]
    names = [name for name, _ in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise step.wrong(f"two fields would be named {twice}: another delimiter keeps them apart")
    return step.select([column.alias(name) for name, column in found])


_UNIX = {"unix-s": 1_000_000, "unix-ms": 1_000, "unix-us": 1}
"""How many microseconds one of them is."""
_ISO = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"


def timestamp(step: Step) -> DataFrame:
    name, from_, to = step.known(step.options["field"]), step.options["from"], step.options["to"]
    old = record.field(name)
    if from_ in _UNIX:
        instant = F.timestamp_micros(F.try_multiply(old.try_cast("bigint"), F.lit(_UNIX[from_])))
    elif from_ in ("iso", "timestamp"):
        instant = old.try_cast("timestamp")
    else:
        instant = F.try_to_timestamp(old, F.lit(from_))
    if to in _UNIX:
        new = F.floor(F.unix_micros(instant) / _UNIX[to]).cast("bigint")
    elif to == "timestamp":
        new = instant
    else:
        new = F.date_format(instant, _ISO if to == "iso" else to)
    return step.replaced(name, new, kind="TimestampException", because=f"{name} is no time as {from_} has it: ")


def dead_letter(step: Step) -> DataFrame:
    return record.failed(
        step.df, F.when(record.is_good(), F.expr(step.options["where"])).otherwise(False),
        stage=TRANSFORMATION, transform="dead-letter", kind="RecordRefused", message=step.options["message"],
    )  # fmt: skip


def python(step: Step) -> DataFrame:
    """One record at a time, in Python; what it returns is held to the schema, because Spark would make nulls of it."""
    names = record.names(step.df)
    fields = T.StructType([step.df.schema[name] for name in names])
    if "schema" in step.options:
        fields = parsed_schema(step.options["schema"])
        if META in fields.fieldNames():
            raise step.wrong(f"{META} is not for functions to return")
    result_type = T.StructType(
        [
            T.StructField("value", fields),
            T.StructField("is_dropped", T.BooleanType()),
            T.StructField("class", T.StringType()),
            T.StructField("message", T.StringType()),
        ]
    )
    call = _Call(step.function, fields)

    def transform(row):  # type: ignore[no-untyped-def]  # Spark would read a type as the kind of the function
        return call(row)

    called = F.udf(transform, result_type)(F.when(record.is_good(), F.struct(*map(record.field, names))))
    new = F.col("__ottla_new")
    df = step.df.select(F.col(META), called.alias("__ottla_new"))
    raised = record.error(
        stage=TRANSFORMATION,
        transform=step.options["function"],
        kind=new.getField("class"),
        message=new.getField("message"),
    )
    df = record.with_error(df, F.when(new.getField("class").isNotNull(), raised))
    df = df.filter(~F.coalesce(new.getField("is_dropped"), F.lit(False)))
    return df.select(*(new.getField("value").getField(name).alias(name) for name in fields.fieldNames()), F.col(META))


class _Call:
    """Calls the function in a worker, and returns what came of it as values, never as an exception."""

    def __init__(self, function: Callable[[dict[str, Any]], Any], fields: T.StructType) -> None:
        self._function = function
        self._fields = fields
        self._verify: Callable[[object], None] | None = None

    def __call__(self, row: T.Row | None) -> tuple[Any, bool, str | None, str | None] | None:
        if row is None:
            return None
        if self._verify is None:
            from pyspark.sql.types import _make_type_verifier  # made here: a closure does not travel

            self._verify = _make_type_verifier(self._fields)
        try:
            value = self._function(row.asDict(recursive=True))
            if value is None:
                return None, True, None, None
            unknown = sorted(set(value) - set(self._fields.fieldNames()))
            if unknown:
                raise ValueError(f"the schema has no {', '.join(unknown)}")
            self._verify(value)
        except Exception as error:  # noqa: BLE001 - the function is the user's, and the record is what it was about
            return None, False, f"{type(error).__module__}.{type(error).__qualname__}", str(error)
        return value, False, None, None


def dataframe(step: Step) -> DataFrame:
    try:
        made: DataFrame = step.function(step.df)
    except PySparkException:
        raise
    except Exception as error:  # the function is the user's, and so is whatever it raises
        raise step.wrong(f"{step.options['function']} raised {reason(traceback.format_exc())}") from error
    kept = META in getattr(made, "columns", ()) and made.schema[META].dataType == step.df.schema[META].dataType
    if not kept:
        raise step.wrong(f"the function has to return a DataFrame with the column {META} as it was")
    return made


def parsed_schema(text: str) -> T.StructType:
    """Fields as Spark writes them: `id BIGINT, name STRING`."""
    found = T.StructType.fromDDL(text)
    if not isinstance(found, T.StructType):
        raise PipelineError(f"a schema is a list of fields such as `id BIGINT, name STRING`, and not a type: {text}")
    return found


def _shown(value: Column) -> Column:
    """A value in an error, short."""
    return F.substring(value.cast("string"), 1, 100)


_BY_NAME: dict[str, Callable[[Step], DataFrame]] = {
    "mask": mask, "cast": cast, "rename": rename, "drop": drop, "keep": keep, "insert": insert, "route": route,
    "filter": filter_, "flatten": flatten, "timestamp": timestamp, "dead-letter": dead_letter, "python": python,
    "dataframe": dataframe, "ExtractNewRecordState": extract_new_record_state,
}  # fmt: skip

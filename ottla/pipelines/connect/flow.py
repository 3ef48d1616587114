"""The records of a pipeline by name, from its sources through its transforms: what its sinks read.

Promises: a `sql` sees good records only. Those that are bad when they come to it go around: they stop the pipeline, are
counted and left out, or are dead letters, each once, as `errors` says. A row goes on as the record that it was made of,
with its key, headers and origin, where the query is one SELECT that names the source in its FROM; of several sources
as that of the first. Rows that a query groups, or reads from another query, are new records. Called by `runner`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from ottla.pipelines.connect import record, sources, sql_query
from ottla.pipelines.connect.graph import RECORDS
from ottla.pipelines.connect.reasons import reason
from ottla.pipelines.connect.record import META
from ottla.pipelines.connect.transforms import Transforms
from ottla.pipelines.connect.yaml_file import Path as Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.pipelines.connect.spec import Pipeline

NEVER_FAIL = ("mask", "rename", "drop", "keep", "insert", "filter", "flatten")
"""Transforms that make no record a bad one."""
ORIGIN = "__ottla_origin"
"""The column that a query gets beside its own."""


@dataclass(frozen=True, slots=True)
class Bad:
    """Bad records that were found at one place, as rows of the sink of topics."""

    name: str
    """Of the records that they were among, and what those were on the way to."""
    rows: DataFrame
    sources: tuple[str, ...]


class Flow:
    """Records by name, and the bad ones among them."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, read: Callable[[str], DataFrame]) -> None:
        """`read` gives the records of a stream by its name."""
        self._spark = spark
        self._pipeline = pipeline
        self._named: set[str] = set()
        self._tables = {name: self._table(name) for name in pipeline.sources if pipeline.is_table(name)}
        self._frames = {name: read(name) for name in pipeline.streams}
        self._made_of: dict[str, tuple[str, ...]] = {name: (name,) for name in self._frames}
        """The sources of the records, of which the first has the records that rows go on as."""
        self._bad: list[Bad] = []
        self._clean: set[str] = set()
        """Records among which are no bad ones: each query of dead letters reads its sources once more."""
        transforms = Transforms(spark, pipeline)
        for index, part in enumerate(pipeline.transforms):
            if part.kind == "sql":
                self._query(index)
            else:
                needed = self._needed_after(index)
                self._frames = {
                    name: transforms.one(df, index, pipeline.of_source(self._made_of[name][0]))
                    for name, df in self._frames.items()
                    if name in needed
                }
                if part.kind not in NEVER_FAIL:
                    self._clean.clear()

    def of_sink(self, name: str) -> DataFrame:
        """The records that a sink reads."""
        return self._together(self._pipeline.graph.reads[name], self._pipeline.of_sink(name), ("sink", "from"))

    def bad(self) -> list[Bad]:
        """The bad records of all that any sink reads, each once."""
        for name in dict.fromkeys(name for reads in self._pipeline.graph.reads.values() for name in reads):
            if name not in self._clean:
                self._note_bad(name, name)
        return self._bad

    def _needed_after(self, index: int) -> set[str]:
        """The records that a sink or a later query reads: to the others a transform need not be applicable."""
        needed = {name for reads in self._pipeline.graph.reads.values() for name in reads}
        for part in self._pipeline.transforms[index + 1 :]:
            if part.kind == "sql":
                asked = {name.lower() for name in sql_query.read(part.options["query"]).names}
                needed |= {name for name in self._frames if name.lower() in asked}
                if RECORDS in asked:
                    needed |= self._frames.keys() - self._named
        return needed

    def _note_bad(self, name: str, place: str) -> None:
        letter = self._pipeline.dead_letter
        assert letter is not None, "asked only where there are dead letters"
        bad = self._frames[name].filter(~record.is_good())
        taken = {one.name for one in self._bad}
        place = next(one for one in (place, *(f"{place}-{again}" for again in range(2, 1000))) if one not in taken)
        self._bad.append(Bad(place, record.dead_letters(bad, self._pipeline.name, letter.topic), self._made_of[name]))

    def _table(self, name: str) -> DataFrame:
        """A source that is read as it is. What is bad in it is nobody's record, so it is never a dead letter."""
        pipeline = self._pipeline.of_source(name)
        df = sources.read(self._spark, pipeline)
        is_good = record.is_good()
        if pipeline.errors != "skip":
            is_good = F.when(is_good, True).otherwise(F.raise_error(record.told()).cast("boolean"))
        return df.filter(is_good).drop(META)

    def _together(self, names: tuple[str, ...], pipeline: Pipeline, place: Place) -> DataFrame:
        first, *more = names
        df = self._frames[first]
        for name in more:
            other = self._frames[name]
            if set(record.names(df)) != set(record.names(other)):
                raise pipeline.wrong(
                    place,
                    f"records that are read together have the same fields: {first} has {', '.join(record.names(df))}, "
                    f"and {name} has {', '.join(record.names(other))}",
                )
            df = df.unionByName(other, allowMissingColumns=True)  # of the struct: fields that transforms have added
        return df

    def _query(self, index: int) -> None:
        part = self._pipeline.transforms[index]
        place: Place = ("transforms", index, "sql")
        query = sql_query.read(part.options["query"])
        views: dict[str, DataFrame] = {}
        streams: list[str] = []
        made_of: list[str] = []
        result = part.options.get("as", RECORDS)
        for name in query.names:
            known = next((one for one in [*self._frames, *self._tables] if one.lower() == name.lower()), None)
            if known in self._tables:
                views[name] = self._tables[known]
                continue
            streams.append(name)
            if known is not None:
                self._frames[known] = self._good(known, index, result)
                views[name] = self._frames[known]
                made_of += self._made_of[known]
            else:
                everything = tuple(sorted(self._frames.keys() - self._named))
                for one in everything:
                    self._frames[one] = self._good(one, index, result)
                    made_of += self._made_of[one]
                views[name] = self._together(everything, self._pipeline, (*place, "query"))
        with _views(self._spark, views) as taken:
            if taken is not None:
                raise self._pipeline.wrong(
                    place, f"the session has a table or a view {taken} already: rename the source"
                )
            try:
                df = self._run(query, streams)
            except AnalysisException as error:
                raise self._pipeline.wrong((*place, "query"), reason(str(error))) from error
        names = record.names(df)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise self._pipeline.wrong((*place, "query"), f"two fields are named {twice}: give one another name by AS")
        if result == RECORDS:
            self._frames, self._made_of, self._named, self._clean = {}, {}, set(), set()
        else:
            self._named.add(result)
        self._frames[result], self._made_of[result] = df, tuple(made_of)
        self._clean.add(result)

    def _run(self, query: sql_query.Query, streams: list[str]) -> DataFrame:
        """The rows with the records that they were made of, or as new ones."""
        text = query.with_column(META, ORIGIN, streams)
        if text is not None:
            try:
                return self._spark.sql(text).drop(META).withColumnRenamed(ORIGIN, META)
            except AnalysisException:
                pass  # of rows that are grouped, and of a query that is wrong: as it is written, it will be said again
        return self._spark.sql(query.text).drop(META).withColumn(META, record.meta())

    def _good(self, name: str, index: int, result: str) -> DataFrame:
        """The records without the bad ones, which are accounted for here."""
        df = self._frames[name]
        if name in self._clean:
            return df
        self._clean.add(name)
        if self._pipeline.errors == "stop":
            return df.filter(F.when(record.is_good(), True).otherwise(F.raise_error(record.told()).cast("boolean")))
        if self._pipeline.dead_letter is not None:
            self._note_bad(name, f"{name}-to-{result}")
        return record.observed(df, f"{name}-{index}").filter(record.is_good())


class _views:
    """Names for frames, as long as a query is read."""

    def __init__(self, spark: SparkSession, frames: Mapping[str, DataFrame]) -> None:
        self._spark = spark
        self._frames = frames
        self._made: list[str] = []

    def __enter__(self) -> str | None:
        """The name that is taken; None when all are free."""
        for name, df in self._frames.items():
            if self._spark.catalog.tableExists(name):
                return name
            df.createTempView(f"`{name}`")
            self._made.append(name)
        return None

    def __exit__(self, *error: object) -> None:
        if getattr(self._spark, "_jvm", None) is None:
            return  # over Spark Connect a query is read when it runs
        for name in self._made:
            self._spark.catalog.dropTempView(name)

"""A table as it grows: what is new since the last look becomes a file, and the files are the stream.

Spark has no stream of a database, and what Python offers for streams of its own runs where no JDBC is. So the driver
asks the database for the rows above its position, writes them as one Parquet file into the spool, and Spark's stream of
files has each of them once, by its checkpoint.

    <spool>/_new/rows/                     a look that is under way
    <spool>/_new/000000000007_i42.parquet  all of it is here, and nobody has seen it
    <spool>/_position                      its name: the table was read up to 42
    <spool>/000000000007_i42.parquet       the stream has it, and removes it when a later one was read

Promises: each step is one rename, and a start does those that are left, so a look that was cut short before the second
line has left nothing, and after it is never taken again. A row that becomes visible after a later one was read is
missed, as in Kafka Connect; a column of times is read up to the database's own now, so that rows of one moment come
together. Called by `runner`.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from ottla.pipelines.connect import record
from ottla.pipelines.connect.errors import nearest
from ottla.pipelines.connect.sources import jdbc_reader
from ottla.pipelines.durable import sync, write_beside
from ottla.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from ottla.pipelines.connect.spec import Pipeline

POLL_S = 1.0
"""How long a look waits after the last, where the pipeline has no trigger."""
_FILE = re.compile(r"(\d{12})(?:_i(-?\d+))?(?:_t(-?\d+))?\.parquet")
_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DecimalType)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a table was read, by the number of the file that ends there."""

    number: int
    incrementing: int | None = None
    timestamp_us: int | None = None

    @property
    def file_name(self) -> str:
        incrementing = "" if self.incrementing is None else f"_i{self.incrementing}"
        timestamp = "" if self.timestamp_us is None else f"_t{self.timestamp_us}"
        return f"{self.number:012d}{incrementing}{timestamp}.parquet"

    @classmethod
    def of(cls, file_name: str) -> Position | None:
        """The position in a file's name; None where it is none of ours."""
        found = _FILE.fullmatch(file_name)
        if found is None:
            return None
        number, incrementing, timestamp = (None if text is None else int(text) for text in found.groups())
        assert number is not None, "a name begins with it"
        return cls(number, incrementing, timestamp)


class Spool:
    """The directory between the database and the stream; it alone knows how far the table was read."""

    def __init__(self, path: Path) -> None:
        path = path.absolute()  # Spark's own directory may be another
        self._path = path
        self._new = path / "_new"  # Spark passes over what begins so, and warns of it when it is told to read it
        self._rows = self._new / "rows"
        self._at = path / "_position"
        path.mkdir(parents=True, exist_ok=True)
        self.publish()

    @property
    def position(self) -> Position | None:
        """Where the last file ends; None before the first."""
        try:
            name = self._at.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        found = Position.of(name)
        if found is None:
            raise PipelineError(f"{self._at} is damaged: it names no position")
        return found

    def begin(self) -> str:
        """Where Spark may write a look; what was left there is gone."""
        shutil.rmtree(self._new, ignore_errors=True)
        return str(self._rows)

    def end(self, position: Position) -> None:
        """The look that was written ends here: it is whole, and may be published."""
        (part,) = self._rows.glob("part-*.parquet")
        sync(part)
        part.rename(self._new / position.file_name)
        sync(self._new)
        self.publish()

    def publish(self) -> None:
        """Show the stream a look that is whole, here or in a run that was cut short."""
        for path in self._new.iterdir() if self._new.is_dir() else ():
            if Position.of(path.name) is not None:
                # First the position: rows that are shown and not noted would be read again.
                write_beside(self._at, path.name.encode())
                path.rename(self._path / path.name)
                sync(self._path)


class GrowingTable:
    """The table of a source `jdbc` with a column that grows."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, spool: Path) -> None:
        self._spark = spark
        self._source = pipeline.source
        self._spool = Spool(spool)
        self._position = self._spool.position
        self.schema = jdbc_reader(spark, self._source).load().schema
        self._incrementing = self._column(pipeline, "incrementing", _WHOLE, "whole numbers")
        self._timestamp = self._column(pipeline, "timestamp", (T.TimestampType,), "times")
        if self._position is not None:
            read_by = (self._position.incrementing is not None, self._position.timestamp_us is not None)
            if read_by != (self._incrementing is not None, self._timestamp is not None):
                raise pipeline.wrong(
                    ("source",), f"{spool} was read by other columns so far: another spool begins anew"
                )

    def poll(self) -> int:
        """Write what is new as the stream's next file; how many rows there were."""
        new = self._spool.begin()
        self._above().coalesce(1).write.option("maxRecordsPerFile", 0).parquet(new)  # one file, whatever is set
        count, incrementing, timestamp_us = self._end_of(self._spark.read.schema(self.schema).parquet(new))
        if count:
            number = 0 if self._position is None else self._position.number + 1
            self._position = Position(number, incrementing, timestamp_us)
            self._spool.end(self._position)
        return count

    def _above(self) -> DataFrame:
        """The rows above the position: by the database as far as it can tell, and then exactly."""
        df = jdbc_reader(self._spark, self._source, self._until_now()).load()
        names = [name for name in (self._incrementing, self._timestamp) if name is not None]
        for name in names:
            df = df.filter(record.field(name).isNotNull())
        position = self._position
        if position is None:
            return df
        if self._timestamp is None:
            assert self._incrementing is not None, "there is a column"
            assert position.incrementing is not None, "the position was compared"
            return df.filter(self._is_above(position.incrementing))
        assert position.timestamp_us is not None, "likewise"
        last = F.timestamp_micros(F.lit(position.timestamp_us))
        df = df.filter(record.field(self._timestamp) >= last)
        # A database may know more digits of a time than Spark: by those a row would be above itself for ever.
        time = F.unix_micros(record.field(self._timestamp))
        is_above = time > position.timestamp_us
        if position.incrementing is not None:
            is_above |= (time == position.timestamp_us) & self._is_above(position.incrementing)
        return df.filter(is_above)

    def _end_of(self, df: DataFrame) -> tuple[int, int | None, int | None]:
        """How many rows, and the last of their values; of rows of the last time, where there are both."""
        none = F.lit(None)
        time = none.cast("bigint") if self._timestamp is None else F.unix_micros(record.field(self._timestamp))
        number = none.cast("bigint") if self._incrementing is None else record.field(self._incrementing)
        found = df.agg(F.count("*"), F.max(F.struct(time.alias("time"), number.alias("number")))).first()
        assert found is not None, "a sum has a row"
        count, last = found
        if not count:
            return 0, None, None
        return count, None if last.number is None else int(last.number), last.time

    def _is_above(self, number: int) -> Column:
        """In the column's own type, without which Spark would not leave it to the database."""
        assert self._incrementing is not None, "asked only where there is one"
        type_ = self.schema[self._incrementing].dataType
        return record.field(self._incrementing) > F.lit(str(number)).cast(type_)

    def _until_now(self) -> str | None:
        """The table as the database has it up to its own now, which no row of later has; None without times."""
        if self._timestamp is None:
            return None
        jvm = getattr(self._spark, "_jvm", None)
        if jvm is None:
            raise PipelineError("a source jdbc by times needs a Spark that runs here, and not one over Spark Connect")
        options = self._source.options
        dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(options["url"])
        table = options["table"] if "table" in options else f"({options['query']}) ottla_rows"
        return (
            f"(SELECT * FROM {table} WHERE {dialect.quoteIdentifier(self._timestamp)} < CURRENT_TIMESTAMP) ottla_past"
        )

    def _column(self, pipeline: Pipeline, option: str, types: tuple[type[T.DataType], ...], what: str) -> str | None:
        """The column that an option names, as the database spells it."""
        asked = self._source.options.get(option)
        if asked is None:
            return None
        known = {field.name.lower(): field for field in self.schema.fields}
        field = known.get(asked.lower())
        if field is None:
            raise pipeline.wrong(
                ("source", option), f"there is no column {asked}: {nearest(asked, self.schema.fieldNames())}"
            )
        type_ = field.dataType
        if not isinstance(type_, types) or (isinstance(type_, T.DecimalType) and type_.scale != 0):
            raise pipeline.wrong(("source", option), f"{asked} is {type_.simpleString()}, and {what} are needed")
        return field.name

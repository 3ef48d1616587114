"""`TopologyTestDriver`: a topology on Spark without a broker, with records and times of your choosing.

The driver runs the very plan that `Topology.start` runs, through the same compiler, on topics that are directories of
small files. It has no interpreter of its own: functions of Columns mean what Spark makes of them, and a second meaning
could only be a wrong one. A batch takes some tenths of a second, so pipe in what belongs together, then read.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.compiler.queries import Compiled, Compiler
from ottla.pipelines.streams.graph import GlobalSource, Topology
from ottla.pipelines.streams.handlers import ErrorHandling, told
from ottla.pipelines.streams.patience import started
from ottla.pipelines.streams.planning import plan
from ottla.pipelines.streams.running import PROVIDER, ROCKSDB
from ottla.pipelines.streams.stores import Serde, serde
from ottla.records import murmur2

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
Headers = tuple[tuple[str, bytes | None], ...]


class _Piped(NamedTuple):
    """A record on its way into a topic."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers = ()


class OutputRecord(NamedTuple):
    """A record read from an output topic. Windowed keys are a `Windowed`."""

    key: Any
    value: Any


class FullRecord(NamedTuple):
    """A record read from an output topic, with all that it has."""

    key: Any
    value: Any
    headers: Headers
    timestamp_ms: int


class Windowed(NamedTuple):
    """A key with its window's start and, for sessions, its end."""

    key: Any
    start_ms: int
    end_ms: int | None = None


class TopologyTestDriver:
    """Runs a topology without a broker. `with` ends it and removes its files."""

    def __init__(
        self,
        topology: Topology,
        spark: SparkSession,
        *,
        partitions: int = 1,
        now_ms: int = 0,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self._topology = topology
        self._spark = spark
        self._partitions = partitions
        self._handling = ErrorHandling.of(config)
        self.now_ms = now_ms
        """The time that records get which are piped in without one."""
        self._home = Path(tempfile.mkdtemp(prefix="ottla-topology-"))
        self._topics = _DirectoryTopics(spark, self._home / "topics")
        self._ends: dict[tuple[str, int], itertools.count[int]] = {}
        self._written: dict[str, list[_Piped]] = {}
        self._piped: dict[str, list[_Piped]] = {}
        self._compiled: list[Compiled] = []
        self._queries: list[StreamingQuery] = []

    def __enter__(self) -> TopologyTestDriver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def input_topic(self, name: str, *, key: str = "string", value: str = "string") -> TestInputTopic:
        """A topic to pipe records into; `json` values are dictionaries."""
        return TestInputTopic(self, name, serde(key), serde(value))

    def output_topic(
        self, name: str, *, key: str = "string", value: str = "string", windows: str | None = None
    ) -> TestOutputTopic:
        """A topic to read records from; `windows` is `time` or `session` for windowed keys."""
        if windows not in (None, "time", "session"):
            raise PipelineError(f"windowed keys are of time or session windows, not {windows!r}")
        return TestOutputTopic(self, name, serde(key), serde(value), windows)

    def advance_time(self, milliseconds: int) -> None:
        """Moves the driver's time on."""
        self.now_ms += milliseconds

    def pipe(
        self, topic: str, records: Iterable[tuple[bytes | None, bytes | None, int | None]], *, headers: Headers = ()
    ) -> None:
        """Pipes records of bytes in, all with these headers; they are worked on when something is read."""
        piped = self._piped.setdefault(topic, [])
        piped += [_Piped(key, value, self.now_ms if at is None else at, headers) for key, value, at in records]

    def process(self) -> None:
        """Works off what was piped in, from the first query to the last."""
        from pyspark.errors import StreamingQueryException

        piped, self._piped = self._piped, {}
        for topic, records in piped.items():
            self._append(topic, records)
        if not self._compiled:
            self._compile()
        for query in self._queries:
            try:
                query.processAllAvailable()
            except StreamingQueryException as failure:
                raise told(failure) from failure
        # One after the other: each begins with a Python process of its own, and waits for it ten seconds at most.
        for compiled in self._compiled[len(self._queries) :]:
            self._queries.append(started(partial(self._run, compiled), lambda query: query.processAllAvailable()))

    def take(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """What the topology wrote to a topic since it was last asked: keys and values."""
        return [(record.key, record.value) for record in self.take_records(topic)]

    def take_records(self, topic: str) -> list[_Piped]:
        """As `take`, with times and headers."""
        self.process()
        return self._written.pop(topic, [])

    def close(self) -> None:
        """Stops the queries and removes the driver's files."""
        for query in self._queries:
            query.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    def _compile(self) -> None:
        self._spark.conf.set(PROVIDER, ROCKSDB)
        for node in self._topology.nodes.values():
            if isinstance(node.work, GlobalSource):
                self._topics.directory(node.work.topic)
        compiler = Compiler(self._topology, self._topics, self._partitions, self._handling)
        self._compiled = [compiler.compile(query) for query in plan(self._topology)]

    def _run(self, compiled: Compiled) -> StreamingQuery:
        def keep(batch: DataFrame, batch_id: int) -> None:
            rows: dict[str, list[_Piped]] = {}
            for row in batch.collect():
                given = row.headers if "headers" in batch.columns else None
                headers = tuple((one.key, _bytes(one.value)) for one in given or ())
                time_ms = self.now_ms if row.timestamp is None else row.timestamp
                rows.setdefault(row.topic, []).append(_Piped(_bytes(row.key), _bytes(row.value), time_ms, headers))
            for topic, records in rows.items():
                self._written.setdefault(topic, []).extend(records)
                self._append(topic, records)

        writer = compiled.rows.writeStream.foreachBatch(keep).outputMode("update" if compiled.updates else "append")
        return writer.option("checkpointLocation", str(self._home / compiled.query.name)).start()

    def _append(self, topic: str, records: Sequence[_Piped]) -> None:
        rows = []
        for key, value, timestamp_ms, headers in records:
            partition = _partition(key, self._partitions)
            end = self._ends.setdefault((topic, partition), itertools.count())
            pairs = [{"key": name, "value": content} for name, content in headers] or None
            rows.append((key, value, topic, partition, next(end), timestamp_ms, pairs))
        if rows:
            self._topics.append(topic, rows)


class TestInputTopic:
    """A topic that records are piped into."""

    __test__ = False

    def __init__(self, driver: TopologyTestDriver, name: str, key: Serde, value: Serde) -> None:
        self._driver = driver
        self._name = name
        self._key = key
        self._value = value

    def pipe_input(self, key: Any, value: Any, timestamp_ms: int | None = None, *, headers: Headers = ()) -> None:
        """Pipes a record in, of the driver's time unless told."""
        encoded = (None if key is None else self._key.encode(key), None if value is None else self._value.encode(value))
        self._driver.pipe(self._name, [(*encoded, timestamp_ms)], headers=headers)

    def pipe_values(self, values: Iterable[Any], *, timestamp_ms: int | None = None) -> None:
        """Pipes records without keys in."""
        for value in values:
            self.pipe_input(None, value, timestamp_ms)


class TestOutputTopic:
    """A topic that records are read from, each one once."""

    __test__ = False

    def __init__(self, driver: TopologyTestDriver, name: str, key: Serde, value: Serde, windows: str | None) -> None:
        self._driver = driver
        self._name = name
        self._key = key
        self._value = value
        self._windows = windows

    def read_records(self) -> list[OutputRecord]:
        """What came since the last reading, in order."""
        return [OutputRecord(self._decoded(key), self._shown(value)) for key, value in self._driver.take(self._name)]

    def read_full_records(self) -> list[FullRecord]:
        """As `read_records`, with headers and times."""
        return [
            FullRecord(self._decoded(one.key), self._shown(one.value), one.headers, one.timestamp_ms)
            for one in self._driver.take_records(self._name)
        ]

    def read_values(self) -> list[Any]:
        """The values of what came."""
        return [record.value for record in self.read_records()]

    def read_to_map(self) -> dict[Any, Any]:
        """The last value of each key of what came."""
        return {record.key: record.value for record in self.read_records()}

    def _shown(self, value: bytes | None) -> Any:
        return None if value is None else self._value.decode(value)

    def _decoded(self, key: bytes | None) -> Any:
        if key is None or self._windows is None:
            return None if key is None else self._key.decode(key)
        if self._windows == "time":
            return Windowed(self._key.decode(key[:-8]), int.from_bytes(key[-8:]))
        return Windowed(self._key.decode(key[:-16]), int.from_bytes(key[-8:]), int.from_bytes(key[-16:-8]))


class _DirectoryTopics:
    """Topics as directories of Parquet files, one for each time records were added."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self._spark = spark
        self._home = home
        self._files = itertools.count()

    def directory(self, topic: str) -> Path:
        directory = self._home / topic
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def append(self, topic: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Adds rows of the columns of `SCHEMA`."""
        import pyarrow as pa
        from pyarrow import parquet

        names = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
        headers = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
        kinds = (pa.binary(), pa.binary(), pa.string(), pa.int32(), pa.int64(), pa.timestamp("ms", tz="UTC"), headers)
        columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
        number = next(self._files)
        half = self.directory(topic) / f"_{number}.parquet"
        parquet.write_table(pa.table(dict(zip(names, columns, strict=True))), half)
        half.rename(half.with_name(f"{number:09d}.parquet"))  # Spark passes over names that begin with _

    def read_stream(
        self, topics: Sequence[str], columns: Sequence[str], *, pattern: str | None = None, reset: str | None = None
    ) -> DataFrame:
        """All of it whatever `reset` says: a driver's topics are empty when it begins."""
        if pattern is not None:
            self._home.mkdir(exist_ok=True)
            reader = self._spark.readStream.schema(SCHEMA).option("recursiveFileLookup", True)
            return reader.parquet(str(self._home)).where(_matches(pattern)).select(*columns)
        frames = [
            self._spark.readStream.schema(SCHEMA).parquet(str(self.directory(topic))).select(*columns)
            for topic in topics
        ]
        frame = frames[0]
        for other in frames[1:]:
            frame = frame.unionByName(other)
        return frame

    def read_all(self, topic: str) -> DataFrame:
        return self._spark.read.schema(SCHEMA).parquet(str(self.directory(topic)))


def _bytes(value: bytearray | bytes | None) -> bytes | None:
    return None if value is None else bytes(value)


def _matches(pattern: str) -> Column:
    from pyspark.sql import functions as F

    return F.col("topic").rlike(f"^(?:{pattern})$")


def _partition(key: bytes | None, partitions: int) -> int:
    return 0 if key is None else (murmur2(key) & 0x7FFF_FFFF) % partitions

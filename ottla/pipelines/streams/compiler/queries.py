"""A query of the plan as one DataFrame: rows of `topic`, `key`, `value` and `timestamp`, ready for a sink.

The timestamp, in milliseconds, is what Kafka Streams would give: a record's own, the latest of an aggregate, the later
one of a join. In the application's own topics and changelogs it is null, the time of writing: what reads them finds the
record's time in the value, and needs no topic that expires by it.

Where nothing is remembered on the way, rows have the `headers` of the record they come from as well.

A root's results may end in several topics. Reading and remembering is done once: each row is given once to each path,
and carries which one, so a query stays one query with one sink and one transaction a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StringType, StructType

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams import handlers
from ottla.pipelines.streams.compiler import checks, roots, steps, times
from ottla.pipelines.streams.compiler.columns import JSON, column, encode, encode_fault, serde_of, text, untext
from ottla.pipelines.streams.compiler.roots import is_built_in
from ottla.pipelines.streams.compiler.state_format import AGGREGATES, StateFormat
from ottla.pipelines.streams.dropping import (
    DESERIALIZATION,
    EXPIRED,
    GLOBAL,
    GLOBAL_KEYLESS,
    INCOMPLETE,
    LATE_RECORDS,
    NEGATIVE_TIME,
    PRODUCTION,
    metric,
)
from ottla.pipelines.streams.graph import (
    REKEYS,
    Aggregate,
    Cogrouping,
    Custom,
    FlatMap,
    ForEach,
    ForeignKeyMatch,
    ForeignKeyResult,
    ForeignKeySubscribe,
    GlobalSource,
    Node,
    Regroup,
    Sink,
    Source,
    StreamJoin,
    StreamTableJoin,
    TableJoin,
    Topology,
)
from ottla.pipelines.streams.handlers import ErrorHandling, Response
from ottla.pipelines.streams.planning import (
    Inflow,
    Outflow,
    Query,
    carries,
    has_state,
    has_state_in_front,
    own_topic,
    remembers,
)
from ottla.pipelines.streams.serdes import Serde
from ottla.pipelines.streams.stores import changelog_topic
from ottla.pipelines.streams.tasks.tables import SIDES
from ottla.pipelines.streams.tasks.task import FINAL, LATE, RESULT, SKIPPED
from ottla.pipelines.streams.tasks.versions import History
from ottla.pipelines.streams.windows import SessionWindows, Windows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


CHILD = "child"
"""Which of its children a processor has forwarded a record to."""


class Topics(Protocol):
    """Where topics are: a cluster, or a test driver's directory."""

    def read_stream(
        self, topics: Sequence[str], columns: Sequence[str], *, pattern: str | None = None, reset: str | None = None
    ) -> DataFrame:
        """Records of topics as they come, with Kafka's columns; with a pattern, of all whose names match it.

        `reset` is where a first start begins, if not where the start says.
        """

    def read_all(self, topic: str) -> DataFrame:
        """All records that a topic has when a batch begins."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The types of a root's results, for who reads them from the root's topic."""

    key: DataType
    value: DataType
    windows: Windows | None


@dataclass(frozen=True, slots=True)
class Compiled:
    """A query: its rows, whether Spark has to run it in update mode, and the topics it writes to."""

    query: Query
    rows: DataFrame
    updates: bool
    writes: tuple[str, ...]
    names_topics: bool = False
    """Whether there are topics that only its rows know."""
    types: dict[str, str] = field(default_factory=dict)
    """The types of what its state keeps, by what it is: only Spark knows them."""


@dataclass(slots=True)
class Compiler:
    """Compiles the queries of one topology, in their order."""

    topology: Topology
    topics: Topics
    tasks: int
    handling: ErrorHandling = field(default_factory=ErrorHandling)
    state_format: StateFormat | None = None
    """The newest one unless told."""
    shapes: dict[str, Shape] = field(default_factory=dict)
    _dead_letters: list[DataFrame] = field(default_factory=list)
    """Of the query that is being compiled."""
    _values: list[DataType] = field(default_factory=list)
    """The types of the values that its sides take."""
    _counted: set[str] = field(default_factory=set)
    """The metrics of what nodes drop that a query counts."""

    def compile(self, query: Query) -> Compiled:
        """One query. Those whose results it reads must have been compiled before."""
        self._dead_letters = []
        results, windows, updates = self._root(query)
        if updates and has_state_in_front(query):
            raise PipelineError(
                f"{query.identity} gives updates, before which Spark has no other step with state, and its source "
                "needs one, for partition times or a versioned table: put .repartition() between them"
            )
        self.shapes[query.root.name] = Shape(results.schema["key"].dataType, results.schema["value"].dataType, windows)
        rows = self._ends(query, results, windows)
        if self._dead_letters and "headers" not in rows.columns:
            rows = rows.withColumn("headers", F.lit(None).cast(checks.HEADERS))
        for dead in self._dead_letters:
            rows = rows.unionByName(dead)
        topics = tuple(writes(self.topology, query, self.handling))
        return Compiled(query, rows, updates, topics, names_topics(query), self._types(query))

    def _types(self, query: Query) -> dict[str, str]:
        if not has_state(query) or isinstance(query.work, Custom):
            return {}
        shape = self.shapes[query.root.name]
        found = {"key type": shape.key.simpleString()}
        match query.work:
            case Aggregate() | Regroup():
                found["value type"] = shape.value.simpleString()
            case StreamJoin() | TableJoin() | ForeignKeyMatch():
                found |= {f"{side} type": kind.simpleString() for side, kind in zip(SIDES, self._values, strict=True)}
            case StreamTableJoin():  # of the stream nothing is kept
                found["right type"] = self._values[1].simpleString()
        return found

    # --- in front of the root

    def _inflow(self, query: Query, inflow: Inflow, columns: Sequence[str]) -> DataFrame:
        origin = inflow.origin
        if isinstance(origin.work, Source):
            wanted = columns
            if times.needs_places(origin.work.timestamp) or origin.work.history_ms is not None:
                wanted = tuple(dict.fromkeys((*columns, *checks.PLACES)))
            records = self._source(origin, origin.work, wanted)
            key, value, timestamp = F.col("key"), F.col("value"), F.unix_millis("timestamp")
        else:
            shape = self.shapes[origin.name]
            records = self.topics.read_stream([own_topic(self.topology, origin)], columns, reset="earliest")
            key = untext(F.col("key").cast("string"), "key", shape.key)
            body = StructType().add("value", shape.value).add("timestamp", LongType())
            if isinstance(origin.work, Custom):
                body = body.add(CHILD, StringType())
            records = records.withColumn("_body", F.from_json(F.col("value").cast("string"), body, JSON))
            if isinstance(origin.work, Custom):
                child = inflow.steps[0].name if inflow.steps else query.root.name
                records = records.where(_is_for(child, F.col(f"_body.{CHILD}")))
            value, timestamp = F.col("_body.value"), F.col("_body.timestamp")
        made = {"key": key, "value": value, "timestamp": timestamp, "seq": F.lit(0).cast("bigint")}
        frame = records.withColumns(made)
        if isinstance(origin.work, Source):
            frame = self._timed(query, origin, origin.work, frame)
        others = [name for name in columns if name not in made]
        frame = frame.select("key", "value", "timestamp", *others, "seq")
        return steps.apply(frame, inflow.steps, self._table, self._lacking)

    def _source(self, node: Node, work: Source, columns: Sequence[str]) -> DataFrame:
        """The records of topics, decoded."""
        if checks.can_fail(work.key, work.value):
            columns = tuple(dict.fromkeys((*columns, *checks.PLACES)))
            if self.handling.dead_letter_topic is not None:
                columns = tuple(dict.fromkeys((*columns, "headers")))
        records = self.topics.read_stream(work.topics, columns, pattern=work.pattern, reset=work.reset)
        good, dead = checks.decoded(records, work.key, work.value, self.handling, self._counter(node, DESERIALIZATION))
        if dead is not None:
            self._dead_letters.append(dead)
        return good

    def _timed(self, query: Query, node: Node, work: Source, frame: DataFrame) -> DataFrame:
        """The records of topics with the times that the source's extractor gives them."""
        task = self._format.grouped_by(F.col("partition")) if has_state_in_front(query) else None
        frame = times.timed(frame, work.timestamp, work.reads, task, self._counter(node, NEGATIVE_TIME))
        if work.table:  # a row without a key is none, as in Kafka Streams
            frame = self._with_key(frame, node, INCOMPLETE)
        if work.history_ms is None:
            return frame
        assert task is not None, "what has a history has a task for each partition"
        history = History(work.history_ms, newest_only=isinstance(query.work, _OF_NEWEST_ROWS))
        return times.of_history(frame, history, task, self._counter(node, EXPIRED))

    def _with_key(self, frame: DataFrame, node: Node, why: str) -> DataFrame:
        there = F.col("key").isNotNull()
        return self._lacking(frame, node, ~there, why).where(there)

    def _lacking(self, frame: DataFrame, node: Node, lacks: Column, why: str = INCOMPLETE) -> DataFrame:
        """A frame of which Spark counts the rows that a node drops; on a shared frame, those of its path."""
        counter = self._counter(node, why)
        if counter is None:
            return frame
        alive = F.col("_alive") if "_alive" in frame.columns else F.lit(True)
        return checks.counted(frame, counter, F.when(alive & lacks, F.lit("")))

    def _counter(self, node: Node, why: str) -> str | None:
        """The metric of what a node drops, for the first who asks: a source may be read by several queries."""
        name = metric(why, self.topology.application, node.name)
        if name in self._counted:
            return None
        self._counted.add(name)
        return name

    def _input(self, query: Query, side: tuple[Inflow, ...], columns: Sequence[str]) -> DataFrame:
        frames = [self._inflow(query, inflow, columns) for inflow in side]
        frame = frames[0]
        for other in frames[1:]:
            frame = frame.unionByName(other)
        return frame

    def _table(self, name: str) -> DataFrame:
        """The rows of a global table, latest by key."""
        node = self.topology.nodes[name]
        work = node.work
        assert isinstance(work, GlobalSource)
        records = self._with_key(self.topics.read_all(work.topic), node, GLOBAL_KEYLESS)
        records = records.select("key", "value", F.lit(work.topic).alias("topic"), "partition", "offset")
        # The topic is read again with each micro-batch, so nothing of it becomes a dead letter.
        handling = replace(self.handling, dead_letter_topic=None)
        decoded = partial(checks.decoded, key=work.key, value=work.value, handling=handling)
        if handling.deserialization is Response.CONTINUE:  # what cannot be read does not hide the row before it
            records, _ = decoded(records, counter=self._counter(node, GLOBAL))
        kept = F.struct("value", *checks.PLACES)
        latest = records.groupBy("key").agg(F.max_by(kept, "offset").alias("_latest")).select("key", "_latest.*")
        if handling.deserialization is Response.FAIL:
            latest, _ = decoded(latest, counter=None)
        return latest.select("key", "value").where(F.col("value").isNotNull())

    # --- the root

    def _root(self, query: Query) -> tuple[DataFrame, Windows | None, bool]:
        """A root's results, their windows, and whether they are updates in Spark's sense."""
        work = query.work
        plain = _is_plain(query)
        columns: tuple[str, ...] = ("key", "value", "timestamp")
        if isinstance(work, _NEED_PLACES) and not plain:
            columns += ("topic", "partition", "offset")
        if not remembers(query) or isinstance(work, Custom):
            columns += ("headers",)
        inputs = [self._input(query, side, columns) for side in query.inputs]
        self._values = [frame.schema["value"].dataType for frame in inputs]
        tasks = [self._task(query) for _ in inputs]
        match work:
            case Aggregate():
                finals = work.final or any(flow.final for flow in query.outflows)
                updates = not work.final and (
                    query.root.has_named_store or not all(flow.final for flow in query.outflows)
                )
                if isinstance(work.aggregation, Cogrouping):
                    results = roots.cogroup(inputs, work, tasks, updates=updates, finals=finals)
                else:
                    built_in = plain and not work.of_table
                    if built_in:
                        lacks = F.col("key").isNull() | F.col("value").isNull()
                        inputs[0] = self._lacking(inputs[0], query.root, lacks)
                    results = roots.aggregate(
                        inputs[0], work, tasks[0], updates=updates, finals=finals, built_in=built_in
                    )
                if "kind" in results.columns:
                    results = self._told(query, results)
                return results, work.windows, plain
            case Regroup():
                return roots.regroup(inputs[0], work, tasks[0]), None, False
            case StreamJoin():
                told = partial(self._told, query)
                return roots.stream_join(inputs[0], inputs[1], work, (tasks[0], tasks[1]), told), None, False
            case StreamTableJoin():
                tables = [inflow.origin.work for inflow in query.inputs[1]]
                history_ms = next((table.history_ms for table in tables if isinstance(table, Source)), None)
                told = partial(self._told, query)
                results = roots.stream_table_join(inputs[0], inputs[1], work, (tasks[0], tasks[1]), history_ms, told)
                return results, None, False
            case TableJoin() if self._format.version == AGGREGATES:
                return roots.aggregated_table_join(inputs[0], inputs[1], work), None, True
            case TableJoin():
                return roots.table_join(inputs[0], inputs[1], work, (tasks[0], tasks[1])), None, False
            case ForeignKeySubscribe(foreign_key=foreign_key):
                return roots.subscribe(inputs[0], foreign_key, tasks[0]), None, False
            case ForeignKeyMatch(kind=kind):
                last_words = self._format.version != AGGREGATES
                results = roots.match(inputs[0], inputs[1], kind, (tasks[0], tasks[1]), last_words=last_words)
                return results, None, False
            case ForeignKeyResult(joiner=joiner) if self._format.version == AGGREGATES:
                return roots.aggregated_foreign_key_result(inputs[0], joiner), None, True
            case ForeignKeyResult(joiner=joiner):
                return roots.foreign_key_result(inputs[0], joiner, tasks[0]), None, False
            case Custom(operator=operator):
                records = inputs[0].withColumn("timestamp", F.timestamp_millis("timestamp"))
                children = [child.name for child in self.topology.children(query.root.name)]
                results = operator.transform(records, children=children)
                return results.withColumn("timestamp", F.unix_millis("timestamp")), None, True
        origin = query.inputs[0][0].origin
        known = self.shapes.get(origin.name)
        keeps = len(query.inputs[0]) == 1 and not _rekeys(query.inputs[0][0].steps)
        return inputs[0], known.windows if known is not None and keeps else None, False

    def _told(self, query: Query, results: DataFrame) -> DataFrame:
        """A task's results, of which Spark counts what was dropped; late records with a topic of their own are not."""
        work = query.work
        dropped = {INCOMPLETE: SKIPPED, LATE_RECORDS: LATE}
        if isinstance(work, Aggregate) and work.late_topic is not None:
            del dropped[LATE_RECORDS]
        for why, kind in dropped.items():
            name = metric(why, self.topology.application, query.root.name)
            results = checks.counted(results, name, F.when(F.col("kind") == kind, F.lit("")))
        return results

    @property
    def _format(self) -> StateFormat:
        return self.state_format or StateFormat.of_new(self.tasks)

    def _task(self, query: Query) -> Column:
        """Which task a record belongs to, as it is grouped: its partition's, or by its key where keys have moved."""
        if all(inflow.keeps_partitions for side in query.inputs for inflow in side):
            return self._format.grouped_by(F.col("partition"))
        number = F.pmod(F.xxhash64(F.coalesce(text(F.col("key"), "key"), F.lit(""))), F.lit(self.tasks))
        return self._format.grouped_by(number)

    # --- behind the root

    def _ends(self, query: Query, results: DataFrame, windows: Windows | None) -> DataFrame:
        ends = [self._end(query, flow, windows) for flow in query.outflows]
        ends += self._side_ends(query, windows)
        if "seq" not in results.columns:
            results = results.withColumn("seq", F.lit(0).cast("bigint"))
        if "headers" not in results.columns and self.handling.production_dead_letters():
            results = results.withColumn("headers", F.lit(None).cast(checks.HEADERS))
        if len(ends) == 1:
            only = ends[0]
            frame = results if only.which is None else results.where(only.which)
            return only.build(frame)
        saved = [f"_root_{name}" for name in results.columns]
        frame = results.toDF(*saved).withColumn("_path", F.explode(F.array(*map(F.lit, range(len(ends))))))
        for index, one in enumerate(ends):
            frame = self._path(frame, results.columns, index, one)
        paths = range(len(ends))
        picked = frame.where(_by_path("alive", paths))
        return picked.select(*(_by_path(name, paths).alias(name) for name in _written(results)))

    def _path(self, frame: DataFrame, names: list[str], index: int, end: _End) -> DataFrame:
        """One path of several, on the frame that all share: worked out for its own rows only."""
        own = frame.withColumns({name: F.col(f"_root_{name}") for name in names})
        alive = F.col("_path") == index
        own = own.withColumn("_alive", alive if end.which is None else alive & F.coalesce(end.which, F.lit(False)))
        kept = [name for name in frame.columns if name.startswith(("_root_", "_path"))]
        built = end.build(own, keep=[*kept, "_alive"])
        renamed = {name: f"_path_{name}_{index}" for name in _written(own)}
        return built.withColumnsRenamed({**renamed, "_alive": f"_path_alive_{index}"})

    def _end(self, query: Query, flow: Outflow, windows: Windows | None) -> _End:
        kept = None if _rekeys(flow.steps) else windows
        which = _which(query, final=flow.final)
        if which is not None and isinstance(query.work, Custom) and flow.end.name != query.root.name:
            which = which & _is_for(flow.steps[0].name if flow.steps else flow.end.name, F.col(CHILD))
        if carries(flow):
            return _End(self, which, flow.steps, self._own_bytes(flow.end, kept))
        if isinstance(flow.end.work, ForEach):
            work = flow.end.work
            return _End(self, which, flow.steps, lambda frame: (F.lit(""), *_nothing()), finish=work)
        assert isinstance(flow.end.work, Sink)
        return _End(
            self, which, flow.steps, _sink_bytes(flow.end.work, kept), has_time=True, sink=flow.end, windows=kept
        )

    def _own_bytes(self, end: Node, windows: Windows | None) -> Bytes:
        """A row for the queries that read these results; its types are kept for them."""

        def made(frame: DataFrame) -> tuple[Column, Column, Column]:
            self.shapes[end.name] = Shape(frame.schema["key"].dataType, frame.schema["value"].dataType, windows)
            body = F.to_json(F.struct(*(name for name in ("value", "timestamp", CHILD) if name in frame.columns)), JSON)
            key = text(F.col("key"), "key").cast("binary")
            return F.lit(own_topic(self.topology, end)), key, body.cast("binary")

        return made

    def _side_ends(self, query: Query, windows: Windows | None) -> list[_End]:
        """What a root writes beside its results: late records, and its stores' changelogs."""
        ends: list[_End] = []
        application, work = self.topology.application, query.work
        if isinstance(work, Aggregate) and work.late_topic is not None:
            ends.append(_End(self, F.col("kind") == LATE, (), _late_bytes(work.late_topic), has_time=True))
        if isinstance(work, Aggregate) and query.root.has_named_store:
            topic = changelog_topic(application, work.store)
            ends.append(_End(self, _which(query, final=work.final), (), _changelog_bytes(topic, windows)))
        if isinstance(work, Custom) and any(spec.logged for spec in work.operator.stores):
            logged = [spec.name for spec in work.operator.stores if spec.logged]
            ends.append(_End(self, F.col("store").isin(logged), (), _store_bytes(application)))
        return ends


Bytes = Callable[["DataFrame"], tuple["Column", "Column", "Column"]]


@dataclass(frozen=True, slots=True)
class _End:
    """One place where a root's results go: which of them, through which steps, as which bytes."""

    compiler: Compiler
    which: Column | None
    steps: tuple[Node, ...]
    bytes: Bytes
    finish: ForEach | None = None
    has_time: bool = False
    """Whether records keep their time; otherwise it is that of writing."""
    sink: Node | None = None
    """A sink of the topology's, whose records the production handler is for."""
    windows: Windows | None = None

    def build(self, frame: DataFrame, keep: Sequence[str] = ()) -> DataFrame:
        frame = steps.apply(frame, self.steps, self.compiler._table, self.compiler._lacking)
        if self.finish is not None:
            frame = steps.end(frame, self.finish)
        topic, key, value = self.bytes(frame)
        # A time before 1970 is none: Kafka has records without one, of -1.
        timestamp = F.when(F.lit(self.has_time) & (F.col("timestamp") >= 0), F.col("timestamp"))
        columns = {"topic": topic, "key": key, "value": value, "timestamp": timestamp, "headers": F.col("headers")}
        written = _written(frame)
        if self.sink is not None:
            assert isinstance(self.sink.work, Sink)
            faults = _sink_faults(frame, self.sink.work, self.windows)
            name = metric(PRODUCTION, self.compiler.topology.application, self.sink.name)
            frame, columns = checks.produced(frame, columns, faults, self.compiler.handling, name)
        return frame.select(*keep, *(columns[name].alias(name) for name in written))


def _written(frame: DataFrame) -> list[str]:
    """The columns of the rows that a frame is written as."""
    return ["topic", "key", "value", "timestamp", *(name for name in ("headers",) if name in frame.columns)]


_NEED_PLACES = (
    Aggregate,
    Regroup,
    StreamJoin,
    StreamTableJoin,
    TableJoin,
    ForeignKeySubscribe,
    ForeignKeyMatch,
    ForeignKeyResult,
    Custom,
)


def names_topics(query: Query) -> bool:
    """Whether records of it name the topic that they are written to."""
    ends = [flow.end.work for flow in query.outflows]
    return any(isinstance(end, Sink) and end.extractor is not None for end in ends)


_OF_NEWEST_ROWS = (Regroup, TableJoin, ForeignKeySubscribe, ForeignKeyMatch)
"""What knows of a table no more than its rows: a change that is not the newest of its row is none (KIP-914)."""


def writes(topology: Topology, query: Query, handling: ErrorHandling) -> list[str]:
    """The topics a query writes to, as far as they are known before their records."""
    topics = [own_topic(topology, flow.end) for flow in query.outflows if carries(flow)]
    sinks = [flow.end.work for flow in query.outflows if isinstance(flow.end.work, Sink)]
    topics += [sink.topic for sink in sinks if sink.extractor is None]
    if isinstance(query.work, Aggregate) and query.work.late_topic is not None:
        topics.append(query.work.late_topic)
    topics += [changelog_topic(topology.application, name) for name in logged_stores(query)]
    if handling.dead_letter_topic is not None and handling.writes_dead_letters():
        topics.append(handling.dead_letter_topic)
    return sorted(set(topics))


def logged_stores(query: Query) -> list[str]:
    """The stores whose changes a query writes to their changelogs."""
    if isinstance(query.work, Custom):
        return [spec.name for spec in query.work.operator.stores if spec.logged]
    return [query.work.store] if isinstance(query.work, Aggregate) and query.root.has_named_store else []


def _is_plain(query: Query) -> bool:
    """Whether it is an aggregate that Spark has, which gives updates and so stands behind no other step with state."""
    return isinstance(query.work, Aggregate) and is_built_in(query.work) and not has_state_in_front(query)


def _which(query: Query, *, final: bool = False) -> Column | None:
    """Which rows of a root are its results."""
    if isinstance(query.work, Custom):
        return F.col("store").isNull()
    if isinstance(query.work, Aggregate) and not _is_plain(query):
        return F.col("kind") == (FINAL if final else RESULT)
    return None


def _sink_bytes(work: Sink, windows: Windows | None) -> Bytes:
    def made(frame: DataFrame) -> tuple[Column, Column, Column]:
        value = encode(work.value or serde_of(frame.schema["value"].dataType), F.col("value"))
        return _sink_topic(frame, work), key_bytes(frame, work.key, windows), value

    return made


def _sink_topic(frame: DataFrame, work: Sink) -> Column:
    """The topic of each row of a sink."""
    if work.extractor is None:
        return F.lit(work.topic)
    alive = F.col("_alive") if "_alive" in frame.columns else None
    named = column(work.extractor, "timestamp", "key", "value", alive=alive)
    kind = frame.select(named.alias("topic")).schema["topic"].dataType
    if not isinstance(kind, StringType):
        raise PipelineError(f"a topic's name is a string, and the extractor gives {kind.simpleString()}")
    failed, _ = handlers.FAILED[handlers.PRODUCTION]
    error = F.raise_error(F.lit(f"{failed}: the topic-name extractor gave a record no topic"))
    missing = named.isNull() if alive is None else alive & named.isNull()
    return F.when(missing, error.cast("string")).otherwise(named)


def _sink_faults(frame: DataFrame, work: Sink, windows: Windows | None) -> list[tuple[Column, str]]:
    """Which rows a sink's serdes cannot write, by the bytes in `_key` and `_value`, and why."""
    faults = []
    for name, serde in (("key", work.key), ("value", work.value)):
        kind, given = frame.schema[name].dataType, F.col(name)
        if name == "key" and windows is not None:
            assert isinstance(kind, StructType)
            kind, given = kind["key"].dataType, F.col("key.key")
        found = encode_fault(serde or serde_of(kind), kind, given, F.col(f"_{name}"))
        if found is not None:
            faults.append((found[0], f"the {name} cannot be serialised: {found[1]}"))
    return faults


def _changelog_bytes(topic: str, windows: Windows | None) -> Bytes:
    def made(frame: DataFrame) -> tuple[Column, Column, Column]:
        key = key_bytes(frame, None, windows)
        if windows is not None and not isinstance(windows, SessionWindows):
            key = F.concat(key, F.unhex(F.lit("00000000")))  # a window store's sequence number
        return F.lit(topic), key, encode(serde_of(frame.schema["value"].dataType), F.col("value"))

    return made


def _late_bytes(topic: str) -> Bytes:
    def made(frame: DataFrame) -> tuple[Column, Column, Column]:
        windowed = frame.schema["key"].dataType
        assert isinstance(windowed, StructType)
        key = encode(serde_of(windowed["key"].dataType), F.col("key.key"))
        return F.lit(topic), key, encode(serde_of(frame.schema["late"].dataType), F.col("late"))

    return made


def _store_bytes(application: str) -> Bytes:
    def made(frame: DataFrame) -> tuple[Column, Column, Column]:
        topic = F.concat(F.lit(f"{application}-"), F.col("store"), F.lit("-changelog"))
        return topic, F.col("store_key"), F.col("store_value")

    return made


def _is_for(child: str, forwarded_to: Column) -> Column:
    """Whether a record that a processor has forwarded goes to that child, as one without a name goes to all."""
    return F.coalesce(forwarded_to == child, F.lit(True))


def _nothing() -> tuple[Column, Column]:
    return F.lit(None).cast("binary"), F.lit(None).cast("binary")


def key_bytes(frame: DataFrame, serde: Serde | None, windows: Windows | None) -> Column:
    """A key's bytes; a windowed one as Kafka Streams writes it: the key and the window's start, or a session's ends."""
    if windows is None:
        return encode(serde or serde_of(frame.schema["key"].dataType), F.col("key"))
    kind = frame.schema["key"].dataType
    assert isinstance(kind, StructType)
    inner = encode(serde or serde_of(kind["key"].dataType), F.col("key.key"))
    times = ["end", "start"] if isinstance(windows, SessionWindows) else ["start"]
    return F.concat(inner, *(encode(Serde.of("long"), F.col(f"key.{name}")) for name in times))


def _by_path(name: str, paths: range) -> Column:
    chosen = F.when(F.col("_path") == paths[0], F.col(f"_path_{name}_{paths[0]}"))
    for index in paths[1:]:
        chosen = chosen.when(F.col("_path") == index, F.col(f"_path_{name}_{index}"))
    return chosen


def _rekeys(path: tuple[Node, ...]) -> bool:
    """Whether steps give records other keys, so that a window's key is no longer one."""
    works = [node.work for node in path]
    return any(isinstance(work, REKEYS) or (isinstance(work, FlatMap) and not work.values_only) for work in works)

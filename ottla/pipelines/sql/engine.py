"""Statements carried out: what `ottla sql` does with each.

    engine = Engine(Catalog(home), Cluster("localhost:9092", {}))
    for statement in parse(text):
        answer = engine.run(statement)

Promises: Spark is started by the first statement that needs it; a statement that fails changes nothing in the catalog,
and its error is one line; queries that were started run until `close`.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.sql import formats
from ottla.pipelines.sql.catalog import Catalog, Column, Contents, QueryEntry, Source
from ottla.pipelines.sql.cluster import Cluster
from ottla.pipelines.sql.errors import SqlError, SyntaxProblem
from ottla.pipelines.sql.parser import parse
from ottla.pipelines.sql.plan import Plan
from ottla.pipelines.sql.planner import plan
from ottla.pipelines.sql.statements import (
    BatchSelect,
    Change,
    CreateAs,
    CreateSource,
    Describe,
    Drop,
    Explain,
    InsertSelect,
    InsertValues,
    Print,
    PushSelect,
    Query,
    RunScript,
    SetProperty,
    Show,
    Statement,
)
from ottla.pipelines.sql.types import KAFKA_SERDES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.pipelines.streams.graph import Topology
    from ottla.pipelines.streams.running import Running

log = logging.getLogger(__name__)

RESET, REGISTRY = "auto.offset.reset", "schema.registry.url"
PROPERTIES = (RESET, REGISTRY)
KAFKA_TOPIC, KEY_FORMAT, VALUE_FORMAT, FORMAT = "KAFKA_TOPIC", "KEY_FORMAT", "VALUE_FORMAT", "FORMAT"
SOURCE_PROPERTIES = (KAFKA_TOPIC, "TOPIC", KEY_FORMAT, VALUE_FORMAT, FORMAT, "PARTITIONS", "REPLICAS", "TIMESTAMP",
                     "TIMESTAMP_FORMAT")  # fmt: skip
READ_PROPERTIES = (*SOURCE_PROPERTIES, "WINDOW_TYPE", "WINDOW_SIZE")
TAG = "ottla-sql-statement"
QUERY_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,100}")
SCRIPTS_MAX = 10
"""How deep scripts may run scripts."""


@dataclass(slots=True)
class Answer:
    """What a statement gives: rows under columns, or a text, or both. Rows may come without end."""

    text: str | None = None
    columns: tuple[str, ...] = ()
    rows: Iterable[list[Any]] = field(default_factory=list)
    is_endless: bool = False
    """Whether rows are to be shown as they come."""


class Engine:
    """Carries out statements against a catalog and a cluster."""

    def __init__(
        self,
        catalog: Catalog,
        cluster: Cluster,
        *,
        once: bool = False,
        registry: str | None = None,
        session: Callable[[], SparkSession] | None = None,
    ) -> None:
        self.catalog = catalog
        self.cluster = cluster
        self.properties: dict[str, str] = {RESET: "earliest"}
        if registry is not None:
            self.properties[REGISTRY] = registry
        self._once = once
        """Whether queries are over when they have worked off what there is, instead of going on."""
        self._session = session or _session
        self._spark: SparkSession | None = None
        self._running: dict[str, Running] = {}
        self._scripts = 0
        self._cluster_id: str | None = None
        self._interrupted = Event()

    @property
    def running(self) -> list[str]:
        """The queries that this process runs."""
        return list(self._running)

    @property
    def registry(self) -> str | None:
        return self.properties.get(REGISTRY)

    @property
    def is_interrupted(self) -> bool:
        """Whether the statement that runs, or ran last, was interrupted."""
        return self._interrupted.is_set()

    def interrupt(self) -> None:
        """Ends the SELECT, PRINT or INSERT ... VALUES that runs; once more raises KeyboardInterrupt. For a signal's
        handler.

        Spark's jobs are cancelled from a thread of its own: this one may be waiting for an answer of Java, and its
        connection is not free for another question.
        """
        if self._interrupted.is_set():
            raise KeyboardInterrupt
        self._interrupted.set()
        if self._spark is not None:
            context = self._spark.sparkContext
            Thread(target=lambda: context.cancelJobsWithTag(TAG), daemon=True).start()

    @contextmanager
    def _cancellable(self) -> Iterator[None]:
        """Spark's jobs of a statement, told from those of the queries that run."""
        context = self._get_spark().sparkContext
        context.addJobTag(TAG)
        try:
            yield
        finally:
            context.removeJobTag(TAG)

    def run(self, statement: Statement) -> Iterator[Answer]:
        """What a statement gives; RUN SCRIPT gives an answer for each of its own."""
        if isinstance(statement, RunScript):
            yield from self._script(statement)
            return
        self._interrupted.clear()
        try:
            answer = self._run(statement)
        except SqlError:
            raise
        except Exception as error:
            known = _of_spark(error)
            if known is None:
                raise
            raise SqlError(known) from error
        yield answer

    def _run(self, statement: Statement) -> Answer:
        match statement:
            case CreateSource():
                return self._create(statement)
            case CreateAs():
                return self._create_as(statement)
            case InsertSelect():
                return self._insert_select(statement)
            case InsertValues():
                return self._insert_values(statement)
            case PushSelect(query=query):
                assert query is not None, "the parser gives one"
                return self._push(query)
            case BatchSelect():
                return self._select(statement)
            case Show():
                return self._show(statement)
            case Describe():
                return self._describe(statement)
            case Explain():
                return self._explain(statement)
            case Drop():
                return self._drop(statement)
            case Change():
                return self._change(statement)
            case Print(topic=topic):
                rows = self.cluster.records(
                    topic,
                    from_beginning=statement.from_beginning,
                    limit=statement.limit,
                    once=self._once,
                    is_interrupted=lambda: self.is_interrupted,
                )
                return Answer(columns=("ROWTIME", "key", "value", "partition", "offset"), rows=rows, is_endless=True)
            case SetProperty():
                return self._set(statement)
        raise AssertionError(f"{type(statement).__name__} has no one to carry it out")

    def close(self) -> None:
        """Stops the queries; they go on where they were with the next RESUME."""
        for running in self._running.values():
            running.stop()
        self._running.clear()
        self.catalog.end_running()

    def raise_failures(self) -> None:
        """Raises what made a query fail, once; it can be resumed."""
        for query_id, running in list(self._running.items()):
            try:
                running.raise_failure()
            except Exception as error:
                del self._running[query_id]
                said = _of_spark(error) or str(error)
                raise SqlError(f"the query {query_id} has failed: {said}. RESUME {query_id} starts it again") from error

    # --- streams and tables

    def _create(self, statement: CreateSource) -> Answer:
        contents = self.catalog.read()
        if (found := self._existing(contents, statement.name, statement.if_not_exists)) is not None:
            return found
        self._check_cluster(contents)
        source = self._declared(statement)
        made = self.cluster.ensure_topic(
            source,
            partitions=_number(statement.properties, "PARTITIONS"),
            replicas=_number(statement.properties, "REPLICAS"),
        )
        with self._changing() as contents:
            self._existing(contents, source.name, False)  # another process may have been faster
            contents.sources[source.name.lower()] = source
        return Answer(
            f"{source.kind.title()} {source.name} was created" + (f", with its topic {source.topic}." if made else ".")
        )

    def _existing(self, contents: Contents, name: str, if_not_exists: bool) -> Answer | None:
        found = contents.sources.get(name.lower())
        if found is None:
            return None
        if not if_not_exists:
            raise SqlError(
                f"there is a {found.kind.lower()} {found.name} already: DROP it first, or CREATE ... IF NOT EXISTS"
            )
        return Answer(f"{found.kind.title()} {found.name} exists.")

    def _declared(self, statement: CreateSource) -> Source:
        """The stream or table that a CREATE says."""
        given = _properties(statement.properties, READ_PROPERTIES)
        topic = given.get(KAFKA_TOPIC)
        if not topic:
            raise SqlError(f"CREATE {statement.kind} needs WITH (KAFKA_TOPIC = '...'): the topic that has the records")
        value_format = given.get(VALUE_FORMAT) or given.get(FORMAT)
        if value_format is None:
            raise SqlError(f"VALUE_FORMAT is missing: one of {', '.join(formats.VALUE_FORMATS)}")
        value_format = value_format.upper()
        columns = tuple(Column(one.name, one.type, one.is_key) for one in statement.columns)
        if not [one for one in columns if not one.is_key] and value_format in formats.BY_REGISTRY:
            columns += self._registered(topic, value_format)
        keys = [one for one in columns if one.is_key]
        key_format = (given.get(KEY_FORMAT) or given.get(FORMAT) or ("KAFKA" if keys else "NONE")).upper()
        window, size = _window(given)
        source = Source(
            statement.kind, statement.name, topic, columns, key_format, value_format, statement.text,
            timestamp=given.get("TIMESTAMP"), timestamp_format=given.get("TIMESTAMP_FORMAT"), window=window,
            window_size_ms=size,
        )  # fmt: skip
        if source.kind == "TABLE" and not keys:
            raise SqlError(f"the table {source.name} has to have a PRIMARY KEY column: its rows are found by it")
        if window is not None and not keys:
            raise SqlError("WINDOW_TYPE says that keys have windows, and there is no key column")
        return self._checked(source)

    def _checked(self, source: Source) -> Source:
        """A source whose columns its formats can hold, with its time column spelled as it was created."""
        formats.check_key(source.name, source.key_columns, source.key_format)
        formats.check_value(source.name, source.value_columns, source.value_format)
        for one in source.columns:
            if one.name.upper() in ("ROWTIME", "WINDOWSTART", "WINDOWEND", "ROWKEY"):
                raise SqlError(f"{one.name} is what every row has already: give the column another name")
        if source.value_format in formats.BY_REGISTRY and self.registry is None:
            raise SqlError(
                f"{source.value_format} needs a schema registry: --schema-registry URL, or SET '{REGISTRY}' = 'URL'"
            )
        if source.timestamp is None:
            if source.timestamp_format is not None:
                raise SqlError("TIMESTAMP_FORMAT needs TIMESTAMP, the column that it is the form of")
            return source
        column = source.column(source.timestamp)
        if column is None:
            raise SqlError(f"TIMESTAMP names a column: there is no {source.timestamp}")
        wanted = "STRING" if source.timestamp_format is not None else "BIGINT or TIMESTAMP"
        if column.type not in wanted.split(" or "):
            raise SqlError(
                f"TIMESTAMP takes a column that is {wanted}, and {column.name} is {column.type}"
                + (": TIMESTAMP_FORMAT says how text is read" if column.type == "STRING" else "")
            )
        return replace(source, timestamp=column.name)

    def _registered(self, topic: str, value_format: str) -> tuple[Column, ...]:
        """The columns that the registry's latest schema has."""
        from ottla.pipelines.sql.registry_serdes import columns

        if self.registry is None:
            raise SqlError(
                f"{value_format} needs a schema registry: --schema-registry URL, or SET '{REGISTRY}' = 'URL'"
            )
        return tuple(Column(name, kind) for name, kind in columns(topic, value_format, self.registry))

    def _drop(self, statement: Drop) -> Answer:
        with self._changing() as contents:
            if statement.if_exists and statement.name.lower() not in contents.sources:
                return Answer(f"There is no {statement.kind.lower()} {statement.name}.")
            source = contents.source(statement.name)
            if source.kind != statement.kind:
                raise SqlError(f"{source.name} is a {source.kind.lower()}: DROP {source.kind} {source.name}")
            for verb, users in (("reads", contents.readers(source.name)), ("writes", contents.writers(source.name))):
                if users:
                    raise SqlError(f"the query {users[0]} {verb} {source.name}: TERMINATE {users[0]} first")
            del contents.sources[source.name.lower()]
        if statement.delete_topic:
            self.cluster.delete_topics([source.topic])
        return Answer(
            f"{source.kind.title()} {source.name} was dropped"
            + (", with its topic." if statement.delete_topic else ".")
        )

    # --- queries that are kept

    def _create_as(self, statement: CreateAs) -> Answer:
        assert statement.query is not None, "the parser gives one"
        contents = self.catalog.read()
        if statement.name.lower() in contents.sources:
            found = self._existing(contents, statement.name, statement.if_not_exists)
            assert found is not None, "it is there"
            return self._again(contents, contents.source(statement.name), statement) or found
        planned = self._planned(statement.query, contents)
        planned.check_names()
        if planned.kind != statement.kind:
            raise SqlError(
                f"what is selected is a {planned.kind.lower()}, not a {statement.kind.lower()}: CREATE {planned.kind} "
                f"{statement.name} AS SELECT ..."
            )
        given = _properties(statement.properties, SOURCE_PROPERTIES)
        sink = self._checked(self._sink(statement, planned, given))
        partitions = _number(given, "PARTITIONS") or self.cluster.partitions(planned.sources[0].topic)
        return self._keep(statement, planned, sink, f"C{statement.kind[0]}AS", partitions, _number(given, "REPLICAS"))

    def _sink(self, statement: CreateAs, planned: Plan, given: Mapping[str, str]) -> Source:
        """The stream or table that a query makes: with the formats of what it reads, unless it says others."""
        from ottla.pipelines.sql import analysis

        first = planned.sources[0]
        kinds = analysis.types(self._get_spark(), planned)
        columns = [Column(one.name, kind, one.is_key) for one, kind in zip(planned.outputs, kinds, strict=True)]
        keys = [one for one in columns if one.is_key]
        key_format = given.get(KEY_FORMAT) or given.get(FORMAT)
        if key_format is None:
            fits = len(keys) == 1 and keys[0].type in KAFKA_SERDES and first.key_format != "JSON"
            key_format = "NONE" if not keys else "KAFKA" if fits else "JSON"
        values = [one for one in columns if not one.is_key]
        value_format = given.get(VALUE_FORMAT) or given.get(FORMAT)
        if value_format is None:  # KAFKA has one column, which a result that has more cannot inherit
            value_format = "JSON" if first.value_format == "KAFKA" and len(values) != 1 else first.value_format
        if planned.key_names:
            order = {name.lower(): place for place, name in enumerate(planned.key_names)}
            keys.sort(key=lambda one: order.get(one.name.lower(), len(order)))
        window, size = planned.windows or (None, None)
        topic = given.get(KAFKA_TOPIC) or statement.name
        return Source(
            statement.kind, statement.name, topic, (*keys, *values), key_format.upper(), value_format.upper(),
            statement.text, given.get("TIMESTAMP"), given.get("TIMESTAMP_FORMAT"), window, size,
        )  # fmt: skip

    def _again(self, contents: Contents, sink: Source, statement: CreateAs) -> Answer | None:
        """CREATE ... IF NOT EXISTS ... AS SELECT of a query that is there: it goes on."""
        if sink.statement != statement.text:
            raise SqlError(f"{sink.name} was created by another statement: DESCRIBE {sink.name} EXTENDED shows it")
        for query_id in contents.writers(sink.name):
            entry = contents.queries[query_id]
            if entry.statement == statement.text and not self._is_active(entry):
                return self._resume([entry])
        return None

    def _insert_select(self, statement: InsertSelect) -> Answer:
        from ottla.pipelines.sql import analysis

        assert statement.query is not None, "the parser gives one"
        given = _properties(statement.properties, ("QUERY_ID",))
        contents = self.catalog.read()
        named = given.get("QUERY_ID")
        if named is not None and not QUERY_ID.fullmatch(named):
            raise SqlError(f"QUERY_ID has letters, digits, '_' and '-' only, and begins with a letter, not {named!r}")
        if named is not None and named in contents.queries:
            entry = contents.queries[named]
            if entry.statement != statement.text:
                raise SqlError(f"the query {named} is another statement: TERMINATE it, or use another QUERY_ID")
            if self._is_active(entry):
                raise SqlError(f"the query {named} runs already")
            return self._resume([entry])
        sink = contents.source(statement.name)
        planned = self._planned(statement.query, contents)
        planned.check_names()
        if planned.kind == "TABLE" or sink.kind == "TABLE":
            what = sink.name if sink.kind == "TABLE" else "what is selected"
            raise SqlError(f"INSERT INTO ... SELECT is for streams, and {what} is a table: CREATE TABLE ... AS SELECT")
        kinds = analysis.types(self._get_spark(), planned)
        keys = [(one.name.lower(), kind) for one, kind in zip(planned.outputs, kinds, strict=True) if one.is_key]
        wanted = [(one.name.lower(), one.type) for one in sink.key_columns]
        if keys != wanted:
            raise SqlError(
                f"{sink.name} has the key {_listed(wanted)}, and what is selected has {_listed(keys)}: the names and "
                "types have to be the same, PARTITION BY changes the key"
            )
        for one, kind in zip(planned.outputs, kinds, strict=True):
            column = sink.column(one.name)
            if column is None:
                known = ", ".join(column.name for column in sink.columns)
                raise SqlError(f"{sink.name} has no column {one.name}: it has {known}; AS gives another name")
            if column.type != kind or column.is_key != one.is_key:
                raise SqlError(
                    f"{one.name} is {kind} and in {sink.name} {column.type}"
                    + (" as its key" if column.is_key else "")
                    + f": CAST({one.name} AS {column.type})"
                )
        return self._keep(statement, planned, sink, "INSERTQUERY", None, None, query_id=named)

    def _keep(
        self, statement: Statement, planned: Plan, sink: Source, what: str, partitions: int | None,
        replicas: int | None, *, query_id: str | None = None,
    ) -> Answer:  # fmt: skip
        """Writes a query into the catalog and starts it; where it does not start, nothing is left of it."""
        self._check_copartitioned(planned)
        self.catalog.begin_running()
        is_new = what != "INSERTQUERY"
        with self._changing() as contents:
            if is_new:
                self._existing(contents, sink.name, False)  # another process may have been faster
            name = query_id or contents.new_query_id(what, sink.name)
            entry = QueryEntry(
                name, statement.text, sink.name, tuple(one.name for one in planned.sources), self.properties[RESET]
            )
            contents.queries[name] = entry
            if is_new:
                contents.sources[sink.name.lower()] = sink
        made = False
        try:
            made = self.cluster.ensure_topic(sink, partitions=partitions, replicas=replicas)
            self._start(entry, planned.to(sink, self._application(contents, name), self.registry))
        except BaseException:
            with self._changing() as contents:
                contents.queries.pop(name, None)
                if is_new:
                    contents.sources.pop(sink.name.lower(), None)
            shutil.rmtree(self.catalog.checkpoint(name), ignore_errors=True)
            self._forget_topics(self._application(contents, name), [sink.topic] if made else [])
            raise
        done = "has worked off what there is" if self._once else "runs"
        if is_new:
            return Answer(f"{sink.kind.title()} {sink.name} was created; its query {name} {done}.")
        return Answer(f"The query {name} {done}.")

    def _forget_topics(self, application: str, topics: list[str]) -> None:
        """Deletes what a query that did not start has made; why it did not start is what is told."""
        from ottla.errors import KafkaError

        try:
            self.cluster.delete_topics([*topics, *self.cluster.own_topics(application)])
        except (KafkaError, SqlError) as error:
            log.warning("[Application %s] Its topics are left: %s", application, error)

    def _start(self, entry: QueryEntry, topology: Topology) -> None:
        self._check_cluster(self.catalog.read())
        self._stop(entry)  # what is left of one that has failed
        spark = self._get_spark()
        running = topology.start(
            spark, self.cluster.bootstrap, checkpoint=str(self.catalog.checkpoint(entry.id)),
            available_now=self._once, kafka=self.cluster.settings,
        )  # fmt: skip
        if self._once:
            running.stop()
        else:
            self._running[entry.id] = running

    def _planned(self, query: Query, contents: Contents, reset: str | None = None) -> Plan:
        return plan(query, contents, reset=reset or self.properties[RESET], registry=self.registry)

    def _check_copartitioned(self, planned: Plan) -> None:
        counts = {topic: self.cluster.partitions(topic) for topic in planned.copartitioned}
        if len(set(counts.values())) > 1:
            listed = " and ".join(f"{topic} has {count} partitions" for topic, count in counts.items())
            raise SqlError(
                f"what is joined has to have equally many partitions, and {listed}: CREATE STREAM ... WITH (PARTITIONS "
                "= n) AS SELECT makes one with as many as the other"
            )

    def _topology(self, contents: Contents, entry: QueryEntry) -> tuple[Plan, Topology]:
        (statement,) = parse(entry.statement)
        assert isinstance(statement, CreateAs | InsertSelect), "no other statement is kept"
        assert statement.query is not None, "the parser gives one"
        planned = self._planned(statement.query, contents, entry.reset)
        sink = contents.source(entry.sink)
        return planned, planned.to(sink, self._application(contents, entry.id), self.registry)

    def _application(self, contents: Contents, query_id: str) -> str:
        return f"sql-{contents.id}-{query_id}"

    def _change(self, statement: Change) -> Answer:
        contents = self.catalog.read()
        if statement.query_id is not None:
            chosen = [contents.query(statement.query_id)]
        else:
            chosen = list(contents.queries.values())
        self.catalog.begin_running()
        match statement.what:
            case "RESUME":
                return self._resume([entry for entry in chosen if not self._is_active(entry)])
            case "PAUSE":
                for entry in chosen:
                    self._stop(entry)
                    with self._changing() as contents:
                        contents.queries[entry.id] = replace(entry, is_paused=True)
                return Answer(_said(chosen, "is paused", "are paused"))
        for entry in chosen:
            self._terminate(contents, entry)
        return Answer(_said(chosen, "was terminated", "were terminated"))

    def _resume(self, entries: list[QueryEntry]) -> Answer:
        self.catalog.begin_running()
        for entry in entries:
            contents = self.catalog.read()
            _, topology = self._topology(contents, entry)
            self._start(entry, topology)
            if entry.is_paused:
                with self._changing() as contents:
                    contents.queries[entry.id] = replace(entry, is_paused=False)
        if self._once:
            return Answer(_said(entries, "has worked off what there is", "have worked off what there is"))
        return Answer(_said(entries, "runs", "run"))

    def _is_active(self, entry: QueryEntry) -> bool:
        """Whether this process runs it, and it has not failed."""
        running = self._running.get(entry.id)
        return running is not None and running.is_active

    def _stop(self, entry: QueryEntry) -> None:
        running = self._running.pop(entry.id, None)
        if running is not None:
            running.stop()

    def _terminate(self, contents: Contents, entry: QueryEntry) -> None:
        """The query's end: its checkpoint, its own topics and what its sink remembers go; what it wrote stays."""
        from ottla.pipelines.streams.reset import plan_reset

        self._stop(entry)
        application, checkpoint = self._application(contents, entry.id), self.catalog.checkpoint(entry.id)
        if checkpoint.exists():
            reset = plan_reset(application, str(checkpoint))
            with self.cluster.admin() as admin:
                reset.forget_batches(admin)
            self.cluster.delete_topics(self.cluster.own_topics(application))
            shutil.rmtree(checkpoint)
        with self._changing() as changed:
            changed.queries.pop(entry.id, None)

    # --- rows

    def _insert_values(self, statement: InsertValues) -> Answer:
        from ottla.pipelines.sql import analysis

        source = self.catalog.read().source(statement.name)
        if source.window is not None:
            raise SqlError(f"{source.name} is windowed: its rows come from its query")
        columns = statement.columns or tuple(column.name for column in source.columns)
        for name in columns:
            if source.column(name) is None and name.upper() != "ROWTIME":
                near = get_close_matches(name, [column.name for column in source.columns], 1)
                known = ", ".join(column.name for column in source.columns)
                raise SqlError(
                    f"{source.name} has no column {name}: " + (f"is {near[0]} meant?" if near else f"it has {known}")
                )
        if len({name.lower() for name in columns}) < len(columns):
            raise SqlError("a column is named twice")
        for row in statement.rows:
            if len(row) != len(columns):
                raise SqlError(
                    f"{source.name} has {len(columns)} columns ({', '.join(columns)}), and a row has {len(row)} values"
                )
        missing = [key.name for key in source.key_columns if key.name.lower() not in {name.lower() for name in columns}]
        if source.kind == "TABLE" and missing:
            raise SqlError(f"a row of {source.name} needs its PRIMARY KEY: {', '.join(missing)}")
        texts = [[expr.text for expr in row] for row in statement.rows]
        spark = self._get_spark()
        frame = analysis.values(spark, source, columns, texts)
        with self._cancellable():
            analysis.insert(frame, source, self.cluster.bootstrap, self.cluster.settings, self.registry)
        count = len(statement.rows)
        return Answer(f"{count} {'row was' if count == 1 else 'rows were'} written to {source.name}.")

    def _push(self, query: Query) -> Answer:
        from ottla.pipelines.sql import analysis, showing

        contents = self.catalog.read()
        planned = self._planned(query, contents)
        self._check_copartitioned(planned)
        spark = self._get_spark()
        analysis.types(spark, planned)
        topology = planned.show(f"sql-{contents.id}-select")
        rows = showing.rows(
            topology, spark, self.cluster.bootstrap, kafka=self.cluster.settings, count=len(planned.outputs),
            limit=query.limit, once=self._once, is_interrupted=lambda: self.is_interrupted,
        )  # fmt: skip
        return Answer(columns=tuple(one.name for one in planned.outputs), rows=self._translated(rows), is_endless=True)

    def _select(self, statement: BatchSelect) -> Answer:
        from ottla.pipelines.sql import analysis

        contents = self.catalog.read()
        sources = [contents.sources[name.lower()] for name in statement.names if name.lower() in contents.sources]
        frame = analysis.select(
            self._get_spark(), statement, dict.fromkeys(sources), self.cluster.bootstrap, self.cluster.settings,
            self.registry,
        )  # fmt: skip
        return Answer(columns=tuple(frame.columns), rows=self._translated(self._collected(frame)))

    def _collected(self, frame: DataFrame) -> Iterator[list[Any]]:
        with self._cancellable():
            for row in frame.toLocalIterator():
                if self.is_interrupted:
                    raise KeyboardInterrupt
                yield list(row)

    def _translated(self, rows: Iterator[list[Any]]) -> Iterator[list[Any]]:
        """Rows whose errors are one line as well: they are read after the statement was carried out."""
        try:
            yield from rows
        except SqlError:
            raise
        except Exception as error:
            known = _of_spark(error)
            if known is None:
                raise
            raise SqlError(known) from error

    # --- what there is

    def _show(self, statement: Show) -> Answer:
        contents = self.catalog.read()
        match statement.what:
            case "TOPICS":
                return Answer(
                    columns=("topic", "partitions", "replicas"), rows=[list(one) for one in self.cluster.topics()]
                )
            case "QUERIES":
                queries = [
                    [one.id, self._status(one), one.sink, " ".join(one.statement.split())]
                    for one in contents.queries.values()
                ]
                return Answer(columns=("query", "status", "writes", "statement"), rows=queries)
            case "PROPERTIES":
                return Answer(
                    columns=("property", "value"), rows=[[name, value] for name, value in self.properties.items()]
                )
        kind = statement.what.removesuffix("S")
        rows: list[list[Any]] = [
            [
                one.name,
                one.topic,
                one.key_format,
                one.value_format,
                *([one.window is not None] if kind == "TABLE" else []),
            ]
            for one in sorted(contents.sources.values(), key=lambda one: one.name)
            if one.kind == kind
        ]
        columns = (kind.lower(), "topic", "key format", "value format")
        return Answer(columns=(*columns, "windowed") if kind == "TABLE" else columns, rows=rows)

    def _status(self, entry: QueryEntry) -> str:
        running = self._running.get(entry.id)
        if running is not None:
            return "RUNNING" if running.is_active else "FAILED"
        if entry.is_paused:
            return "PAUSED"
        return "RUNNING ELSEWHERE" if self.catalog.is_run_elsewhere else "STOPPED"

    def _describe(self, statement: Describe) -> Answer:
        contents = self.catalog.read()
        source = contents.source(statement.name)
        key = "primary key" if source.kind == "TABLE" else "key"
        rows = [[one.name, one.type, key if one.is_key else ""] for one in source.columns]
        text = None
        if statement.extended:
            count = self.cluster.partitions(source.topic)
            lines = [
                f"{source.kind.title()} {source.name} of the topic {source.topic}, "
                + ("which is not there" if count is None else f"{count} partition{'s' * (count > 1)}")
                + f"; key {source.key_format}, value {source.value_format}."
            ]
            if source.window is not None:
                size = f" of {source.window_size_ms} ms" if source.window_size_ms is not None else ""
                lines.append(f"Its keys have {source.window.lower()} windows{size}.")
            if source.timestamp is not None:
                lines.append(f"Its time is {source.timestamp}.")
            for verb, users in (
                ("Written by", contents.writers(source.name)),
                ("Read by", contents.readers(source.name)),
            ):
                if users:
                    lines.append(f"{verb} {', '.join(users)}.")
            lines.append(source.statement)
            text = "\n".join(lines)
        return Answer(text, ("column", "type", "is"), rows)

    def _explain(self, statement: Explain) -> Answer:
        contents = self.catalog.read()
        if statement.query_id is not None:
            planned, topology = self._topology(contents, contents.query(statement.query_id))
            return Answer("\n".join([*planned.lines, "", topology.describe().rstrip()]))
        inner = statement.statement
        if isinstance(inner, BatchSelect):
            from ottla.pipelines.sql import analysis

            sources = [contents.sources[name.lower()] for name in inner.names if name.lower() in contents.sources]
            frame = analysis.select(
                self._get_spark(), inner, dict.fromkeys(sources), self.cluster.bootstrap, self.cluster.settings,
                self.registry,
            )  # fmt: skip
            return Answer(analysis.explain(frame))
        if not isinstance(inner, PushSelect | CreateAs | InsertSelect):
            raise SqlError("EXPLAIN takes a query's id, or a SELECT, CREATE ... AS SELECT or INSERT INTO ... SELECT")
        assert inner.query is not None, "the parser gives one"
        planned = self._planned(inner.query, contents)
        topology = planned.show("explain")
        return Answer("\n".join([*planned.lines, "", topology.describe().rstrip()]))

    # --- the session

    def _set(self, statement: SetProperty) -> Answer:
        name, value = statement.name, statement.value
        if name.startswith("spark."):
            spark = self._get_spark()
            spark.conf.set(name, value) if value is not None else spark.conf.unset(name)
            return Answer(f"{name} is {value}." if value is not None else f"{name} is what Spark has.")
        if name not in PROPERTIES:
            near = get_close_matches(name, PROPERTIES, 1)
            hint = f"is {near[0]} meant?" if near else f"there are {', '.join(PROPERTIES)}, and Spark's own, spark.*"
            raise SqlError(f"there is no property {name}: {hint}")
        if name == RESET:
            value = value or "earliest"
            if value not in ("earliest", "latest"):
                raise SqlError(f"{RESET} is earliest or latest, not {value}")
        if value is None:
            self.properties.pop(name, None)
            return Answer(f"{name} is not set.")
        self.properties[name] = value
        return Answer(f"{name} is {value}.")

    def _script(self, statement: RunScript) -> Iterator[Answer]:
        if self._scripts >= SCRIPTS_MAX:
            raise SqlError(f"scripts run each other more than {SCRIPTS_MAX} deep: {statement.path}")
        try:
            with open(statement.path, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise SqlError(f"{statement.path} cannot be read: {error}") from None
        self._scripts += 1
        try:
            yield from self.script(text, statement.path)
        finally:
            self._scripts -= 1

    def script(self, text: str, name: str) -> Iterator[Answer]:
        """The answers to a script's statements, up to the first that fails. Nothing runs where one cannot be read."""
        try:
            statements = parse(text)
        except SqlError as error:
            raise SqlError(f"{name}: {error}") from None
        for statement in statements:
            with _placed(statement, name):
                for answer in self.run(statement):
                    answer.rows = _placed_rows(answer.rows, statement, name)
                    yield answer

    def _get_spark(self) -> SparkSession:
        if self._spark is None:
            self._spark = self._session()
            # PySpark logs each error of a query that it raises as well, with its whole trace.
            logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        return self._spark

    @contextmanager
    def _changing(self) -> Iterator[Contents]:
        """The catalog, to be changed; refused where its topics are on another cluster."""
        with self.catalog.changing() as contents:
            self._check_cluster(contents)
            yield contents

    def _check_cluster(self, contents: Contents) -> None:
        if self._cluster_id is None:
            self._cluster_id = self.cluster.id
        if contents.cluster is None:
            contents.cluster = self._cluster_id
        if contents.cluster != self._cluster_id:
            raise SqlError(
                f"the catalog {self.catalog.home} is of the cluster {contents.cluster}, and {self.cluster.bootstrap} "
                f"is {self._cluster_id}: use another --catalog"
            )


@contextmanager
def _placed(statement: Statement, name: str) -> Iterator[None]:
    """Errors with the place of their statement, where they do not name one themselves."""
    try:
        yield
    except SyntaxProblem as error:
        raise SqlError(f"{name}: {error}") from error
    except SqlError as error:
        raise SqlError(f"{name}: line {statement.line}: {error}") from error


def _placed_rows(rows: Iterable[list[Any]], statement: Statement, name: str) -> Iterator[list[Any]]:
    with _placed(statement, name), closing(rows) if isinstance(rows, Generator) else nullcontext():
        yield from rows


def _session() -> SparkSession:
    from ottla.pipelines.spark import session

    return session("ottla-sql")


def _of_spark(error: Exception) -> str | None:
    """What an error of Spark or of pipelines says in one line; None for an error of another kind."""
    if isinstance(error, PipelineError):
        from ottla.pipelines.sql.analysis import plain

        return plain(str(error))
    if type(error).__module__.startswith(("pyspark.", "py4j.")):
        from ottla.pipelines.sql.analysis import told

        return told(error)
    return None


def _properties(given: Mapping[str, str], known: tuple[str, ...]) -> dict[str, str]:
    """Properties of WITH, those that there are; TOPIC is KAFKA_TOPIC."""
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"is {near[0]} meant?" if near else f"there are {', '.join(one for one in known if one != 'TOPIC')}"
            raise SqlError(f"WITH has no property {name}: {hint}")
    found = dict(given)
    if "TOPIC" in found:
        if KAFKA_TOPIC in found:
            raise SqlError("KAFKA_TOPIC and TOPIC are the same: give one of them")
        found[KAFKA_TOPIC] = found.pop("TOPIC")
    return found


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 100_000:
        raise SqlError(f"{name} is a whole number from 1, not {text}")
    return int(text)


def _window(given: Mapping[str, str]) -> tuple[str | None, int | None]:
    """What WINDOW_TYPE and WINDOW_SIZE say of a topic's keys."""
    kind, size = given.get("WINDOW_TYPE"), given.get("WINDOW_SIZE")
    if kind is None:
        if size is not None:
            raise SqlError("WINDOW_SIZE needs WINDOW_TYPE")
        return None, None
    if kind.upper() == "SESSION":
        if size is not None:
            raise SqlError("sessions have no size of their own: leave WINDOW_SIZE out")
        return "SESSION", None
    if kind.upper() not in ("TUMBLING", "HOPPING"):
        raise SqlError(f"WINDOW_TYPE is TUMBLING, HOPPING or SESSION, not {kind}")
    if size is None:
        raise SqlError(f"{kind.upper()} windows need WINDOW_SIZE = '1 HOUR'")
    from ottla.pipelines.sql.parser import duration

    return "TIME", duration(size)


def _listed(columns: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns) or "none"


def _said(entries: list[QueryEntry], one: str, several: str) -> str:
    if not entries:
        return "There is no query that this is for."
    names = ", ".join(entry.id for entry in entries)
    return f"{names} {one if len(entries) == 1 else several}."

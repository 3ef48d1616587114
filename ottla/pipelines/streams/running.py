"""A topology that runs: one Spark query for each part of the plan, started and stopped together.

A checkpoint remembers what its state was made by (`notes`): how many tasks there are, how many partitions topics had,
what the state of each step depends on. A start that would misread it is refused with the way out.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams import evolution, notes
from ottla.pipelines.streams.cluster import ClusterTopics
from ottla.pipelines.streams.compiler.queries import Compiled, Compiler, Shape, logged_stores, writes
from ottla.pipelines.streams.compiler.state_format import StateFormat
from ottla.pipelines.streams.dropping import Dropped
from ottla.pipelines.streams.graph import Aggregate, Custom, GlobalSource, TableJoin, Topology
from ottla.pipelines.streams.handlers import REQUEST_SIZE_MAX, ErrorHandling, told
from ottla.pipelines.streams.patience import started
from ottla.pipelines.streams.planning import Query, has_state, own_topics, plan
from ottla.pipelines.streams.processor import TimeMode
from ottla.pipelines.streams.purging import Purging, readers
from ottla.pipelines.streams.store_specs import source_stores, store_spec
from ottla.pipelines.streams.stores import StoreSpec, changelog_topic, ensure_changelogs, other_scales
from ottla.pipelines.streams.windows import Duration, milliseconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.pipelines.streams.queryable import QueryableStore

log = logging.getLogger(__name__)

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
POLL_S = 0.05
PURGE_INTERVAL_MS = 30_000
"""Kafka Streams' `repartition.purge.interval.ms`."""
IDLE = "Waiting for data to arrive"
"""Spark's word for a query that has begun and has nothing to do."""


def start(
    topology: Topology,
    spark: SparkSession,
    bootstrap: str,
    *,
    checkpoint: str,
    available_now: bool = False,
    interval: str = "0 seconds",
    tasks: int | None = None,
    purge_interval: Duration | None = PURGE_INTERVAL_MS,
    kafka: Mapping[str, str] | None = None,
    source: Mapping[str, str] | None = None,
    sink: Mapping[str, str] | None = None,
    config: Mapping[str, str] | None = None,
    accept: Collection[str] = (),
) -> Running:
    """Runs a topology against a cluster, from where its checkpoint is, or from the beginning.

    With `available_now` it works off what the topics hold now and is done when this returns; otherwise a micro-batch
    begins every `interval`, at once after the last one by default. `tasks` is how many tasks steps have whose keys have
    moved: as many as the largest topic has partitions, unless told. What was consumed is deleted from the topics
    between queries every `purge_interval`, with `available_now` at the end, and never when that is None: then a
    snapshot can be gone back to behind what was written since. `kafka` are settings of clients (security), `source` and
    `sink` options of `format("ottla")`: a micro-batch has a limit unless `maxOffsetsPerTrigger` is `none` in `source`.
    `config` says what is done with records that cannot be read or written (`handlers`). `accept` names steps that go on
    with the state they have although they have changed (`evolution`).
    """
    purge_ms = None if purge_interval is None else milliseconds(purge_interval, "purge_interval", at_least=1)
    queries = plan(topology)
    if available_now:
        _check_that_it_ends(queries)
    cluster = ClusterTopics(spark, bootstrap, kafka=kafka or {}, source=source or {}, sink=sink or {})
    handling = ErrorHandling.of(config, request_size_max=_request_size_max(kafka or {}, sink or {}))
    counts = _count(topology, queries, cluster, handling)
    spark.conf.set(PROVIDER, ROCKSDB)
    known = notes.read(spark, checkpoint)
    wanted = tasks or (known or {}).get("tasks") or max(counts.values(), default=1)
    most = max([wanted, *counts.values()])
    state_format = StateFormat.of_new(most) if known is None else StateFormat.of_known(known)
    facts = {
        "application": topology.application,
        "tasks": wanted,
        "partitions": counts,
        "state": state_format.facts(),
    }
    if known is not None:
        evolution.check_no_reset(known, checkpoint)
        check(known, facts)
        topology = topology.at(evolution.trace(known, topology))
        queries = plan(topology)
        found = evolution.compare(known, topology, queries, accept=accept)
        if found.unjudged:
            log.warning("[Application %s] %s", topology.application, found.unjudged)
        found.check(checkpoint)
        _tell_of_other_scales(topology, spark, checkpoint, queries)
    cluster.ensure_topics({topic: n or wanted for topic, n in own_topics(topology, queries).items()})
    compiler = Compiler(topology, cluster, wanted, handling, state_format)
    compiled = [compiler.compile(query) for query in queries]
    steps = evolution.notes(topology, queries, {one.query.name: one.types for one in compiled})
    now: dict[str, Any] = {**facts, "steps": steps}
    if known is not None:
        evolution.compare(known, topology, queries, accept=accept, steps=steps).check(checkpoint)
        partitions = {**known["partitions"], **counts}
        now = {**known, "partitions": partitions, "steps": evolution.merged(known, steps, accept)}
    if now != known:
        notes.write(spark, checkpoint, now)
    specs = _changelogs(topology, compiled, compiler.shapes, cluster, wanted)
    dropped = Dropped(spark, topology.application)
    running = Running(topology, bootstrap, dict(kafka or {}), specs, dropped)
    between = readers(topology, queries)
    if between and purge_ms is not None:
        running.purging = Purging(between, admin=cluster.admin, progress=running.progress, interval_s=purge_ms / 1000)
    try:
        for one in compiled:
            name = one.query.name
            place, identity = f"{checkpoint}/{name}", f"{topology.application}-{name}"
            begin = partial(cluster.write, one, place, identity, interval=None if available_now else interval)
            # What a query writes is what the next ones read: over what there is now, they run one after the other.
            wait = _wait_for_the_end if available_now else _wait_for_the_beginning
            running.queries[name] = started(begin, wait)
        if available_now:
            dropped.wait(running.runs)
        if running.purging is not None:
            running.purging.once() if available_now else running.purging.start()
    except BaseException:
        running.stop()
        raise
    return running


def _check_that_it_ends(queries: Sequence[Query]) -> None:
    for query in queries:
        if isinstance(query.work, Custom) and query.work.operator.time is TimeMode.PROCESSING:
            raise PipelineError(
                f"{query.name} goes by processing time, for which Spark runs one micro-batch after the other without "
                "end: start it without available_now, or let it go by TimeMode.EVENT"
            )


def _tell_of_other_scales(topology: Topology, spark: SparkSession, checkpoint: str, queries: Sequence[Query]) -> None:
    """Not refused: state goes on exactly in the parts it has, and the setting is by default the machine's cores."""
    others = other_scales(spark, checkpoint, [query.name for query in queries if has_state(query)])
    if others:
        told = ", ".join(f"{name} has {parts}" for name, parts in others.items())
        log.warning(
            "[Application %s] State stays in the parts it was made in whatever spark.sql.shuffle.partitions says: %s. "
            "To divide it anew, stop and call ottla.pipelines.streams.stores.rescale_topology(spark, %r, n)",
            topology.application,
            told,
            checkpoint,
        )


class Running:
    """The queries of a started topology. `with` stops them."""

    def __init__(
        self,
        topology: Topology,
        bootstrap: str,
        kafka: dict[str, str],
        specs: Mapping[str, StoreSpec],
        dropped: Dropped | None = None,
    ) -> None:
        self.topology = topology
        self.queries: dict[str, StreamingQuery] = {}
        sources = source_stores(topology)
        self.stores = {**{name: spec for name, (_, spec) in sources.items()}, **specs}
        self._store_topics = {name: topic for name, (topic, _) in sources.items() if name not in specs}
        self.purging: Purging | None = None
        self._dropped = dropped
        self._bootstrap = bootstrap
        self._kafka = kafka

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def is_active(self) -> bool:
        """Whether every query runs."""
        return all(query.isActive for query in self.queries.values())

    def stop(self) -> None:
        """Stops all queries; each one's batch that is under way is done again after the next start."""
        if self.purging is not None:
            self.purging.stop()
        for query in self.queries.values():
            query.stop()
        if self._dropped is not None:
            self._dropped.close(self.runs)

    @property
    def dropped(self) -> dict[tuple[str, str], int]:
        """How many records were dropped since the start, by why and by step: `dropping` has the reasons."""
        return {} if self._dropped is None else dict(self._dropped.counts)

    @property
    def runs(self) -> set[str]:
        """Spark's ids of the queries' runs."""
        return {str(query.runId) for query in self.queries.values()}

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Waits until the topology is stopped; False when the time is over first. A query's failure stops all."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            self.raise_failure()
            if not any(query.isActive for query in self.queries.values()):
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(POLL_S)

    def process_all_available(self) -> None:
        """Waits until what the topics hold now is worked off, from the first query to the last: for tests."""
        for query in self.queries.values():
            query.processAllAvailable()

    def progress(self) -> dict[str, dict[str, Any] | None]:
        """What Spark says of each query's last micro-batch: rates, durations, offsets; None before the first."""
        latest = {name: query.lastProgress for name, query in self.queries.items()}
        return {name: None if one is None else json.loads(one.json) for name, one in latest.items()}

    def store(self, name: str) -> QueryableStore:
        """A named store, to be asked for what was committed: `get`, `range`, `all`, `fetch`."""
        from ottla.pipelines.streams.queryable import open_store

        if name not in self.stores:
            named = ", ".join(sorted(self.stores)) or "none"
            raise PipelineError(f"the topology has no named store {name}: it has {named}")
        settings: dict[str, Any] = dict(self._kafka)
        topic = self._store_topics.get(name)
        return open_store(self._bootstrap, self.topology.application, self.stores[name], topic=topic, **settings)

    def raise_failure(self) -> None:
        """Raises what made a query fail, after stopping the others."""
        for query in self.queries.values():
            failure = query.exception()
            if failure is not None:
                self.stop()
                raise told(failure)


def check(known: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Refuses a start that would misread the state a checkpoint holds; each line says the way out."""
    evolution.check_application(known, facts["application"])
    if known["tasks"] != facts["tasks"]:
        raise PipelineError(
            f"the checkpoint has {known['tasks']} tasks, and state does not move between tasks: start with "
            f"tasks={known['tasks']} or none, or begin anew under another checkpoint and application name"
        )
    for topic, count in known["partitions"].items():
        now = facts["partitions"].get(topic, count)
        if now != count:
            raise PipelineError(
                f"{topic} had {count} partitions when the checkpoint was made and has {now}: keys have moved and their "
                f"state has not. Begin anew under another checkpoint and application name; to be free of the number, "
                f"put `{repartition(is_table=False)}` behind a stream that is grouped or joined, and "
                f"`{repartition(is_table=True)}` behind a table"
            )


def check_partitions(
    queries: list[Query], counts: Mapping[str, int], matched: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Refuses joins of topics whose partitions do not match. `matched` are the topics of each pattern."""
    for query in queries:
        flows = [inflow for side in query.inputs for inflow in side]
        if len(query.inputs) > 1 and all(flow.keeps_partitions for flow in flows):
            read = [*query.reads, *(topic for one in query.patterns for topic in (matched or {}).get(one, ()))]
            found = {topic: counts[topic] for topic in read}
            if len(set(found.values())) > 1:
                listed = ", ".join(f"{topic} has {count}" for topic, count in found.items())
                is_table = isinstance(query.work, TableJoin)
                raise PipelineError(
                    f"{query.name} joins topics that must have equally many partitions, and {listed}: put "
                    f"`{repartition(is_table=is_table)}` behind the left {'table' if is_table else 'stream'}"
                )


def repartition(*, is_table: bool) -> str:
    """The call that takes a stream or a table through a topic of the application's own."""
    return ".to_stream().repartition().to_table()" if is_table else ".repartition()"


def _wait_for_the_end(query: StreamingQuery) -> None:
    query.awaitTermination()


def _wait_for_the_beginning(query: StreamingQuery) -> None:
    """Until the first micro-batch is done, or there is nothing to do: what can fail at the beginning has failed."""
    while query.isActive and query.lastProgress is None and query.status["message"] != IDLE:
        time.sleep(POLL_S)
    failure = query.exception()
    if failure is not None:
        raise failure


def _request_size_max(kafka: Mapping[str, str], sink: Mapping[str, str]) -> int:
    return int(sink.get("kafka.max.request.size") or kafka.get("max.request.size") or REQUEST_SIZE_MAX)


def _count(topology: Topology, queries: list[Query], cluster: ClusterTopics, handling: ErrorHandling) -> dict[str, int]:
    """The partitions of the topics that are read; what is written to must be there too."""
    own = {*own_topics(topology, queries)}
    changelogs = {changelog_topic(topology.application, name) for query in queries for name in logged_stores(query)}
    matched = cluster.match(one for query in queries for one in query.patterns)
    reads = {topic for query in queries for topic in query.reads}
    reads |= {topic for topics in matched.values() for topic in topics}
    tables = {node.work.topic for node in topology.nodes.values() if isinstance(node.work, GlobalSource)}
    ends = {topic for query in queries for topic in writes(topology, query, handling)} - own - changelogs
    counts = cluster.count_partitions(reads | tables | ends)
    read_counts = {topic: counts[topic] for topic in sorted(reads)}
    check_partitions(queries, read_counts, matched)
    return read_counts


def _changelogs(
    topology: Topology, compiled: list[Compiled], shapes: Mapping[str, Shape], cluster: ClusterTopics, partitions: int
) -> dict[str, StoreSpec]:
    """Makes the changelog topics of named stores; the stores by name."""
    specs: dict[str, StoreSpec] = {}
    for one in compiled:
        names = logged_stores(one.query)
        if isinstance(one.query.work, Aggregate) and names:
            specs[names[0]] = store_spec(one.query.work, shapes[one.query.root.name])
        elif isinstance(one.query.work, Custom):
            specs.update({spec.name: spec for spec in one.query.work.operator.stores if spec.logged})
    if specs:
        with cluster.admin() as admin:
            topics = ensure_changelogs(admin, topology.application, specs.values(), partitions=partitions)
        cluster.count_partitions(topics.values())
    return specs

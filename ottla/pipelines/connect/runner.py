"""Runs a pipeline: builds its queries, watches them, tells how they do, and stops them when asked.

Promises: a pipeline of one name runs once on a machine; a stop, asked for by the control file or a signal, waits for
the micro-batch that runs; when one of its queries fails, the others are stopped and the pipeline fails with one line
that says why, and whose whole story is in `Home.failure`. Called by `ottla pipeline run` and from Python.
"""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.pipelines.connect.contact import require_brokers
from ottla.pipelines.connect.http_in import HttpIn, Spool
from ottla.pipelines.connect.kinds import CDC
from ottla.pipelines.connect.progress import Batch, batch_of
from ottla.pipelines.connect.reasons import reason
from ottla.pipelines.connect.spec import AVAILABLE_NOW, MAIN, Part, Pipeline, interval_s
from ottla.pipelines.connect.state import Home, State, born
from ottla.pipelines.durable import sync_checkpoint
from ottla.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.pipelines.connect.capture import Capture
    from ottla.pipelines.connect.growing import GrowingTable
    from ottla.pipelines.connect.sinks import Outcome

LOOK_S = 0.1
STOP_TIMEOUT_S = 300.0
"""How long a stop waits for the micro-batch that runs, before it is interrupted and left for the next run."""


class PipelineFailed(PipelineError):
    """A pipeline that could not go on."""


def run(
    pipeline: Pipeline,
    spark: SparkSession | None = None,
    *,
    master: str | None = None,
    once: bool = False,
    home: Home | None = None,
    file: str = "",
    on_batch: Callable[[Batch], None] = lambda _: None,
    on_ready: Callable[[str], None] = lambda _: None,
    is_asked_to_stop: Callable[[], bool] = lambda: False,
) -> State:
    """Run a pipeline until its source ends, it is asked to stop, or it fails (`PipelineFailed`).

    `once` reads what there is and ends. Without `spark` a session is made, for `master`, and stopped at the end.
    """
    home = home or Home(pipeline.name)
    with ExitStack() as stack:
        stack.enter_context(home.running())
        source, sink = (_kinds(parts.values()) for parts in (pipeline.sources, pipeline.sinks))
        state = State(pipeline.name, file, os.getpid(), time.time(), source=source, sink=sink)
        home.write(state)
        stack.enter_context(_told(home, state))
        if spark is None or getattr(spark, "_jvm", None) is not None:  # over Spark Connect the driver is elsewhere
            require_brokers(pipeline)
        if spark is None:
            spark = stack.enter_context(_own_session(pipeline, master))
        elif pipeline.spark:
            raise PipelineError("a pipeline with settings for Spark cannot run in a session that is there already")
        _take_session(spark, state)
        runner = _Runner(pipeline, spark, home, state, on_batch, lambda: is_asked_to_stop() or home.is_asked_to_stop)
        for name, part in pipeline.sources.items():
            if part.kind == "http":
                on_ready(f"http://{stack.enter_context(runner.listening(name)).address}{part.options['path']}")
        with _spark_in_one_line():
            runner.run(AVAILABLE_NOW if once else pipeline.trigger)
    return state


@contextmanager
def _spark_in_one_line() -> Iterator[None]:
    """What Spark raises, as the line that says why."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise PipelineFailed(reason(str(error))) from error
    except Py4JJavaError as error:
        raise PipelineFailed(reason(str(error.java_exception))) from error
    except (Py4JError, ConnectionError) as error:
        raise PipelineFailed("the Java process of Spark has ended") from error


@contextmanager
def _told(home: Home, state: State) -> Iterator[None]:
    """What comes of the run is the last thing that its state says; all that was said of a failure is in a file."""
    home.failure.unlink(missing_ok=True)
    try:
        yield
    except BaseException as error:
        state.status, state.error = "failed", str(error) or type(error).__name__
        home.failure.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        raise
    finally:
        state.jvm_pid = state.jvm_born = None
        home.write(state)


@contextmanager
def _own_session(pipeline: Pipeline, master: str | None) -> Iterator[SparkSession]:
    from py4j.protocol import Py4JError

    from ottla.pipelines.spark import session

    spark = session(f"ottla-{pipeline.name}", master=master, conf=dict(pipeline.spark))
    try:
        yield spark
    finally:
        with suppress(Py4JError, ConnectionError):  # a Java process that has ended need not be stopped
            spark.stop()


def _take_session(spark: SparkSession, state: State) -> None:
    jvm = getattr(spark, "_jvm", None)
    if jvm is not None:  # over Spark Connect the Java process is the server's, and stays
        state.jvm_pid = int(jvm.java.lang.ProcessHandle.current().pid())
        state.jvm_born = born(state.jvm_pid)
        # Spark looks data sources of Python up in the session of its own thread, which another than that which made the
        # session has not.
        type(spark)._get_j_spark_session_class(jvm).setActiveSession(spark._jsparkSession)


def _kinds(parts: Iterable[Part]) -> str:
    """`topic + csv`."""
    return " + ".join(part.kind for part in parts)


class _Runner:
    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        home: Home,
        state: State,
        on_batch: Callable[[Batch], None],
        is_asked_to_stop: Callable[[], bool],
    ) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._home = home
        self._state = state
        self._on_batch = on_batch
        self._is_asked_to_stop = is_asked_to_stop
        self._spools: dict[str, str] = {}
        self._tables: list[GrowingTable] = []
        self._capture: Capture | None = None
        self._offsets: dict[str, tuple[str, int]] = {}
        """Of each query: the last progress that was looked at, and the record that it ended before."""
        self._checkpoints: dict[str, str] = {}
        self._poll_at = 0.0
        """When growing tables are looked at next, by the clock that never goes back."""
        self._sinks: dict[str, StreamingQuery] = {}
        self._told_until: dict[str, str] = {}
        """Of each query: when the last micro-batch began that was told of, as Spark writes it."""

    def _spool(self, name: str) -> Path:
        path = self._home.spool_of(self._pipeline, name)
        self._spools[name] = str(path)
        return path

    def listening(self, name: str) -> HttpIn:
        """The server of a source `http`."""
        options = self._pipeline.sources[name].options
        return HttpIn(
            options["listen"], options["path"], Spool(self._spool(name), keys_max=options["idempotency-keys"]),
            token=options.get("token"), bytes_max=options["max-bytes"],
        )  # fmt: skip

    def run(self, trigger: str | None) -> None:
        try:
            self._run(trigger)
        finally:
            if self._capture is not None:
                self._capture.close()

    def _run(self, trigger: str | None) -> None:
        from ottla.pipelines.connect import growing

        capture = self._capture = self._captured()
        for name, part in self._pipeline.sources.items():
            if part.is_growing:
                one = self._pipeline.of_source(name)
                self._tables.append(growing.GrowingTable(self._spark, one, self._spool(name)))
        found = self._outcomes()
        self._say("running")
        if self._pipeline.is_bounded:
            self._write(found)
            return
        checkpoint = self._pipeline.checkpoint or str(self._home.checkpoint)
        if trigger == AVAILABLE_NOW:
            for table in self._tables:
                table.poll()  # what there is by now; the query ends with it
            self._tables = []
        if capture is not None and not self._begin(capture, trigger):
            self._say("stopped")
            return
        pace_s = growing.POLL_S if trigger in (None, AVAILABLE_NOW) else interval_s(trigger)
        if self._pipeline.has_names:
            self._home.require_sources({outcome.name: outcome.sources for outcome in found})
        queries: list[StreamingQuery] = []
        try:
            for outcome in found:
                name = f"{self._pipeline.name}-{outcome.name}"
                self._checkpoints[name] = f"{checkpoint}/{outcome.name}"
                queries.append(outcome.start(name, self._checkpoints[name], trigger))
                if outcome.name == MAIN or outcome.sink is not None:
                    self._sinks[outcome.sink or MAIN] = queries[-1]
            self._watch(queries, pace_s)
            if capture is not None and self._state.status == "done":
                capture.finish()
        finally:
            for query in queries:
                if query.isActive:
                    query.stop()

    def _outcomes(self) -> list[Outcome]:
        from ottla.pipelines.connect import flow, sinks, transforms

        pipeline = self._pipeline
        if not pipeline.is_straight:
            return sinks.outcomes_of_all(flow.Flow(self._spark, pipeline, self._read), pipeline)
        (name,) = pipeline.sources
        return sinks.outcomes(transforms.apply(self._read(name), pipeline), pipeline)

    def _read(self, name: str) -> DataFrame:
        """The records of a source."""
        from ottla.pipelines.connect import sources

        pipeline, spool, capture = self._pipeline.of_source(name), self._spools.get(name), self._capture
        if capture is None:
            return sources.read(self._spark, pipeline, spool)
        return sources.read(self._spark, pipeline, spool, capture.tables, capture.excluded)

    def _captured(self) -> Capture | None:
        """The database of a source `postgresql-cdc`, which is the only source then, looked at."""
        name, *others = self._pipeline.sources
        if others or self._pipeline.source.kind != CDC:
            return None
        from ottla.pipelines.connect.capture import Capture

        capture = Capture(self._pipeline, self._spool(name), self._is_asked_to_stop)
        capture.open()
        return capture

    def _begin(self, capture: Capture, trigger: str | None) -> bool:
        """Read what there is by now, or begin to read; False when somebody asked to stop meanwhile."""
        from ottla.pipelines.postgresql.connection import Interrupted

        if trigger != AVAILABLE_NOW:
            capture.start()
            return True
        try:
            capture.catch_up()
        except Interrupted:
            return False
        return True

    def _write(self, found: list[Outcome]) -> None:
        """A source that ends: everything at once."""
        for outcome in found:
            outcome.write()
        self._say("done")

    def _watch(self, queries: list[StreamingQuery], pace_s: float) -> None:
        """Return when all queries have ended, or have been stopped because somebody asked."""
        while any(query.isActive for query in queries):
            self._report()
            self._raise_failure(queries)
            self._poll(pace_s)
            self._confirm(queries)
            self._raise_capture()
            if self._is_asked_to_stop():
                self._say("stopping")
                deadline = time.monotonic() + STOP_TIMEOUT_S
                for query in queries:
                    stop_after_batch(query, deadline)
                self._report()
                self._raise_failure(queries)
                self._confirm(queries)
                self._say("stopped")
                return
            time.sleep(LOOK_S)
        self._report()
        self._raise_failure(queries)
        self._confirm(queries)
        self._say("done")

    def _confirm(self, queries: list[StreamingQuery]) -> None:
        """Let the capture know what every checkpoint has for good.

        Spark reports a micro-batch after it has committed it, and leaves it to the system when the disk has that.
        """
        if self._capture is None:
            return
        from ottla.pipelines.connect.change_source import offset_in

        for query in queries:
            last = query.lastProgress
            if last is None or self._offsets.get(query.name, ("", 0))[0] == last["timestamp"]:
                continue
            sources = json.loads(last.json)["sources"]
            end = sources[0].get("endOffset") if sources else None
            offset = offset_in(json.loads(end) if isinstance(end, str) else end)
            if offset is None:
                continue
            if offset != self._offsets.get(query.name, ("", -1))[1]:
                sync_checkpoint(self._checkpoints[query.name])
            self._offsets[query.name] = last["timestamp"], offset
        if len(self._offsets) == len(queries):
            self._capture.confirm(min(offset for _, offset in self._offsets.values()))

    def _raise_capture(self) -> None:
        """A capture that has ended ends the pipeline; what was read under a schema is first written under it."""
        from ottla.pipelines.connect.changes import SchemaChanged

        capture = self._capture
        if capture is None or capture.failure is None:
            return
        if not isinstance(capture.failure, SchemaChanged) or not capture.has_pending:
            raise PipelineFailed(str(capture.failure)) from capture.failure

    def _poll(self, pace_s: float) -> None:
        """Look at growing tables when it is time; looks that were missed are not made up for."""
        if self._tables and time.monotonic() >= self._poll_at:
            self._poll_at = time.monotonic() + pace_s
            for table in self._tables:
                table.poll()

    def _raise_failure(self, queries: list[StreamingQuery]) -> None:
        for query in queries:
            error = query.exception()
            if error is not None:
                raise PipelineFailed(reason(str(error))) from error

    def _report(self) -> None:
        """Tell of the micro-batches of the sinks that have ended since the last look."""
        is_new = False
        for sink, query in self._sinks.items():
            told_until = self._told_until.get(sink, "")
            last = query.lastProgress
            if last is None or last["timestamp"] <= told_until:
                continue
            for progress in query.recentProgress:
                if progress["timestamp"] <= told_until:
                    continue
                batch = batch_of(json.loads(progress.json))
                batch = replace(batch, sink=sink if self._pipeline.has_names else None)
                if self._capture is not None:
                    batch = replace(batch, slot_lag_bytes=self._capture.slot_lag_bytes)
                self._state.add(batch, batch.sink)
                if batch.records:
                    self._on_batch(batch)
            self._told_until[sink] = last["timestamp"]
            is_new = True
        if is_new:
            self._home.write(self._state)

    def _say(self, status: str) -> None:
        self._state.status = status
        self._home.write(self._state)


def stop_after_batch(query: StreamingQuery, deadline: float) -> None:
    """Stop a query when the micro-batch that runs is through; one that begins meanwhile is left for the next run."""
    before = _last(query)
    while query.isActive and query.status["isTriggerActive"] and _last(query) == before:
        if time.monotonic() > deadline:
            break
        time.sleep(LOOK_S)
    query.stop()


def _last(query: StreamingQuery) -> str | None:
    progress = query.lastProgress
    return None if progress is None else str(progress["timestamp"])

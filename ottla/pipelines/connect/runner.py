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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.pipelines.connect.contact import require_brokers
from ottla.pipelines.connect.http_in import HttpIn, Spool
from ottla.pipelines.connect.kinds import CDC
from ottla.pipelines.connect.progress import Batch, batch_of
from ottla.pipelines.connect.reasons import reason
from ottla.pipelines.connect.spec import AVAILABLE_NOW, Pipeline, interval_s
from ottla.pipelines.connect.state import Home, State, born
from ottla.pipelines.durable import sync_checkpoint
from ottla.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
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
        state = State(
            pipeline.name, file, os.getpid(), time.time(), source=pipeline.source.kind, sink=pipeline.sink.kind
        )
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
        if pipeline.source.kind == "http":
            on_ready(f"http://{stack.enter_context(runner.listening()).address}{pipeline.source.options['path']}")
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
        self._spool: Path | None = None
        self._table: GrowingTable | None = None
        self._capture: Capture | None = None
        self._offsets: dict[str, tuple[str, int]] = {}
        """Of each query: the last progress that was looked at, and the record that it ended before."""
        self._checkpoints: dict[str, str] = {}
        self._poll_at = 0.0
        """When a growing table is looked at next, by the clock that never goes back."""
        self._told_until = ""
        """When the last micro-batch began that was told of, as Spark writes it."""

    def listening(self) -> HttpIn:
        """The server of a source `http`."""
        options = self._pipeline.source.options
        self._spool = Path(options.get("spool") or self._home.spool)
        return HttpIn(
            options["listen"], options["path"], Spool(self._spool, keys_max=options["idempotency-keys"]),
            token=options.get("token"), bytes_max=options["max-bytes"],
        )  # fmt: skip

    def run(self, trigger: str | None) -> None:
        try:
            self._run(trigger)
        finally:
            if self._capture is not None:
                self._capture.close()

    def _run(self, trigger: str | None) -> None:
        from ottla.pipelines.connect import growing, sinks, sources, transforms

        capture = self._capture = self._captured()
        if self._pipeline.source.is_growing:
            self._spool = Path(self._pipeline.source.options.get("spool") or self._home.spool)
            self._table = growing.GrowingTable(self._spark, self._pipeline, self._spool)
        spool = None if self._spool is None else str(self._spool)
        if capture is None:
            df = sources.read(self._spark, self._pipeline, spool)
        else:
            df = sources.read(self._spark, self._pipeline, spool, capture.tables, capture.excluded)
        df = transforms.apply(df, self._pipeline)
        found = sinks.outcomes(df, self._pipeline)
        self._say("running")
        if self._pipeline.is_bounded:
            self._write(found)
            return
        checkpoint = self._pipeline.checkpoint or str(self._home.checkpoint)
        if self._table is not None and trigger == AVAILABLE_NOW:
            self._table.poll()  # what there is by now; the query ends with it
            self._table = None
        if capture is not None and not self._begin(capture, trigger):
            self._say("stopped")
            return
        pace_s = growing.POLL_S if trigger in (None, AVAILABLE_NOW) else interval_s(trigger)
        queries: list[StreamingQuery] = []
        try:
            for outcome in found:
                name = f"{self._pipeline.name}-{outcome.name}"
                self._checkpoints[name] = f"{checkpoint}/{outcome.name}"
                queries.append(outcome.start(name, self._checkpoints[name], trigger))
            self._watch(queries, pace_s)
            if capture is not None and self._state.status == "done":
                capture.finish()
        finally:
            for query in queries:
                if query.isActive:
                    query.stop()

    def _captured(self) -> Capture | None:
        """The database of a source `postgresql-cdc`, looked at."""
        if self._pipeline.source.kind != CDC:
            return None
        from ottla.pipelines.connect.capture import Capture

        self._spool = Path(self._pipeline.source.options.get("spool") or self._home.spool)
        capture = Capture(self._pipeline, self._spool, self._is_asked_to_stop)
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
            self._report(queries)
            self._raise_failure(queries)
            self._poll(pace_s)
            self._confirm(queries)
            self._raise_capture()
            if self._is_asked_to_stop():
                self._say("stopping")
                deadline = time.monotonic() + STOP_TIMEOUT_S
                for query in queries:
                    stop_after_batch(query, deadline)
                self._report(queries)
                self._raise_failure(queries)
                self._confirm(queries)
                self._say("stopped")
                return
            time.sleep(LOOK_S)
        self._report(queries)
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
        """Look at a growing table when it is time; looks that were missed are not made up for."""
        if self._table is not None and time.monotonic() >= self._poll_at:
            self._poll_at = time.monotonic() + pace_s
            self._table.poll()

    def _raise_failure(self, queries: list[StreamingQuery]) -> None:
        for query in queries:
            error = query.exception()
            if error is not None:
                raise PipelineFailed(reason(str(error))) from error

    def _report(self, queries: list[StreamingQuery]) -> None:
        """Tell of the micro-batches that have ended since the last look. The first query is the sink's."""
        main = queries[0]
        last = main.lastProgress
        if last is None or last["timestamp"] <= self._told_until:
            return
        for progress in main.recentProgress:
            if progress["timestamp"] <= self._told_until:
                continue
            batch = batch_of(json.loads(progress.json))
            if self._capture is not None:
                batch = replace(batch, slot_lag_bytes=self._capture.slot_lag_bytes)
            self._state.lag, self._state.slot_lag_bytes = batch.lag, batch.slot_lag_bytes
            if batch.records:
                self._state.batch = batch.id
                self._state.records += batch.records
                if batch.bad is not None:
                    self._state.bad = (self._state.bad or 0) + batch.bad
                self._state.in_per_s, self._state.out_per_s = batch.in_per_s, batch.out_per_s
                self._state.batch_ms = batch.took_ms
                self._on_batch(batch)
        self._told_until = last["timestamp"]
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

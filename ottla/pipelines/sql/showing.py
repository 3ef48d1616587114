"""The rows of a SELECT ... EMIT CHANGES, as they come.

The topology runs as any other, but for its sink: rows are handed to who reads them, through a queue with a bound, so a
reader that is slow holds the query up and not the memory. Called by `engine`.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from queue import Empty, Full, Queue
from threading import Event
from typing import TYPE_CHECKING, Any

from ottla.pipelines.sql.errors import SqlError
from ottla.pipelines.sql.plan import ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.pipelines.streams.graph import Topology

WAITING_MAX = 1000
"""Rows that wait for their reader."""
POLL_S = 0.1
BATCH_MAX = "10000"
"""Offsets of a micro-batch: a person waits for the first one."""


def rows(
    topology: Topology, spark: SparkSession, bootstrap: str, *, kafka: Mapping[str, str], count: int,
    limit: int | None, once: bool, is_interrupted: Callable[[], bool] = lambda: False,
) -> Iterator[list[Any]]:  # fmt: skip
    """Rows of `count` columns, until there were enough, or the reader closes; with `once`, of what there is now.

    An interrupt is asked for, because one that is raised while Python waits for Java leaves an answer behind that the
    next question would get.
    """
    if limit == 0:
        return
    home = tempfile.mkdtemp(prefix="ottla-sql-")
    waiting: Queue[str] = Queue(WAITING_MAX)
    is_over = Event()

    def take(batch: DataFrame, batch_id: int) -> None:
        for row in batch.toLocalIterator():
            while not is_over.is_set():
                try:
                    waiting.put(row[0], timeout=POLL_S)
                    break
                except Full:
                    continue
            else:
                return

    query = _start(topology, spark, bootstrap, kafka, home, take, once=once)
    try:
        given = 0
        while limit is None or given < limit:
            if is_interrupted():
                raise KeyboardInterrupt
            try:
                text = waiting.get(timeout=POLL_S)
            except Empty:
                _raise_failure(query)
                if not query.isActive and waiting.empty():
                    return
                continue
            row = json.loads(text)
            yield [row.get(f"c{index}") for index in range(count)]
            given += 1
    finally:
        is_over.set()
        query.stop()
        shutil.rmtree(home, ignore_errors=True)


def _start(
    topology: Topology, spark: SparkSession, bootstrap: str, kafka: Mapping[str, str], home: str, take: Any, *,
    once: bool,
) -> StreamingQuery:  # fmt: skip
    from pyspark.sql import functions as F

    from ottla.pipelines.streams.cluster import ClusterTopics
    from ottla.pipelines.streams.compiler.queries import Compiler
    from ottla.pipelines.streams.planning import plan
    from ottla.pipelines.streams.running import PROVIDER, ROCKSDB, check_partitions

    queries = plan(topology)
    if len(queries) > 1:
        raise SqlError(
            "this SELECT needs topics of its own between its steps, as a query that is kept has them: CREATE TABLE ... "
            "AS SELECT, and SELECT from that"
        )
    cluster = ClusterTopics(spark, bootstrap, kafka=kafka, source={"maxOffsetsPerTrigger": BATCH_MAX}, sink={})
    counts = cluster.count_partitions(topic for query in queries for topic in query.reads)
    check_partitions(queries, counts)
    spark.conf.set(PROVIDER, ROCKSDB)
    compiled = Compiler(topology, cluster, max(counts.values(), default=1)).compile(queries[0])
    assert compiled.writes == (ROWS,), "what is shown goes nowhere else"
    rows = compiled.rows.select(F.col("value").cast("string"))
    writer = rows.writeStream.foreachBatch(take).outputMode("update" if compiled.updates else "append")
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
    return writer.option("checkpointLocation", home).start()


def _raise_failure(query: StreamingQuery) -> None:
    from ottla.pipelines.streams.handlers import told

    failure = query.exception()
    if failure is not None:
        raise told(failure)

"""Records that a topology passes over: counted by Spark in each micro-batch, told in the log and by `Running.dropped`.

The counts are metrics of `DataFrame.observe`, whose names say what was dropped where (`metric`). Spark tells them to a
listener, which is on a thread of Spark's: `close` waits until all is told.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

log = logging.getLogger(__name__)

DESERIALIZATION = "cannot be deserialised"
GLOBAL = "belong to a global table and cannot be deserialised"
GLOBAL_KEYLESS = "belong to a global table and have no key"
INCOMPLETE = "lack the key or the value that is needed"
PRODUCTION = "cannot be written"
NEGATIVE_TIME = "have a negative timestamp"
EXPIRED = "are older than the history of their table"
LATE_RECORDS = "came too late for their windows"
"""Why records are dropped."""
PREFIX = "ottla-dropped"
CLOSE_S = 10.0
"""How long Spark may take to tell of the last micro-batches."""


def metric(why: str, application: str, node: str) -> str:
    """The name under which Spark counts what a node drops."""
    return "/".join((PREFIX, why, application, node))


class Dropped(StreamingQueryListener):
    """Counts what the queries of one application drop, and logs it."""

    def __init__(self, spark: SparkSession, application: str) -> None:
        self.counts: dict[tuple[str, str], int] = {}
        """How many records were dropped since the start, by why and node."""
        self._spark = spark
        self._application = application
        self._is_closed = False
        self._over: set[str] = set()
        self._changed = threading.Condition()
        spark.streams.addListener(self)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A micro-batch is done."""
        for name, row in event.progress.observedMetrics.items():
            prefix, why, application, node = (*name.split("/"), "", "", "")[:4]
            if prefix == PREFIX and application == self._application and row["count"]:
                self._add(why, node, row["count"], row["example"])

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """A query is over, and all of its micro-batches are told."""
        with self._changed:
            self._over.add(str(event.runId))
            self._changed.notify_all()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is dropped yet."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing is dropped."""

    def wait(self, runs: set[str]) -> None:
        """Until Spark has told all of these runs, which are over."""
        with self._changed:
            if not self._changed.wait_for(lambda: runs <= self._over, CLOSE_S):
                log.warning("[Application %s] Spark did not tell in time what was dropped last", self._application)

    def close(self, runs: set[str]) -> None:
        """Waits for these runs, and listens no more; closed twice is closed."""
        if not self._is_closed:
            self._is_closed = True
            self.wait(runs)
            self._spark.streams.removeListener(self)

    def _add(self, why: str, node: str, count: int, example: str) -> None:
        with self._changed:
            before = self.counts.get((why, node), 0)
            # A global table is read from the beginning with each micro-batch.
            self.counts[why, node] = count if why in (GLOBAL, GLOBAL_KEYLESS) else before + count
        if self.counts[why, node] != before:
            told = f": {example}" if example else ""
            log.warning("[Application %s, %s] Dropped %d records that %s%s", self._application, node, count, why, told)

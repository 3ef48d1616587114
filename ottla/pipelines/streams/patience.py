"""Queries begun again when the machine was too busy to begin them.

Spark starts a Python process when a query with tasks begins and waits ten seconds for it, however busy the machine is
with other processes' imports. Nothing has been done by then, so the query can simply be started again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.pipelines.streams.handlers import told

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

STARTS_MAX = 5
TOO_BUSY = "Python worker failed to connect back"


def started(start: Callable[[], StreamingQuery], wait: Callable[[StreamingQuery], object]) -> StreamingQuery:
    """A query that has been started and waited for; any failure but that of a busy machine is raised."""
    from pyspark.errors import StreamingQueryException

    for attempt in range(1, STARTS_MAX + 1):
        query = start()
        try:
            wait(query)
        except StreamingQueryException as failure:
            if TOO_BUSY not in str(failure) or attempt == STARTS_MAX:
                raise told(failure) from failure
            log.warning("[Query %s] Spark's Python did not start in time, trying again", query.name)
        else:
            return query
    raise AssertionError("a query is started or has failed")

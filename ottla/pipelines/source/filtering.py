"""A topic read once, without what the filters of the query exclude: the option `pushDownPredicate`.

Two reasons keep this reader apart from `OttlaBatchReader`. A session refuses every reader that has `pushFilters` while
its `spark.sql.python.filterPushdown.enabled` is false, which is Spark's default. And Spark (4.1 to 4.3) keeps what it
has planned with the frame that `load` returned: another query on that frame, or another part of the same query, gets
the ranges of the filters that came last. So only the user can say that a frame is for one query. Needs Spark 4.1.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.datasource import Filter

from ottla.pipelines.source.batch import OttlaBatchReader
from ottla.pipelines.source.cluster import ClusterOffsets
from ottla.pipelines.source.options import Kind, SourceOptions
from ottla.pipelines.source.planning import Range
from ottla.pipelines.source.pushdown import Pushed
from ottla.types import TopicPartition


class FilteringReader(OttlaBatchReader):
    """[start, end) of all partitions that are chosen, as far as one query needs it."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._pushed = Pushed()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Asked at most once, before `partitions`. Spark evaluates what is returned."""
        self._pushed, left = self._pushed.take(filters)
        return left

    def needed(self, ranges: list[Range], cluster: ClusterOffsets) -> list[Range]:
        """What the filters leave of the ranges."""
        found = self._pushed.narrowed(ranges)
        since_ms = self._pushed.since_ms
        if since_ms is None or not found:
            return found
        # Asked after the ends: a record that was not there then lies behind the range.
        first = cluster.first_since([TopicPartition(one.topic, one.partition) for one in found], since_ms)
        # An end that the user has named may lie behind the log's, which is for the tasks to tell.
        ends = {TopicPartition(one.topic, one.partition): one.end for one in found}
        is_named = self._options.end.kind is Kind.OFFSETS
        none = {} if is_named else {one: end for one, end in ends.items() if one not in first}
        return self._pushed.narrowed(found, first | none)

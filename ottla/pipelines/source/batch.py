"""A topic read once, from a beginning to an end: Spark's batch reader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ottla.pipelines.source.cluster import ClusterOffsets
from ottla.pipelines.source.offsets import SourceOffset
from ottla.pipelines.source.options import BadOption, SourceOptions
from ottla.pipelines.source.planning import Range, split
from ottla.pipelines.source.range_reader import Patience
from ottla.types import ZERO_UUID

if TYPE_CHECKING:
    import pyarrow as pa


class RangePartition(InputPartition):
    """What one task reads."""

    def __init__(self, wanted: Range) -> None:
        super().__init__(wanted)

    @property
    def range(self) -> Range:
        assert isinstance(self.value, Range)
        return self.value


def patience_of(options: SourceOptions) -> Patience:
    """What a task needs to know of the options when records do not come."""
    return Patience(options.poll_timeout_ms, options.attempts, options.attempt_interval_ms, options.fails_on_data_loss)


def input_partitions(ranges: list[Range], options: SourceOptions) -> list[InputPartition]:
    """The tasks for these ranges."""
    parts = split(ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
    return [RangePartition(one) for one in parts]


class RangeTasks:
    """What runs in the tasks, and travels there: no more of the options than reading needs."""

    def __init__(self, options: SourceOptions) -> None:
        self._settings = dict(options.settings)
        self._columns = options.columns
        self._patience = patience_of(options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from ottla.pipelines.source.rows import read_rows

        if partition.value is None:
            return iter(())  # Spark's stand-in where there is nothing to read
        assert isinstance(partition, RangePartition)
        return read_rows(self._settings, partition.range, self._columns, self._patience)


class OttlaBatchReader(DataSourceReader):
    """[start, end) of all partitions that are chosen."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._tasks = RangeTasks(options)

    def partitions(self) -> list[InputPartition]:
        """Asked once, in the driver, before the query runs."""
        options = self._options
        cluster = ClusterOffsets(options)
        try:
            start = cluster.resolve(options.start, is_start=True)
            end = cluster.resolve(options.end, is_start=False)
            ranges = self.needed(_between(start, end), cluster)
        finally:
            cluster.close()
        return list(input_partitions(ranges, options))

    def needed(self, ranges: list[Range], cluster: ClusterOffsets) -> list[Range]:
        """What of the ranges the query has to read: everything, as nothing is known of its filters here."""
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task."""
        return self._tasks.read(partition)


def _between(start: SourceOffset, end: SourceOffset) -> list[Range]:
    ranges = []
    for one in sorted(start.offsets.keys() & end.offsets.keys()):
        first, last = start.offsets[one], end.offsets[one]
        if first > last:
            raise BadOption(
                f"The start {first} of {one} lies behind its end {last}: look at startingOffsets and "
                "endingOffsets, and whether the topic was deleted and made anew"
            )
        ranges.append(Range(one.topic, one.partition, first, last, start.topic_ids.get(one.topic, ZERO_UUID)))
    return ranges

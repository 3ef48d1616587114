"""The spool of a source `postgresql-cdc` as a stream of Spark, with the records' numbers as its offsets.

A micro-batch is a range of whole files, so a transaction of the database is never divided, and a micro-batch that is
done again has the same records: files go when the checkpoint has them. With the option `ordered` changes are read by
one task, from which Spark's shuffle takes them to each task behind it in their order, as it does with the records of a
partition of a topic; a stream cannot be sorted. Only the rows of a snapshot, which have no order, have several tasks
then. Promises: a spool and a checkpoint that do not belong together are told, and never read past each other. Called by
`envelope`, and run by Spark in processes of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ottla.pipelines.connect.change_spool import ChangeFile, files, read_position
from ottla.pipelines.connect.changes import FIELDS, NOTHING
from ottla.pipelines.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "ottla_changes"
SCHEMA = "offset BIGINT, topic STRING, timestamp_us BIGINT, key STRING, value STRING, unavailable STRING"
BATCH_BYTES_MAX = 128 << 20
"""How much a micro-batch takes of a backlog; one file, with its transactions, it takes whatever its size."""
TASK_BYTES = 32 << 20
ARROW_ROWS = 10_000
ARROW_BYTES = 16 << 20
_STREAM, _PARTITION = "changes", "0"
"""The offsets have the form of a topic's, from which progress knows the lag."""


@dataclass
class ChangeFiles(InputPartition):
    """Files for one task."""

    paths: list[str]


class ChangeDataSource(DataSource):
    """`format("ottla_changes")`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return ChangeStreamReader(self.options["path"], is_ordered=self.options.get("ordered") == "true")


class ChangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The published files of a spool."""

    def __init__(self, path: str, *, is_ordered: bool) -> None:
        self._path = Path(path)
        self._is_ordered = is_ordered
        self._end: int | None = None
        self._is_bounded = False

    def initialOffset(self) -> dict[str, Any]:
        return _offset(0)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._is_bounded = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next micro-batch."""
        begin, latest = _of(start), self._latest()
        if latest < begin:
            raise PipelineError(
                f"the checkpoint is at record {begin}, and the spool {self._path} ends at {latest}: they belong "
                "together, and `ottla pipeline reset` takes both back to the beginning"
            )
        # A file that is being published is in the one directory or in the other when they are read in this order.
        new = self._path / "_new"
        coming = files(new) if new.is_dir() else []
        end, size = begin, 0
        for one in files(self._path):
            if one.first == end and one.end <= latest and (size == 0 or size + one.size <= BATCH_BYTES_MAX):
                end, size = one.end, size + one.size
        if end == begin < latest and not any(one.first == begin for one in coming):
            raise self._hole(begin)
        return _offset(end)

    def reportLatestOffset(self) -> dict[str, Any]:
        """Where the spool ends, for the query's progress."""
        return _offset(self._latest())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begin, stop = _of(start), _of(end)
        chosen = [one for one in files(self._path) if begin <= one.first and one.end <= stop]
        at = begin
        for one in chosen:
            if one.first != at:
                break
            at = one.end
        if at != stop:
            raise self._hole(at)
        is_snapshot = len({one.lsn for one in chosen}) == 1
        tasks = [chosen] if self._is_ordered and not is_snapshot else _shared(chosen)
        return [ChangeFiles([str(one.path) for one in some]) for some in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task."""
        assert isinstance(partition, ChangeFiles), "they are made above"
        for path in partition.paths:
            yield from _batches(path)

    def _hole(self, number: int) -> PipelineError:
        return PipelineError(
            f"the spool {self._path} has no record {number}, which the checkpoint goes on with: they belong together, "
            "and `ottla pipeline reset` takes both back to the beginning"
        )

    def _latest(self) -> int:
        if self._is_bounded and self._end is not None:
            return self._end
        position = read_position(self._path)
        self._end = 0 if position is None else position.offset
        return self._end


def _offset(number: int) -> dict[str, Any]:
    return {_STREAM: {_PARTITION: number}}


def _of(offset: dict[str, Any]) -> int:
    return int(offset[_STREAM][_PARTITION])


def offset_in(progress: object) -> int | None:
    """The record that an offset of a query's progress says is the next one; None where it says none."""
    if isinstance(progress, dict) and isinstance(progress.get(_STREAM), dict):
        return _of(progress)
    return None


def _shared(chosen: list[ChangeFile]) -> list[list[ChangeFile]]:
    """Files as tasks: what follows each other, up to a size."""
    found: list[list[ChangeFile]] = []
    size = 0
    for one in chosen:
        if not found or size + one.size > TASK_BYTES:
            found.append([])
            size = 0
        found[-1].append(one)
        size += one.size
    return found


def _batches(path: str) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    types = (pa.int64(), pa.string(), pa.int64(), pa.string(), pa.string(), pa.string())
    schema = pa.schema(list(zip(FIELDS, types, strict=True)))

    def batch(rows: list[list[str]]) -> pa.RecordBatch:
        columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)]
        for index, type_ in enumerate(types):
            if type_ == pa.int64():
                columns[index] = [int(value) for value in columns[index]]
            else:
                columns[index] = [None if value == NOTHING else value for value in columns[index]]
        arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    rows: list[list[str]] = []
    size = 0
    with open(path, encoding="utf-8", newline="\n") as lines:
        for line in lines:
            parts = line.removesuffix("\n").split("\t")
            if len(parts) != len(FIELDS):
                raise PipelineError(f"{path} is damaged: a line has {len(parts)} parts and not {len(FIELDS)}")
            rows.append(parts)
            size += len(line)
            if len(rows) >= ARROW_ROWS or size >= ARROW_BYTES:
                yield batch(rows)
                rows, size = [], 0
    if rows:
        yield batch(rows)

"""The writers that Spark runs: `write` in the tasks, `commit` or `abort` once they are done.

Spark makes a streaming writer anew for each micro-batch, in a process that plans it, and once more, in another process,
to commit it. Only the one that plans is sent to tasks: so a transaction is begun when the writer is pickled, and never
by the one that commits. Made by `writer` and `stream_writer`, for `ottla.pipelines.data_source`; `BatchWriter`,
`current_task` and `written_by` are for writers that know their micro-batch otherwise (streams).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from ottla.pipelines.sink import at_least_once, exactly_once
from ottla.pipelines.sink.exactly_once import Plan, Task, Written
from ottla.pipelines.sink.options import Delivery, SinkOptions, read_options
from ottla.pipelines.sink.rows import RowShape, require_placed, row_shape

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

BATCH_ID = "streaming.sql.batchId"
QUERY_ID = "sql.streaming.queryId"
"""The local properties of Spark's streaming tasks."""


@dataclass
class Done(WriterCommitMessage):
    """What a task tells the committer."""

    written: Written | None
    """None where the delivery is at-least-once: there is nothing left to do."""


class _Writing:
    """What both writers do in the tasks."""

    def __init__(self, options: SinkOptions, shape: RowShape) -> None:
        self.options = options
        self.shape = shape
        self.plan: Plan | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Called on the way to the tasks, and so the moment to plan; once, however often it is sent."""
        if self.plan is None and self.options.delivery is Delivery.EXACTLY_ONCE:
            self.plan = exactly_once.plan(self.options)
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Done:
        if self.options.delivery is Delivery.AT_LEAST_ONCE:
            at_least_once.write(self.options, self.shape, iterator)
            return Done(None)
        assert self.plan is not None, "a writer that has reached a task was planned"
        return Done(exactly_once.write(self.options, self.shape, self.plan, self.task(), iterator))

    def task(self) -> Task:
        """The attempt of a task that this is, and the micro-batch that it is of."""
        return current_task()


class BatchWriter(_Writing, DataSourceArrowWriter):
    """`df.write.format("ottla")`"""

    def task(self) -> Task:
        # A job within somebody's foreachBatch runs in the query's micro-batch, but what it writes has no id to skip by.
        return replace(current_task(), batch_id=None)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        exactly_once.commit(self.options, written_by(messages), None)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        opened = [] if self.plan is None else [Written(self.plan.transaction)]
        exactly_once.abort(self.options, opened)


class StreamWriter(_Writing, DataSourceStreamArrowWriter):
    """`df.writeStream.format("ottla")`"""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        exactly_once.commit(self.options, written_by(messages), batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        exactly_once.abort(self.options, written_by(messages))


def writer(options: Mapping[str, str], schema: StructType) -> BatchWriter:
    """The writer of a batch job, for a frame of this schema."""
    read = read_options(options, is_streaming=False)
    if read.delivery is Delivery.EXACTLY_ONCE and read.transactional_id is None:
        read = replace(read, transactional_id=f"ottla-batch-{uuid4()}")
    return BatchWriter(read, shape_for(read, schema))


def stream_writer(options: Mapping[str, str], schema: StructType) -> StreamWriter:
    """The writer of one micro-batch, for a frame of this schema."""
    read = read_options(options, is_streaming=True)
    return StreamWriter(read, shape_for(read, schema))


def shape_for(options: SinkOptions, schema: StructType) -> RowShape:
    """How a frame of this schema becomes records; one that cannot be written as the options ask is refused."""
    shape = row_shape(schema, options.topic, includes_timestamp=options.includes_timestamp)
    if options.delivery is Delivery.EXACTLY_ONCE:
        require_placed(shape)
    return shape


def current_task() -> Task:
    """The attempt of a task that this is, as Spark tells it."""
    context = TaskContext.get()
    assert context is not None, "rows are written in tasks"
    batch_id = context.getLocalProperty(BATCH_ID)
    return Task(
        index=context.partitionId(),
        attempt=context.attemptNumber(),
        batch_id=None if batch_id is None else int(batch_id),
        query_id=context.getLocalProperty(QUERY_ID) or "",
    )


def written_by(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    """What the tasks of a micro-batch have told, where they had anything to tell."""
    return [one.written for one in messages if isinstance(one, Done) and one.written is not None]

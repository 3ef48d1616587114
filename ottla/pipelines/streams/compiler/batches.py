"""Exactly once for queries in update mode, which Spark gives to no sink written in Python but through `foreachBatch`.

The batch's rows are written by the same transaction as a streaming sink's: one a micro-batch, with the batch's id in
it, so a batch that is tried again is skipped. `foreachBatch` hands the id over; a data source of our own carries it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage

from ottla.pipelines.sink import exactly_once
from ottla.pipelines.sink.options import Delivery, SinkOptions, read_options
from ottla.pipelines.sink.rows import RowShape, row_shape
from ottla.pipelines.sink.writers import BatchWriter, Done, _task, _written

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

FORMAT = "ottla-micro-batch"
BATCH_ID = "batchId"


class MicroBatchSink(DataSource):
    """`df.write.format("ottla-micro-batch")`, with the options of the sink and `batchId`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of one micro-batch."""
        given = {name: value for name, value in self.options.items() if name.lower() != BATCH_ID.lower()}
        options = read_options(given, is_streaming=False)
        return MicroBatchWriter(options, row_shape(schema, options.topic), int(self.options[BATCH_ID]))


class MicroBatchWriter(BatchWriter):
    """A batch's writer that knows which micro-batch it writes."""

    def __init__(self, options: SinkOptions, shape: RowShape, batch_id: int) -> None:
        super().__init__(options, shape)
        self.batch_id = batch_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Done:
        """One task's rows."""
        if self.options.delivery is Delivery.AT_LEAST_ONCE:
            return super().write(iterator)
        assert self.plan is not None, "a writer that has reached a task was planned"
        # The name of the transaction stands for the query: Spark's own id of it is not in a batch job's tasks.
        task = replace(_task(), batch_id=self.batch_id, query_id=self.options.transactional_id or "")
        return Done(exactly_once.write(self.options, self.shape, self.plan, task, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Ends the transaction, with the batch's id in it."""
        exactly_once.commit(self.options, _written(messages), self.batch_id)

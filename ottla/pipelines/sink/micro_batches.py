"""Exactly once for queries in update mode, which Spark gives to no sink written in Python but through `foreachBatch`.

The batch's rows are written by the same transaction as a streaming sink's: one a micro-batch, with the batch's id in
it, so a batch that is tried again is skipped. `foreachBatch` hands the id over; a data source of our own carries it.
Called by `stream_modes`, and by the queries of `ottla.pipelines.streams`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage

from ottla.pipelines.sink import exactly_once
from ottla.pipelines.sink.exactly_once import Task
from ottla.pipelines.sink.options import SinkOptions, read_options
from ottla.pipelines.sink.rows import RowShape
from ottla.pipelines.sink.writers import BatchWriter, current_task, shape_for, written_by

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "ottla-micro-batch"
BATCH_ID = "batchId"
QUERY_NAME = "queryName"
ADDRESS_NAME = "addressName"


class MicroBatchSink(DataSource):
    """`df.write.format("ottla-micro-batch")`, with the options of the sink, `batchId`, `queryName` (the query's id) and
    `addressName` (what the query may have been called before, see `ottla.pipelines.sink.memory`)."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of one micro-batch."""
        ours = (BATCH_ID.lower(), QUERY_NAME.lower(), ADDRESS_NAME.lower())
        given = {name: value for name, value in self.options.items() if name.lower() not in ours}
        options = read_options(given, is_streaming=False)
        batch_id, query_name = int(self.options[BATCH_ID]), self.options[QUERY_NAME]
        address_name = self.options.get(ADDRESS_NAME, "")
        return MicroBatchWriter(options, shape_for(options, schema), batch_id, query_name, address_name)


class MicroBatchWriter(BatchWriter):
    """A batch's writer that knows which micro-batch it writes."""

    def __init__(
        self, options: SinkOptions, shape: RowShape, batch_id: int, query_name: str, address_name: str
    ) -> None:
        super().__init__(options, shape)
        self.batch_id = batch_id
        self.query_name = query_name
        self.address_name = address_name

    def task(self) -> Task:
        """The attempt, of the micro-batch that the options name."""
        # Not the name of the transaction, which is the application's: the batches of a new checkpoint are new ones.
        told = current_task()
        return replace(told, batch_id=self.batch_id, query_id=self.query_name, address_name=self.address_name)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Ends the transaction, with the batch's id in it."""
        exactly_once.commit(self.options, written_by(messages), self.batch_id)

"""`df.writeStream` to topics in every output mode, for `write_stream`.

Spark refuses update mode to every sink written in Python: its `PythonWriteBuilder` is no
`SupportsStreamingUpdateAsAppend`. `foreachBatch` takes every mode, and so a query in update mode writes each of its
micro-batches through `micro_batches`, by the same transaction and under the same names as the streaming sink.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.utils import to_str

from ottla.pipelines.sink.memory import sink_name
from ottla.pipelines.sink.micro_batches import BATCH_ID, FORMAT, QUERY_NAME, MicroBatchSink
from ottla.pipelines.sink.options import Delivery
from ottla.pipelines.sink.writers import QUERY_ID

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


class TopicStreamWriter(DataStreamWriter):
    """Spark's writer, which remembers what it was told: `foreachBatch` gets none of it."""

    def __init__(self, df: DataFrame) -> None:
        super().__init__(df)
        self._given: dict[str, str] = {}
        self._output_mode = "append"

    def outputMode(self, outputMode: str) -> DataStreamWriter:
        self._output_mode = outputMode.strip().lower()
        return super().outputMode(outputMode)

    def option(self, key: str, value: Any) -> DataStreamWriter:
        text = to_str(value)
        if text is not None:
            self._given[key.lower()] = text
        return super().option(key, value)

    def options(self, **options: Any) -> DataStreamWriter:
        for key, value in options.items():
            self.option(key, value)
        return self

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: Any,
    ) -> StreamingQuery:
        self.options(**options)
        if outputMode is not None:
            self.outputMode(outputMode)
        if self._output_mode == "update":
            self._spark.dataSource.register(MicroBatchSink)
            self.foreachBatch(_EachBatch(dict(self._given)))
        return super().start(path, format, None, partitionBy, queryName)


@dataclass(frozen=True, slots=True)
class _EachBatch:
    """Writes a micro-batch, under the id of the query."""

    given: dict[str, str]
    """The options, by their names in lower case."""

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        query_id = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        assert query_id, "Spark runs foreachBatch in the query's own thread, which has the query's id"
        told = {"delivery": Delivery.EXACTLY_ONCE.value, "transactionalid": sink_name(query_id), **self.given}
        told |= {BATCH_ID: str(batch_id), QUERY_NAME: query_id}
        batch.write.format(FORMAT).options(**told).mode("append").save()

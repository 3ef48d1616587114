"""`format("ottla")`: topics as Spark data sources, read and written, in batches and as streams.

Spark finds it by itself through the module `pyspark_ottla`; `spark.dataSource.register(OttlaDataSource)` is for a
Spark that does not. Reading is in `ottla.pipelines.source`, writing in `ottla.pipelines.sink`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.pipelines.source.options import BadOption, SourceOptions, read_columns
from ottla.pipelines.spark import require_spark

require_spark()

from pyspark.sql.datasource import DataSource, DataSourceReader  # noqa: E402  what is missing is told first
from pyspark.sql.types import (  # noqa: E402
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )

log = logging.getLogger(__name__)

TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}


class OttlaDataSource(DataSource):
    """Topics of Ottla, and of any Kafka from 2.1 on."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        """The columns, which the options `columns` and `includeHeaders` choose. Asked for when a frame is loaded, which
        is when wrong options are told; whether it will be a batch or a stream is not known then."""
        try:
            SourceOptions.read(self.options, is_streaming=True)
        except BadOption:  # second, because a batch warns of the options that only a stream heeds
            try:
                SourceOptions.read(self.options, is_streaming=False)
            except BadOption as refused:
                raise refused from None
        return StructType([StructField(name, TYPES[name]) for name in read_columns(self.options)])

    def reader(self, schema: StructType) -> DataSourceReader:
        from ottla.pipelines.source.batch import OttlaBatchReader

        self._check_schema(schema)
        options = SourceOptions.read(self.options, is_streaming=False)
        if not options.pushes_filters:
            return OttlaBatchReader(options)
        if not hasattr(DataSourceReader, "pushFilters"):
            log.warning("pushDownPredicate has no effect before Spark 4.1: everything is read")
            return OttlaBatchReader(options)
        from ottla.pipelines.source.filtering import FilteringReader

        return FilteringReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from ottla.pipelines.source.stream import OttlaStreamReader

        self._check_schema(schema)
        return OttlaStreamReader(SourceOptions.read(self.options, is_streaming=True))

    def _check_schema(self, schema: StructType) -> None:
        if schema != self.schema():
            raise BadOption("The columns of a topic are fixed: leave .schema() out, and choose with the option columns")

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from ottla.pipelines.sink import writer

        if overwrite:
            raise BadOption("The save mode overwrite is not allowed: a topic can only be appended to")
        return writer(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from ottla.pipelines.sink import stream_writer

        return stream_writer(self.options, schema)

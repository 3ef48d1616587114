"""A real Spark session, made as users make it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.functions import col

import ottla.pipelines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_workers_run_this_interpreter_and_can_import_what_spark_looks_for(spark: SparkSession) -> None:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyspark_ottla

        for batch in batches:
            yield pa.record_batch(
                {"python": [sys.executable] * len(batch), "module": [pyspark_ottla.__name__] * len(batch)}
            )

    rows = spark.range(1).mapInArrow(look, "python string, module string").collect()
    assert [(row.python, row.module) for row in rows] == [(sys.executable, "pyspark_ottla")]


def test_a_second_call_is_the_same_session_with_the_settings_that_it_names(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    again = ottla.pipelines.session("another", spark_sql_shuffle_partitions=3)
    try:
        assert again is spark
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
        assert spark.range(9).groupBy(col("id") % 3).count().count() == 3
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before or "2")


def test_time_is_utc_and_state_is_kept_in_rocksdb(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    assert "RocksDB" in (spark.conf.get("spark.sql.streaming.stateStore.providerClass") or "")
    assert spark.sql("select cast('1970-01-01 00:00:00' as timestamp) = timestamp_seconds(0) as same").first() == (
        True,
    )

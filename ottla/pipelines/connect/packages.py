"""Formats that Spark has only with a package of theirs: whether it is there, and which one it would be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from ottla.pipelines.errors import MissingDependency

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOW = {
    "delta": "pip install delta-spark, or `spark: {spark.jars.packages: 'io.delta:delta-spark_...'}` in the file",
    "iceberg": "`spark: {spark.jars.packages: 'org.apache.iceberg:iceberg-spark-runtime-...'}` in the file",
}


def require_format(spark: SparkSession, name: str) -> None:
    """One line where Spark does not know the format."""
    try:
        spark.read.format(name).load("ottla-asks-whether-you-are-there")
    except (PySparkException, Py4JJavaError) as error:
        if "[DATA_SOURCE_NOT_FOUND]" in str(error):
            raise MissingDependency(f"{name} needs its package for this version of Spark: {HOW[name]}") from None
        # It is there, and has said what it thinks of the name.

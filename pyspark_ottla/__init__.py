"""Where Spark finds `format("ottla")`: it imports every top-level module named `pyspark_*`."""

from ottla.pipelines.data_source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]

"""Where Spark finds `format("ottla")`: it imports every top-level module named `pyspark_*`."""

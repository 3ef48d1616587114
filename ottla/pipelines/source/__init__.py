"""Topics as DataFrames: what `format("ottla")` reads, in batches and as a stream.

The driver plans (`options`, `cluster`, `planning`), the tasks read (`range_reader`, `rows`), and `batch` and `stream`
are what Spark calls. Only those two import pyspark; only `rows` imports pyarrow.
"""

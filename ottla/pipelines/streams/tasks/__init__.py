"""What remembers, record by record: one task of a stateful step, as Kafka Streams runs one for each partition.

Spark's own windows and joins close by one watermark for a whole query, moved between batches. Kafka Streams' close by
the stream time of each partition, moved by each record: what is late does not depend on how records were cut into
batches. So steps that have a clock run here, inside `transformWithState`, one group a task. Plain Python: no Spark.
"""

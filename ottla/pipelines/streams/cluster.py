"""The topics of a running topology: read, made, counted and written, all through `format("ottla")`."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from ottla.client import Admin, NewTopic
from ottla.client.config import FIRST_CONTACT
from ottla.errors import TopicAlreadyExists
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.source.offsets import batch_limit
from ottla.pipelines.source.options import LIMITS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.pipelines.streams.compiler.queries import Compiled


log = logging.getLogger(__name__)

OWN_TOPIC = {"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": str(50 * 1024 * 1024)}
"""The settings of a topic between queries, those that Kafka Streams gives its own: `purging` deletes, not the clock."""


class ClusterTopics:
    """A cluster, for one topology."""

    def __init__(
        self,
        spark: SparkSession,
        bootstrap: str,
        *,
        kafka: Mapping[str, str],
        source: Mapping[str, str],
        sink: Mapping[str, str],
    ) -> None:
        self._spark = spark
        self._kafka = {"kafka.bootstrap.servers": bootstrap, **{f"kafka.{name}": text for name, text in kafka.items()}}
        self._source = {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed", **source}
        self._sink = dict(sink)
        self._admin = {**FIRST_CONTACT, "bootstrap.servers": bootstrap, **kafka}
        self.partitions: dict[str, int] = {}
        self.matched: dict[str, list[str]] = {}
        """The topics that matched a pattern when they were last asked for."""

    def read_stream(
        self, topics: Sequence[str], columns: Sequence[str], *, pattern: str | None = None, reset: str | None = None
    ) -> DataFrame:
        """Records as they come, in micro-batches that have a limit: the one of `source`, or `batch_limit`."""
        reader = self._spark.readStream.format("ottla").options(**self._kafka, **self._source)
        if reset is not None:
            reader = reader.option("startingOffsets", reset)
        reader = reader.option("includeHeaders", "headers" in columns)
        if not {name.lower() for name in self._source} & {name.lower() for name in LIMITS}:
            read = topics if pattern is None else self.matched.get(pattern, ())
            reader = reader.option(LIMITS[0], batch_limit(sum(self.partitions[topic] for topic in read)))
        if pattern is None:
            reader = reader.option("subscribe", ",".join(topics))
        else:
            reader = reader.option("subscribePattern", pattern)
        return reader.option("columns", ",".join(columns)).load()

    def read_all(self, topic: str) -> DataFrame:
        """All records there are, asked anew with each micro-batch."""
        # The query runs already: a cluster that restarts meanwhile is waited for.
        patient = {"kafka.bootstrap.connect.timeout.ms": "-1"}
        reader = self._spark.read.format("ottla").options(**{**patient, **self._kafka})
        reader = reader.option("kafka.isolation.level", "read_committed")
        return reader.option("columns", "key,value,partition,offset").option("subscribe", topic).load()

    def admin(self) -> Admin:
        """An admin of the cluster."""
        return Admin(self._admin)

    def match(self, patterns: Iterable[str]) -> dict[str, list[str]]:
        """The topics whose whole names match each pattern today; Kafka's own are left out."""
        wanted = sorted(set(patterns))
        if wanted:
            with self.admin() as admin:
                there = sorted(admin.list_topics())
            self.matched = {one: [topic for topic in there if re.fullmatch(one, topic)] for one in wanted}
        return self.matched

    def count_partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """How many partitions topics have; one that is not there is refused, for nobody would ever read from it."""
        wanted = sorted(set(topics))
        with self.admin() as admin:
            there = admin.list_topics(include_internal=True)
            missing = [topic for topic in wanted if topic not in there]
            if missing:
                raise PipelineError(f"create the topics of the topology first: {', '.join(missing)} does not exist")
            found = admin.describe_topics(wanted)
            counts = {topic: len(found[topic].result().partitions) for topic in wanted}
        self.partitions.update(counts)
        return counts

    def ensure_topics(self, topics: Mapping[str, int]) -> None:
        """Makes the application's own topics that are not there; those that are keep the partitions they have."""
        with self.admin() as admin:
            there = admin.list_topics(include_internal=True)
            missing = {topic: count for topic, count in topics.items() if topic not in there}
            outcomes = admin.create_topics(
                [NewTopic(topic, count, configs=OWN_TOPIC) for topic, count in missing.items()]
            )
            for topic in missing:
                try:
                    outcomes[topic].result()
                except TopicAlreadyExists:
                    continue  # another start of the application was faster
        for topic, count in self.count_partitions(topics).items():
            if count != topics[topic]:
                log.warning(
                    "[Topic %s] It has %d partitions, and the topology asks for %d: it keeps those it has, on which "
                    "no state depends. To have it made anew, reset the steps that use it",
                    topic,
                    count,
                    topics[topic],
                )

    def write(
        self, compiled: Compiled, checkpoint: str, transactional_id: str, *, interval: str | None
    ) -> StreamingQuery:
        """Starts a query, with a micro-batch every `interval`; without one, over what there is now."""
        rows = self._placed(compiled)
        writer = rows.writeStream.queryName(transactional_id).option("checkpointLocation", checkpoint)
        writer = writer.trigger(availableNow=True) if interval is None else writer.trigger(processingTime=interval)
        options = {**self._kafka, **self._sink, "includeTimestamp": "true"}
        if not compiled.updates:
            return writer.format("ottla").options(**options, transactionalId=transactional_id).start()
        from ottla.pipelines.sink.micro_batches import MicroBatchSink

        self._spark.dataSource.register(MicroBatchSink)
        options = {"delivery": "exactly-once", **options, "transactionalId": transactional_id}
        return writer.outputMode("update").foreachBatch(_EachBatch(checkpoint, options)).start()

    def _placed(self, compiled: Compiled) -> DataFrame:
        """Rows with their partition, each partition of each topic in one task."""
        from pyspark.sql import functions as F

        from ottla.pipelines.sink.partitioning import already_placed, divided, partition_column

        rows = compiled.rows
        counts = {topic: self.partitions[topic] for topic in compiled.writes}
        if compiled.names_topics:
            return self._placed_by_rows(rows, counts)
        if not counts:
            return already_placed(rows.withColumn("partition", F.lit(0)))
        by_count = {count: partition_column(rows, count) for count in set(counts.values())}
        (_, column), *others = ((topic, by_count[count]) for topic, count in counts.items())
        chosen: Column = reduce(
            lambda so_far, other: F.when(F.col("topic") == other[0], other[1]).otherwise(so_far), others, column
        )
        return divided(rows.withColumn("partition", chosen), max(counts.values()))

    def _placed_by_rows(self, rows: DataFrame, counts: Mapping[str, int]) -> DataFrame:
        """As `_placed`, where rows name topics of which nothing is known yet."""
        from pyspark.sql import functions as F

        from ottla.pipelines.sink.partitioning import divided, partition_column
        from ottla.pipelines.streams.placing import partition_of

        chosen = partition_of(counts, self._admin)
        for topic, count in counts.items():
            chosen = F.when(F.col("topic") == topic, partition_column(rows, count)).otherwise(chosen)
        return divided(rows.withColumn("partition", chosen), max(self.partitions.values(), default=1))


class _EachBatch:
    """Writes a micro-batch under the id of its query. Over Spark Connect it runs at the server."""

    def __init__(self, checkpoint: str, options: Mapping[str, str]) -> None:
        self._checkpoint = checkpoint
        self._options = options
        self._query_id: str | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        from ottla.pipelines.sink.micro_batches import ADDRESS_NAME, BATCH_ID, FORMAT, QUERY_NAME
        from ottla.pipelines.sink.options import query_name

        if self._query_id is None:
            # Read through Spark, which reaches any file system. Spark Connect tells the id in no other way.
            (row,) = batch.sparkSession.read.text(f"{self._checkpoint}/metadata").collect()
            self._query_id = str(json.loads(row[0])["id"])
        told = {BATCH_ID: str(batch_id), QUERY_NAME: self._query_id, ADDRESS_NAME: query_name(self._checkpoint)}
        batch.write.format(FORMAT).options(**self._options, **told).mode("append").save()

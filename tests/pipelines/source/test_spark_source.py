"""`format("ottla")` in a real Spark, on a real broker: what only the two together can show."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from ottla.client.admin import NewPartitions
from ottla.client.producer import Producer
from ottla.testing import Cluster
from ottla.types import TopicPartition
from tests.pipelines.source.support import admin, numbered, offsets_of, produce, recreate, topic_id
from tests.support.clients import eventually, new_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PATIENCE_S = 60


class Counted:
    """The values that a streaming query has given to its sink, by batch."""

    def __init__(self, spark: SparkSession, cluster: Cluster, checkpoint: Path, **options: str) -> None:
        self.spark = spark
        self.options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, **options}
        self.checkpoint = checkpoint
        self.batches: list[list[str]] = []

    def start(self, **trigger: bool) -> StreamingQuery:
        def take(rows: DataFrame, _: int) -> None:
            self.batches.append(sorted(row.value for row in rows.select(F.col("value").cast("string")).collect()))

        frame = self.spark.readStream.format("ottla").options(**self.options).load()
        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(self.checkpoint))
        return (writer.trigger(**trigger) if trigger else writer).start()

    def run(self) -> list[list[str]]:
        """Everything that is there; returns the micro-batches of this run."""
        before = len(self.batches)
        query = self.start(availableNow=True)
        assert query.awaitTermination(PATIENCE_S), "the query has come to its end"
        return self.batches[before:]

    def has(self, count: int) -> bool:
        return sum(map(len, self.batches)) >= count

    def values(self) -> list[str]:
        return sorted((value for batch in self.batches for value in batch), key=int)


@pytest.fixture
def counted(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> Callable[..., Counted]:
    def make(**options: str) -> Counted:
        return Counted(spark, cluster, tmp_path / "checkpoint", **options)

    return make


def texts(count: int, start: int = 0) -> list[str]:
    return [str(number) for number in range(start, start + count)]


def test_spark_finds_the_format_by_itself_and_reads_a_batch(spark: SparkSession, cluster: Cluster) -> None:
    topic = cluster.create_topic(new_topic("batch"), partitions=3)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(300):
            headers = [("n", b"%d" % number)] if number % 2 else []
            producer.send(topic, value=b"%d" % number, key=b"k" if number % 3 else None, headers=headers)
        producer.flush()

    def read(**options: str) -> DataFrame:
        return _read(spark, cluster, subscribe=topic, **options)

    frame = read(includeHeaders="true", minPartitions="5")
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    rows = frame.selectExpr("cast(cast(value as string) as int) n", "key", "topic", "headers").collect()
    assert sorted(row.n for row in rows) == list(range(300))
    for row in rows:
        assert row.topic == topic
        assert (row.key is None) == (row.n % 3 == 0)
        assert row.headers == ([("n", b"%d" % row.n)] if row.n % 2 else None)
    assert frame.count() == 300
    assert frame.limit(7).count() == 7
    chosen = read(columns="value")
    assert chosen.columns == ["value"]
    assert chosen.select(F.sum(F.length("value"))).collect() == [(sum(map(len, texts(300))),)]
    assert read(endingOffsets=json.dumps({topic: dict.fromkeys("012", 0)})).count() == 0


def _read(spark: SparkSession, cluster: Cluster, **options: str) -> DataFrame:
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    return reader.options(**options).load()


def test_what_spark_is_told_wrong_is_told_back_in_one_line(spark: SparkSession, cluster: Cluster) -> None:
    with pytest.raises(PySparkException, match="BadOption: One of the options subscribe, subscribePattern and assign"):
        _read(spark, cluster)
    with pytest.raises(PySparkException, match="BadOption: There is no column 'size'"):
        _read(spark, cluster, subscribe="t", columns="size")
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    with pytest.raises(PySparkException, match="BadOption: The columns of a topic are fixed"):
        reader.option("subscribe", "t").schema("value string").load().count()


def test_a_query_goes_on_from_its_checkpoint_wherever_that_has_moved(
    counted: Callable[..., Counted], cluster: Cluster, tmp_path: Path
) -> None:
    """Micro-batches of five; stopped, moved to another path, with new records and a new partition meanwhile."""
    topic = cluster.create_topic(new_topic("moved"), partitions=2)
    produce(cluster, topic, numbered(12))
    group = new_topic("lag")
    query = counted(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="5", commitGroup=group)
    assert [len(batch) for batch in query.run()] == [5, 5, 2]
    offsets = (query.checkpoint / "offsets" / "2").read_text().splitlines()
    assert offsets_of(json.loads(offsets[-1])) == {topic: {"0": 12, "1": 0}}, "the form of Spark's own connector"
    with admin(cluster) as client:
        found = client.list_consumer_group_offsets(group)[group].result()
        assert {one.partition: at.offset for one, at in found.items() if at} == {0: 12, 1: 0}
        client.create_partitions({topic: NewPartitions(3)})
    produce(cluster, topic, numbered(3, start=12), partition=2)
    query.checkpoint = query.checkpoint.rename(tmp_path / "elsewhere")
    assert query.run() == [sorted(texts(3, start=12))]
    assert query.run() == []
    assert query.values() == texts(15)


def test_a_topic_that_is_recreated_ends_the_query_or_is_read_once(
    counted: Callable[..., Counted], cluster: Cluster
) -> None:
    """Once while the query stands still and once while it runs, with more records than the checkpoint's offset says."""
    topic = cluster.create_topic(new_topic("recreated"))
    produce(cluster, topic, numbered(100))
    query = counted(subscribe=topic, startingOffsets="earliest")
    query.run()
    before = topic_id(cluster, topic)
    recreate(cluster, topic, numbered(250, start=100))
    with pytest.raises(PySparkException, match=f"DataLoss: The topic {topic} was deleted .* its id was {before}"):
        query.run()
    query.options["failOnDataLoss"] = "false"
    running = query.start()
    try:
        eventually(lambda: query.has(350), "the new topic is read", timeout_s=PATIENCE_S)
        recreate(cluster, topic, numbered(150, start=350))
        eventually(lambda: query.has(500), "the newest topic is read", timeout_s=PATIENCE_S)
        running.processAllAvailable()  # a batch that Spark has not noted yet would be given to the sink again
    finally:
        running.stop()
    assert query.run() == []
    assert query.values() == texts(500)


def test_a_query_goes_on_while_its_broker_restarts_and_its_topic_grows(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster(processes=True) as cluster:
        topic = cluster.create_topic("restarted")
        query = Counted(spark, cluster, tmp_path / "checkpoint", subscribe=topic, startingOffsets="earliest")
        running = query.start()
        for partition in range(3):
            produce(cluster, topic, numbered(10, start=partition * 20), partition=partition)
            eventually(partial(query.has, partition * 20 + 10), "what was written is read", PATIENCE_S)
            cluster.restart()
            produce(cluster, topic, numbered(10, start=partition * 20 + 10), partition=partition)
            with admin(cluster) as client:
                client.create_partitions({topic: NewPartitions(partition + 2)})
        eventually(partial(query.has, 60), "everything is read", PATIENCE_S)
        running.stop()
        assert query.values() == texts(60)
        assert running.exception() is None


def test_lost_records_end_the_query_with_what_was_lost_or_are_left_out(
    counted: Callable[..., Counted], cluster: Cluster
) -> None:
    topic = cluster.create_topic(new_topic("lost"))
    produce(cluster, topic, numbered(10))
    query = counted(subscribe=topic, startingOffsets="earliest")
    assert query.run() == [texts(10)]
    produce(cluster, topic, numbered(10, start=10))
    with admin(cluster) as client:
        client.delete_records({TopicPartition(topic, 0): 15})
    with pytest.raises(PySparkException, match=f"5 offsets of {topic}-0 were lost, from 10 to 14"):
        query.run()
    query.options["failOnDataLoss"] = "false"
    assert query.run() == [texts(5, start=15)]

"""`pushDownPredicate` in a real Spark, on a real broker: fewer ranges and records are read, and the rows are the same.

The judge is Spark: the same condition on a frame that reads everything.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import Filter, GreaterThan, GreaterThanOrEqual

from ottla.client.producer import Producer
from ottla.pipelines.source.filtering import FilteringReader
from ottla.pipelines.source.pushdown import EPOCH
from ottla.testing import Cluster
from tests.pipelines.source.support import read_batch, source, table
from tests.support.clients import new_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

CONF = "spark.sql.python.filterPushdown.enabled"
BEGIN_MS = 1_700_000_000_000
RECORDS = 100
"""In each partition of the topics that are not compacted."""
COLUMNS = ("topic", "partition", "offset", "timestamp", "value")


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    """A node that compacts at once."""
    with Cluster(settings={"log.cleaner.backoff.ms": "50", "log.initial.task.delay.ms": "10"}) as running:
        yield running


@pytest.fixture(scope="module")
def topics(node: Cluster) -> str:
    """Three partitions in the order of time, three out of it, one that is empty, and one with holes."""
    for name in ("f-ordered", "f-shuffled"):
        node.create_topic(name, partitions=3, retention_ms=-1)
    node.create_topic("f-empty")
    node.create_topic("f-holes", cleanup_policy="compact", segment_ms=50, min_cleanable_dirty_ratio=0.01)
    chance = random.Random(7)
    with Producer(bootstrap_servers=node.bootstrap_servers) as producer:
        for partition in range(3):
            times = [BEGIN_MS + number * 1000 for number in range(RECORDS)]
            shuffled = chance.sample(times, RECORDS)
            for ordered_ms, shuffled_ms in zip(times, shuffled, strict=True):
                producer.send("f-ordered", value=b"v", partition=partition, timestamp_ms=ordered_ms)
                producer.send("f-shuffled", value=b"v", partition=partition, timestamp_ms=shuffled_ms)
        producer.flush()
        for _ in range(200):
            for number in range(20):
                time_ms = BEGIN_MS + chance.randrange(RECORDS) * 1000
                last = producer.send_and_wait("f-holes", value=b"v", key=b"%d" % (number % 4), timestamp_ms=time_ms)
            if read_batch(node, subscribe="f-holes").num_rows <= last.offset:
                break
    return "f-empty,f-holes,f-ordered,f-shuffled"


def load(spark: SparkSession, node: Cluster, **options: str) -> DataFrame:
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", node.bootstrap_servers)
    return reader.options(**options).load().select(*COLUMNS)


def ordered(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect())


def scan(frame: DataFrame) -> tuple[int, int]:
    """How many tasks have read the frame, which was collected, and how many records."""
    (leaf,) = _list(frame._jdf.queryExecution().executedPlan().collectLeaves())
    return leaf.inputRDD().getNumPartitions(), leaf.metrics().apply("numOutputRows").value()


def _list(found: Any) -> list[Any]:
    """Of a list of Scala's."""
    return [found.apply(index) for index in range(found.size())]


def after(seconds: float) -> str:
    return f"timestamp_millis({BEGIN_MS + int(seconds * 1000)})"


CONDITIONS: dict[str, tuple[int | None, int | None]] = {
    # the condition: how many tasks may read, and how many records; None: of everything that is there
    "partition = 1": (2, 2 * RECORDS),
    "partition in (0, 2) and topic = 'f-ordered'": (2, 2 * RECORDS),
    "topic like 'f-or%' and partition <> 0": (2, 2 * RECORDS),
    "topic in ('f-empty', 'f-none')": (1, 0),
    "topic = 'f-shuffled' and offset >= 10 and offset < 15": (3, 15),
    "topic = 'f-shuffled' and offset = 99": (3, 3),
    "topic = 'f-shuffled' and offset in (3, 8)": (3, 3 * 6),
    "topic = 'f-ordered' and offset > 1000000": (1, 0),
    "partition = 7 or offset < 0": (None, None),
    f"topic = 'f-ordered' and timestamp >= {after(90)}": (3, 30),
    f"topic = 'f-ordered' and timestamp > {after(89.5)}": (3, 30),
    f"topic = 'f-ordered' and timestamp > {after(99)}": (1, 0),
    f"topic = 'f-shuffled' and timestamp >= {after(95)}": (3, 3 * RECORDS - 1),
    f"topic = 'f-shuffled' and timestamp between {after(40)} and {after(41)}": (3, 3 * RECORDS - 1),
    f"topic = 'f-ordered' and timestamp < {after(10)}": (3, 3 * RECORDS),
    f"timestamp >= {after(50)}": (None, None),
    "topic = 'f-holes' and offset > 5": (1, None),
    f"topic = 'f-holes' and timestamp = {after(3)}": (1, None),
    "cast(value as string) = 'v' and offset % 2 = 0": (None, None),
    "value is null": (None, None),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_rows_are_those_of_a_query_that_reads_everything(
    spark: SparkSession, node: Cluster, topics: str, condition: str
) -> None:
    tasks_max, records_max = CONDITIONS[condition]
    ends = {"subscribe": topics, "failOnDataLoss": "false"}  # what is compacted meanwhile is gone for both
    judge = load(spark, node, **ends)
    there = judge.count()
    ours = load(spark, node, pushDownPredicate="true", **ends).where(condition)
    rows = ordered(ours)
    holes = [row for row in rows if row.topic == "f-holes"]
    expected = ordered(judge.where(condition))
    assert [row for row in rows if row not in holes] == [row for row in expected if row.topic != "f-holes"]
    assert set(holes) >= {row for row in expected if row.topic == "f-holes"}, "the cleaner may have been here since"
    tasks, records = scan(ours)
    assert tasks <= (8 if tasks_max is None else tasks_max)
    assert records <= (there if records_max is None else records_max)
    assert records >= len(rows)


def test_a_partition_out_of_order_is_cut_before_its_first_young_record_only(node: Cluster, topics: str) -> None:
    """As the broker is asked, without Spark: behind that record, older ones are read, for Spark to leave out."""
    chosen = '{"f-shuffled":[1]}'
    everything = read_batch(node, assign=chosen).to_pylist()
    since = EPOCH + datetime.timedelta(milliseconds=BEGIN_MS + 97_000)
    data_source = source(node, assign=chosen, pushDownPredicate="true")
    reader = data_source.reader(data_source.schema())
    assert isinstance(reader, FilteringReader)
    filters: list[Filter] = [GreaterThanOrEqual(("timestamp",), since), GreaterThan(("offset",), 0)]
    assert list(reader.pushFilters(filters)) == filters[:1], "Spark compares the times again"
    rows = table(data_source.schema(), reader, reader.partitions()).to_pylist()
    first = next(row["offset"] for row in everything if row["timestamp"] >= since)
    assert rows == everything[max(first, 1) :]
    assert any(row["timestamp"] < since for row in rows)


def test_an_end_behind_the_log_is_told_whatever_the_filter(spark: SparkSession, node: Cluster, topics: str) -> None:
    """The filter on time finds no record, and yet nobody has said that those up to the end are not needed."""
    options = {"startingOffsets": '{"f-empty":{"0":0}}', "endingOffsets": '{"f-empty":{"0":9}}'}
    options |= {"fetchOffset.retryIntervalMs": "10", "pushDownPredicate": "true", "subscribe": "f-empty"}
    with pytest.raises(PySparkException, match="9 offsets of f-empty-0 were lost"):
        load(spark, node, **options).where(f"timestamp >= {after(0)}").collect()


def test_without_the_option_or_the_setting_nothing_is_pushed(spark: SparkSession, node: Cluster, topics: str) -> None:
    """A plain session reads as ever. One that was told to push, and not allowed to, says which setting it is."""
    spark.conf.set(CONF, False)
    try:
        plain = load(spark, node, subscribe="f-ordered").where("offset = 5")
        assert len(plain.collect()) == 3
        assert scan(plain) == (3, 3 * RECORDS)
        with pytest.raises(PySparkException, match=CONF.replace(".", r"\.")):
            load(spark, node, subscribe="f-ordered", pushDownPredicate="true").count()
    finally:
        spark.conf.set(CONF, True)
    allowed = load(spark, node, subscribe="f-ordered")
    assert allowed.where("offset = 5").count() == 3
    assert allowed.count() == 3 * RECORDS, "what one query filters is not missing in the next"


def test_spark_gives_the_ranges_of_one_query_to_the_next_of_its_frame(
    spark: SparkSession, node: Cluster, topics: str
) -> None:
    """Why `pushDownPredicate` is off by default. When this fails, Spark has mended it: turn the option on by default
    from that version on, and take the warning from the page."""
    frame = load(spark, node, subscribe="f-ordered", pushDownPredicate="true")
    assert frame.where("offset = 5").count() == 3
    assert frame.count() == 3, "and there are 300"
    both = frame.where("offset < 10").union(frame.where("offset >= 10"))
    assert both.count() == 2 * (3 * RECORDS - 30), "twice those of the second filter"
    apart = [load(spark, node, subscribe="f-ordered", pushDownPredicate="true") for _ in range(2)]
    both = apart[0].where("offset < 10").union(apart[1].where("offset >= 10"))
    assert both.count() == 3 * RECORDS, "a frame for each use is right"


def test_an_unfiltered_query_with_the_option_reads_everything(spark: SparkSession, node: Cluster, topics: str) -> None:
    assert load(spark, node, subscribe="f-ordered", pushDownPredicate="true").count() == 3 * RECORDS
    topic = node.create_topic(new_topic("none"))
    assert load(spark, node, subscribe=topic, pushDownPredicate="true").where("offset > 3").collect() == []

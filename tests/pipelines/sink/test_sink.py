"""`format("ottla")` as a sink on a real Spark: what is written is what is read, in batch jobs and in streams."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client import Admin, Consumer, Producer, read_topic
from ottla.records import partition_of
from ottla.testing import Cluster
from tests.support.clients import new_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(300)  # the first of them starts Spark


def options(cluster: Cluster, topic: str | None = None, **more: str) -> dict[str, str]:
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, **more}
    return given if topic is None else {**given, "topic": topic}


def save(frame: DataFrame, given: dict[str, str]) -> None:
    frame.write.format("ottla").options(**given).mode("append").save()


def committed(cluster: Cluster, topic: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_topic(
        cluster.bootstrap_servers, topic, isolation_level="read_committed"
    ).to_pylist()
    return rows


def test_a_batch_job_writes_keys_values_headers_topics_and_partitions(spark: SparkSession, cluster: Cluster) -> None:
    first, second = new_topic("batch"), new_topic("batch")
    for topic in (first, second):
        cluster.create_topic(topic, partitions=3)
    frame = spark.sql(
        f"""
        select if(id % 2 = 0, '{first}', '{second}') as topic, cast(id as string) as key,
               if(id = 4, null, cast(concat('v', id) as binary)) as value, id as ignored,
               array(struct('a' as key, cast('1' as binary) as value),
                     struct('b' as key, cast(null as binary) as value)) as headers,
               if(id < 50, 2, null) as partition
        from range(100)
        """
    )
    save(frame, options(cluster))
    rows = {int(row["key"]): row for topic in (first, second) for row in committed(cluster, topic)}
    assert sorted(rows) == list(range(100))
    for number, row in rows.items():
        assert row["topic"] == (first if number % 2 == 0 else second)
        assert row["value"] == (None if number == 4 else f"v{number}".encode())
        assert row["partition"] == (2 if number < 50 else partition_of(str(number).encode(), 3))
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(first, 2)])
        record = next(iter(consumer.poll(10)))
        assert list(record.headers) == [("a", b"1"), ("b", None)]


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_records_have_the_times_of_their_rows_where_that_is_asked_for(
    spark: SparkSession, cluster: Cluster, delivery: str
) -> None:
    from ottla.pipelines import already_placed

    topic = new_topic("times")
    cluster.create_topic(topic)
    begun = datetime.now(UTC)
    wanted = {str(number).encode(): begun - timedelta(hours=number + 1) for number in range(10)}
    given = [(value, None if value == b"3" else moment) for value, moment in wanted.items()]
    frame = spark.createDataFrame(given, "value binary, timestamp timestamp").coalesce(1)
    save(already_placed(frame), options(cluster, topic, includeTimestamp="true", delivery=delivery))
    found = {row["value"]: row["timestamp"] for row in committed(cluster, topic)}
    assert found.keys() == wanted.keys()
    for value, moment in found.items():
        if value == b"3":
            assert abs(moment - begun) < timedelta(minutes=5)
        else:
            expected = wanted[value]
            assert moment == expected.replace(microsecond=expected.microsecond // 1000 * 1000)


def test_a_batch_job_may_be_one_transaction(spark: SparkSession, cluster: Cluster) -> None:
    from ottla.pipelines import to_partitions

    topic = new_topic("atomic")
    cluster.create_topic(topic, partitions=4)
    frame = spark.range(1000).selectExpr("cast(id % 37 as string) as key", "cast(id as string) as value")
    shuffled = to_partitions(frame, topic, bootstrap_servers=cluster.bootstrap_servers)
    save(shuffled, options(cluster, topic, delivery="exactly-once"))
    rows = committed(cluster, topic)
    assert Counter(int(row["value"]) for row in rows) == Counter(range(1000))
    assert all(row["partition"] == partition_of(row["key"], 4) for row in rows)
    failing = shuffled.selectExpr("* except (value)", "if(value = '500', raise_error('bad row'), value) as value")
    with pytest.raises(Exception, match="bad row"):
        save(failing, options(cluster, topic, delivery="exactly-once"))
    assert len(committed(cluster, topic)) == 1000, "nothing of a job that failed is to be seen"


def test_a_stream_is_written_exactly_once_and_goes_on_from_its_checkpoint(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """Many micro-batches of four tasks, then more input, from a checkpoint that was moved meanwhile."""
    from ottla.pipelines import write_stream

    source, target = new_topic("source"), new_topic("target")
    cluster.create_topic(source, partitions=3)
    cluster.create_topic(target, partitions=4)

    def send(numbers: range) -> None:
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in numbers:
                key = None if number % 5 == 0 else f"k{number % 11}".encode()
                producer.send(source, str(number).encode(), key)

    def copy(checkpoint: Path) -> list[Any]:
        frame = (
            spark.readStream.format("ottla")
            .options(**options(cluster, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="400"))
            .load()
        )
        writer = write_stream(frame.select("key", "value"), target, bootstrap_servers=cluster.bootstrap_servers)
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        return list(query.recentProgress)

    send(range(1000))
    batches = copy(tmp_path / "first")
    assert len(batches) >= 3
    (tmp_path / "first").rename(tmp_path / "moved")
    send(range(1000, 1300))
    copy(tmp_path / "moved")
    rows = committed(cluster, target)
    assert Counter(int(row["value"]) for row in rows) == Counter(range(1300))
    by_key: dict[bytes, list[int]] = {}
    for row in rows:
        if row["key"] is not None:
            assert row["partition"] == partition_of(row["key"], 4)
            by_key.setdefault(row["key"], []).append(int(row["value"]))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        groups = [one.group_id for one in admin.list_groups() if one.group_id.startswith("ottla-")]
        offsets = [
            one.offset
            for told in admin.list_consumer_group_offsets(groups).all().values()
            for place, one in told.items()
            if place.topic == target and one is not None
        ]
    assert offsets == [len(batches) + 1], "the last batch's id is committed with it"


def test_a_stream_without_the_shuffle_that_it_needs_is_refused_whatever_its_rows_are(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """One record: no two tasks can meet in a partition, and other rows would be refused as well."""
    from ottla.pipelines import already_placed, to_partitions

    source, target = new_topic("source"), new_topic("target")
    cluster.create_topic(source, partitions=3)
    cluster.create_topic(target, partitions=2)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send(source, b"value", b"key")
    given = options(cluster, subscribe=source, startingOffsets="earliest")
    rows = spark.readStream.format("ottla").options(**given).load().select("key", "value")

    def run(frame: DataFrame, checkpoint: str) -> None:
        writer = frame.writeStream.format("ottla").options(**options(cluster, target))
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()

    with pytest.raises(Exception, match=r"write with ottla.pipelines.write_stream\(frame, topic"):
        run(rows, "plain")
    placed = to_partitions(rows, target, bootstrap_servers=cluster.bootstrap_servers)
    with pytest.raises(Exception, match="a later step divided the frame again"):
        run(placed.repartitionById(2, placed["partition"] + 1), "divided again")
    assert committed(cluster, target) == []
    run(already_placed(rows), "vouched for")
    assert [row["value"] for row in committed(cluster, target)] == [b"value"]


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_an_aggregate_is_written_exactly_once_in_every_mode_that_it_has(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, mode: str
) -> None:
    """Several micro-batches; then Spark forgets that the last one is done, and replays it."""
    from ottla.pipelines import write_stream

    source, target = new_topic("source"), new_topic(mode)
    cluster.create_topic(source, partitions=2)
    cluster.create_topic(target, partitions=3)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(60):
            producer.send(source, str(number).encode(), f"k{number % 6}".encode(), partition=number % 2)
    given = options(cluster, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="30")
    rows = spark.readStream.format("ottla").options(**given).load()
    counted = rows.groupBy("key").count().selectExpr("key", "cast(count as string) as value")

    def run() -> None:
        writer = write_stream(counted, target, bootstrap_servers=cluster.bootstrap_servers).outputMode(mode)
        writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        writer.start().awaitTermination()

    run()
    found = committed(cluster, target)
    counts: dict[bytes, list[int]] = {}
    for row in found:
        assert row["partition"] == partition_of(row["key"], 3)
        counts.setdefault(row["key"], []).append(int(row["value"]))
    done = sorted((tmp_path / "commits").glob("[0-9]*"))
    assert len(done) >= 2
    assert {key: numbers[-1] for key, numbers in counts.items()} == {f"k{n}".encode(): 10 for n in range(6)}
    for numbers in counts.values():
        assert numbers == sorted(set(numbers)) if mode == "update" else len(numbers) == len(done)
    done[-1].unlink()
    done[-1].with_name(f".{done[-1].name}.crc").unlink(missing_ok=True)
    run()
    assert done[-1].exists()
    assert committed(cluster, target) == found, "the replayed batch is skipped"


def test_a_replayed_batch_whose_memory_has_expired_stops_the_query_and_is_not_written_twice(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """A driver died after the transaction and before Spark noted it, and its query stood still for eight days: Spark's
    note of when it planned the batch is that old, and the group's offsets have expired."""
    from ottla.pipelines import write_stream

    source, target, group = new_topic("source"), new_topic("target"), new_topic("expired")
    cluster.create_topic(source)
    cluster.create_topic(target)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send(source, b"value", b"key")
    given = options(cluster, subscribe=source, startingOffsets="earliest")
    rows = spark.readStream.format("ottla").options(**given).load().select("key", "value")

    def run() -> None:
        writer = write_stream(rows, target, bootstrap_servers=cluster.bootstrap_servers)
        writer = writer.option("transactionalId", group).option("checkpointLocation", str(tmp_path))
        writer.trigger(availableNow=True).start().awaitTermination()

    run()
    for path in (tmp_path / "commits").iterdir():
        path.unlink()
    planned = tmp_path / "offsets" / "0"
    version, about, *ends = planned.read_text().splitlines()
    noted = json.loads(about)
    noted["batchTimestampMs"] -= 8 * 24 * 60 * 60 * 1000
    planned.write_text("\n".join((version, json.dumps(noted), *ends)))
    planned.with_name(".0.crc").unlink(missing_ok=True)
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.delete_consumer_groups([group]).all()
    with pytest.raises(Exception, match=r"micro-batch 0 was planned 8 days ago.*forgottenBatch"):
        run()
    assert [row["value"] for row in committed(cluster, target)] == [b"value"]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (["id as value"], "the column value is of type bigint"),
        (["cast(id as string) as key"], "the column value is missing"),
        (["'v' as value", "cast(null as string) as topic"], "the column topic is null"),
        (["'v' as value", "'no/topic' as topic"], "no/topic"),
    ],
)
def test_a_frame_that_cannot_be_written_fails_with_the_reason(
    spark: SparkSession, cluster: Cluster, columns: list[str], says: str
) -> None:
    given = options(cluster) if len(columns) > 1 else options(cluster, "topic")
    with pytest.raises(Exception, match=says):
        save(spark.range(1).selectExpr(*columns), given)

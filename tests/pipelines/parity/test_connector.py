"""`format("ottla")` and Spark's own `format("kafka")` on the same topics of an Ottla broker: a job changes one word.

Spark's connector, with Java's clients, is the judge: it reads from and writes to Ottla, in batches and as a stream, and
what it returns is what ours must return.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from ottla.pipelines import already_placed, offsets_behind_latest
from ottla.testing import Cluster
from tests.pipelines.source.support import offsets_of, topic_id
from tests.support.spark_connector import add_connector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.java

THEIRS, OURS = "kafka", "ottla"
FORMATS = (THEIRS, OURS)
TOPICS = ("parity-orders", "parity-payments")
PARTITIONS = 3
RECORDS = 200
"""In each partition of each topic."""
BEGIN_MS = 1_700_000_000_000
STEP_MS = 1_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Judge:
    """One Spark with both connectors, one broker with both topics."""

    spark: SparkSession
    bootstrap: str
    directory: Path

    def read(self, source: str, **options: str) -> DataFrame:
        return self.spark.read.format(source).options(**self._with_bootstrap(options)).load()

    def read_stream(self, source: str, **options: str) -> DataFrame:
        return self.spark.readStream.format(source).options(**self._with_bootstrap(options)).load()

    def rows(self, source: str, **options: str) -> list[Row]:
        """All rows in an order that does not depend on how they were split."""
        return self.read(source, **options).orderBy("topic", "partition", "offset").collect()

    def batches(self, source: str, name: str, **options: str) -> list[dict[str, Any]]:
        """The end of every micro-batch that brought rows, of a query that reads all there is and ends."""
        query = (
            self.read_stream(source, **options)
            .writeStream.format("noop")
            .option("checkpointLocation", str(self.directory / name / source))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(100), f"{source} did not come to its end"
            progress = query.recentProgress
        finally:
            query.stop()
        return [
            {
                "rows": one["numInputRows"],
                "end": offsets_of(one["sources"][0]["endOffset"]),
                "behind": offsets_behind_latest(one)[0],
                "metrics": one["sources"][0].get("metrics", {}),
            }
            for one in (json.loads(each.json) for each in progress)
            if one["numInputRows"]
        ]

    def error(self, source: str, *, stream: bool, options: Mapping[str, str]) -> str | None:
        """What a query with these options fails with; None when it works. Options are given as they are."""
        from pyspark.errors import PySparkException

        try:
            if stream:
                reader = self.spark.readStream.format(source).options(**options)
                query = reader.load().writeStream.format("noop").trigger(availableNow=True).start()
                query.awaitTermination(60)
            else:
                self.spark.read.format(source).options(**options).load().collect()
        except PySparkException as error:
            return str(error)
        return None

    def _with_bootstrap(self, options: Mapping[str, str]) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap, **options}


@pytest.fixture(scope="module")
def judge(spark: SparkSession, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    add_connector(spark)
    for topic in TOPICS:
        cluster.create_topic(topic, partitions=PARTITIONS, retention_ms=-1)  # the times are long past
    fill(cluster.bootstrap_servers)
    return Judge(spark, cluster.bootstrap_servers, tmp_path_factory.mktemp("parity"))


def fill(bootstrap: str) -> None:
    """Every kind of record: no key, no value, empty ones, headers, doubled and empty ones too, each codec."""
    failed: list[object] = []
    for number, codec in enumerate(CODECS):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20})
        for topic in TOPICS:
            for partition in range(PARTITIONS):
                for index in range(number, RECORDS, len(CODECS)):
                    producer.produce(
                        topic,
                        partition=partition,
                        key=None if index % 7 == 0 else f"key-{index}" if index % 11 else "",
                        value=None if index % 13 == 0 else f"{topic} {partition} {index}".encode() * (index % 5),
                        timestamp=BEGIN_MS + index * STEP_MS,
                        headers=headers_of(index),
                        on_delivery=lambda error, _: failed.append(error) if error else None,
                    )
        assert producer.flush(60) == 0, "everything is written"
    assert not failed


def headers_of(index: int) -> list[tuple[str, str | bytes | None]]:
    kinds: list[list[tuple[str, str | bytes | None]]] = [
        [],
        [("trace", b"\x00\xff")],
        [("a", b"1"), ("a", None), ("", b"")],
    ]
    return kinds[index % 3]


def test_rows_are_the_same_in_every_column(judge: Judge) -> None:
    options = {"subscribe": ",".join(TOPICS), "includeHeaders": "true"}
    theirs = judge.read(THEIRS, **options)
    ours = judge.read(OURS, **options)
    assert ours.schema == theirs.schema
    rows = judge.rows(THEIRS, **options)
    assert len(rows) == len(TOPICS) * PARTITIONS * RECORDS
    assert {len(row.headers or ()) for row in rows} == {0, 1, 3}
    assert judge.rows(OURS, **options) == rows


@pytest.mark.parametrize(
    "options",
    [
        {"subscribePattern": "parity-(orders|pay.*)"},
        {"assign": '{"parity-orders":[0,2],"parity-payments":[1]}'},
        {
            "subscribe": "parity-orders",
            "startingOffsets": '{"parity-orders":{"0":10,"1":-2,"2":199}}',
            "endingOffsets": '{"parity-orders":{"0":-1,"1":7,"2":200}}',
        },
        {
            "subscribe": "parity-orders",
            "startingTimestamp": str(BEGIN_MS + 50 * STEP_MS),
            "endingTimestamp": str(BEGIN_MS + 90 * STEP_MS + 1),
        },
        {
            "subscribe": "parity-orders",
            "startingOffsetsByTimestamp": json.dumps(
                {"parity-orders": {str(p): BEGIN_MS + p * 10 * STEP_MS for p in range(PARTITIONS)}}
            ),
            "endingOffsetsByTimestamp": json.dumps(
                {"parity-orders": {str(p): BEGIN_MS + 10**9 for p in range(PARTITIONS)}}
            ),
        },
        {
            "subscribe": "parity-orders",
            "startingTimestamp": str(BEGIN_MS + 10**9),
            "startingOffsetsByTimestampStrategy": "latest",
        },
    ],
    ids=["pattern", "assign", "offsets", "timestamp", "timestamps", "no-record-so-young"],
)
def test_a_choice_of_partitions_and_offsets_gives_the_same_rows(judge: Judge, options: dict[str, str]) -> None:
    rows = judge.rows(THEIRS, **options)
    assert rows or "startingOffsetsByTimestampStrategy" in options
    assert judge.rows(OURS, **options) == rows


@pytest.mark.parametrize("option", [{}, {"minPartitions": "2"}, {"minPartitions": "10"}], ids=str)
def test_a_topic_is_split_into_the_same_number_of_tasks(judge: Judge, option: dict[str, str]) -> None:
    counts = {name: judge.read(name, subscribe="parity-orders", **option).rdd.getNumPartitions() for name in FORMATS}
    assert counts[OURS] == counts[THEIRS]
    assert judge.read(OURS, subscribe="parity-orders", **option).count() == PARTITIONS * RECORDS


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "parity-orders", "maxOffsetsPerTrigger": "250"},
        {
            "subscribePattern": "parity-.*",
            "maxOffsetsPerTrigger": "700",
            "startingOffsets": json.dumps(
                {
                    "parity-orders": {"0": 0, "1": 150, "2": -1},
                    "parity-payments": {"0": 100, "1": -2, "2": 3},
                }
            ),
        },
    ],
    ids=["even", "uneven"],
)
def test_available_now_with_a_limit_makes_the_same_micro_batches(
    judge: Judge, options: dict[str, str], request: pytest.FixtureRequest
) -> None:
    options = {"startingOffsets": "earliest", **options}
    theirs = judge.batches(THEIRS, request.node.name, **options)
    assert len(theirs) > 1
    told = [{name: float(text) for name, text in one.pop("metrics").items()} for one in theirs]
    assert [pytest.approx(one.pop("behind"), abs=0.05) for one in theirs] == told, "Spark rounds to a tenth"
    assert told[0]["maxOffsetsBehindLatest"] > 0
    ours = judge.batches(OURS, request.node.name, **options)
    assert [pytest.approx(one.pop("behind"), abs=0.05) for one in ours] == told, "the same figures for ours"
    assert {len(one.pop("metrics")) for one in ours} == {0}, "which no source in Python can report itself"
    assert ours == theirs


def test_a_checkpoint_of_one_connector_is_continued_by_the_other(judge: Judge, cluster: Cluster) -> None:
    """The offsets in the checkpoint have one form: what their query has read, our query does not read again, and the
    other way round, with the topics' ids that ours writes beside the offsets."""
    cluster.create_topic("parity-handover", partitions=2)
    cluster.create_topic("parity-handed-over", partitions=1)
    producer = Producer({"bootstrap.servers": judge.bootstrap})
    for round_, name in enumerate((THEIRS, OURS, THEIRS)):
        for index in range(20):
            producer.produce("parity-handover", f"{round_} {index}".encode(), partition=index % 2)
        assert producer.flush(60) == 0
        frame = judge.read_stream(name, subscribe="parity-handover", startingOffsets="earliest")
        query = (
            frame.select("value")
            .writeStream.format(THEIRS)
            .option("kafka.bootstrap.servers", judge.bootstrap)
            .option("topic", "parity-handed-over")
            .option("checkpointLocation", str(judge.directory / "handover"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(100)
        offsets = (judge.directory / "handover" / "offsets" / str(round_)).read_text().splitlines()[-1]
        ids: dict[str, dict[str, int]] = (
            {f"parity-handover@{topic_id(cluster, 'parity-handover')}": {}} if name == OURS else {}
        )
        assert json.loads(offsets) == {"parity-handover": {"0": 10 * (round_ + 1), "1": 10 * (round_ + 1)}, **ids}
        rows = judge.rows(OURS, subscribe="parity-handed-over")
        assert len(rows) == 20 * (round_ + 1), "nothing is read twice and nothing is left out"
    assert sorted(bytes(row.value).decode() for row in rows) == sorted(
        f"{round_} {index}" for round_ in range(3) for index in range(20)
    )


def test_each_reads_what_the_other_has_written(judge: Judge, cluster: Cluster) -> None:
    """Keys go to the same partitions, headers and nulls survive, in batches and as a stream, either way round."""
    source = judge.read(THEIRS, subscribe="parity-orders", includeHeaders="true").select("key", "value", "headers")
    written: dict[str, list[Row]] = {}
    for name in FORMATS:
        topic = f"parity-written-{name}"
        cluster.create_topic(topic, partitions=4)
        keyed = source.where("key is not null")  # without a key, each chooses as it likes
        writer = keyed.write.format(name).option("kafka.bootstrap.servers", judge.bootstrap)
        writer.option("includeHeaders", "true").option("topic", topic).mode("append").save()
        other = OURS if name == THEIRS else THEIRS
        rows = judge.read(other, subscribe=topic, includeHeaders="true")
        rows = rows.select("partition", "key", "value", "headers")
        written[name] = rows.selectExpr("*", "xxhash64(headers) as last").orderBy("key", "value", "last").collect()
    assert len({row.partition for row in written[THEIRS]}) == 4
    assert written[OURS] == written[THEIRS]


@pytest.mark.parametrize("name", FORMATS)
def test_a_stream_from_topic_to_topic_copies_every_record(judge: Judge, cluster: Cluster, name: str) -> None:
    topic = f"parity-streamed-{name}"
    cluster.create_topic(topic, partitions=2)
    rows = (
        judge.read_stream(name, subscribe="parity-payments", startingOffsets="earliest", maxOffsetsPerTrigger="200")
        .selectExpr("key", "value", "cast(partition % 2 as int) as partition")
        .repartition(2, "partition")
    )
    query = (
        (already_placed(rows) if name == OURS else rows)
        .writeStream.format(name)
        .option("kafka.bootstrap.servers", judge.bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", str(judge.directory / topic))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(100)
    assert query.exception() is None
    other = OURS if name == THEIRS else THEIRS
    copied = judge.read(other, **{"subscribe": topic, "kafka.isolation.level": "read_committed"})
    wanted = judge.read(THEIRS, subscribe="parity-payments").selectExpr("key", "value", "partition % 2 as partition")
    both = [
        frame.select("partition", "key", "value").orderBy("partition", "key", "value").collect()
        for frame in (copied, wanted)
    ]
    assert both[0] == both[1]


WRONG: dict[str, tuple[bool, dict[str, str], str]] = {
    # name: (is a stream, options, what both errors must name)
    "nothing chosen": (False, {}, "subscribe"),
    "two choices": (False, {"subscribe": "a", "assign": '{"a":[0]}'}, "subscribe"),
    "empty subscribe": (False, {"subscribe": ""}, "subscribe"),
    "empty pattern": (False, {"subscribePattern": ""}, "subscribePattern"),
    "assign is no JSON": (False, {"assign": "a:0"}, "assign"),
    "batch from the latest": (False, {"subscribe": "a", "startingOffsets": "latest"}, "starting"),
    "batch from the latest of one partition": (
        False,
        {"subscribe": "a", "startingOffsets": '{"a":{"0":-1}}'},
        "latest",
    ),
    "batch to the earliest": (False, {"subscribe": "a", "endingOffsets": "earliest"}, "ending"),
    "batch to the earliest of one partition": (
        False,
        {"subscribe": "a", "endingOffsets": '{"a":{"0":-2}}'},
        "earliest",
    ),
    "offsets that are no JSON": (False, {"subscribe": "a", "startingOffsets": "first"}, "first"),
    "stream with an end": (True, {"subscribe": "a", "endingOffsets": "latest"}, "ending"),
    "group's reset": (False, {"subscribe": "a", "kafka.auto.offset.reset": "latest"}, "auto.offset.reset"),
    "deserializer": (False, {"subscribe": "a", "kafka.key.deserializer": "x"}, "key.deserializer"),
    "value deserializer": (False, {"subscribe": "a", "kafka.value.deserializer": "x"}, "value.deserializer"),
    "auto commit": (False, {"subscribe": "a", "kafka.enable.auto.commit": "true"}, "enable.auto.commit"),
    "interceptors": (False, {"subscribe": "a", "kafka.interceptor.classes": "x"}, "interceptor.classes"),
    "no partitions at least": (False, {"subscribe": "a", "minPartitions": "0"}, "minPartitions"),
    "least above most": (
        True,
        {"subscribe": "a", "minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"},
        "maxOffsetsPerTrigger",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_option_is_refused_by_both(judge: Judge, case: str) -> None:
    """The words are ours; both errors name the option that is wrong."""
    stream, options, name = WRONG[case]
    options = {"kafka.bootstrap.servers": judge.bootstrap, **options}
    for source in FORMATS:
        message = judge.error(source, stream=stream, options=options)
        assert message is not None, f"{source} takes it"
        assert name.lower() in message.lower(), f"{source}: {message}"


def test_the_address_of_the_broker_is_asked_for_by_both(judge: Judge) -> None:
    for source in FORMATS:
        message = judge.error(source, stream=False, options={"subscribe": "a"})
        assert message is not None
        assert "kafka.bootstrap.servers" in message


@pytest.mark.parametrize(
    ("columns", "option"),
    [
        (["1 as value"], {"topic": "a"}),
        (["'v' as value"], {}),
        (["'k' as key"], {"topic": "a"}),
        (["1 as key", "'v' as value"], {"topic": "a"}),
        (["'v' as value", "'0' as partition"], {"topic": "a"}),
        (["'v' as value", "'h' as headers"], {"topic": "a", "includeHeaders": "true"}),
        (["'v' as value", "1 as topic"], {}),
    ],
    ids=["value is a number", "no topic", "no value", "key is a number", "partition is text", "headers are text",
         "topic is a number"],
)  # fmt: skip
def test_a_frame_that_cannot_be_written_is_refused_by_both(
    judge: Judge, columns: list[str], option: dict[str, str]
) -> None:
    from pyspark.errors import PySparkException

    frame = judge.spark.range(1).selectExpr(*columns)
    for name in FORMATS:
        writer = frame.write.format(name).option("kafka.bootstrap.servers", judge.bootstrap).options(**option)
        with pytest.raises(PySparkException):
            writer.mode("append").save()

"""Timestamp extractors on a real Spark, in the driver; `parity` compares them with Kafka Streams."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from ottla.pipelines import PipelineError
from ottla.pipelines.streams import RecordError, StreamsBuilder, TopologyTestDriver, Windowed, aggregates, json, python
from ottla.pipelines.streams.processor import Processor, ProcessorOperator
from ottla.pipelines.streams.windows import TimeWindows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)  # Spark on a busy machine


def test_records_go_by_the_time_that_their_sources_extractor_gives_them(spark: SparkSession) -> None:
    """Of headers, keys and values nothing is lost on the way through the step that knows partition time."""
    builder = StreamsBuilder()
    pair = json("at TIMESTAMP, n DECIMAL(9, 2)")
    stamped = builder.stream("stamped", value=pair, timestamp="UsePartitionTimeOnInvalidTimestamp")
    stamped.map_values("concat(value.n, ' at ', unix_micros(value.at))").to("stamped-out")
    said = builder.stream("said", value=pair, timestamp=lambda value: value["at"])
    said.group_by_key().windowed_by(TimeWindows.of_size(10)).count().to_stream().to("windows")
    after = python(lambda partition_time, timestamp, key, value: partition_time + 1 if value is None else int(value))
    numbers = builder.table("numbers", timestamp=after).to_stream()
    numbers.group_by_key().aggregate(aggregates.count(), name="many").to_stream().to("many")
    builder.stream("now", timestamp="WallclockTimestampExtractor").to("now-out")
    with TopologyTestDriver(builder.build("times"), spark, partitions=2) as driver:
        given, many = driver.input_topic("stamped", value="json"), driver.input_topic("numbers")
        value = {"at": "1970-01-01T00:00:00.007008Z", "n": 1.5}
        driver.input_topic("said", value="json").pipe_input("a", value, -1)
        driver.input_topic("now").pipe_input("a", "x", -1)
        headers = (("h", b"\xff"), ("null", None))
        given.pipe_input("a", value, 10, headers=headers)
        many.pipe_input("a", "20", 1)
        given.pipe_input("a", value, -1)
        begun_ms = int(time.time() * 1000)
        first, second = driver.output_topic("stamped-out").read_full_records()
        assert (first.key, first.value, first.timestamp_ms, first.headers) == ("a", "1.50 at 7008", 10, headers)
        assert (second.timestamp_ms, second.headers) == (10, ())
        windows = driver.output_topic("windows", value="long", windows="time").read_full_records()
        assert [(one.key, one.value, one.timestamp_ms) for one in windows] == [(Windowed("a", 0), 1, 7)]
        [now] = driver.output_topic("now-out").read_full_records()
        assert begun_ms <= now.timestamp_ms <= time.time() * 1000
        assert [one.timestamp_ms for one in driver.output_topic("many").read_full_records()] == [20]
        many.pipe_input("a", "13", 1)
        given.pipe_input("a", value, -1)
        [third] = driver.output_topic("stamped-out").read_full_records()
        assert third.timestamp_ms == 10, "partition time outlives the micro-batch"
        [row] = driver.output_topic("many", value="long").read_full_records()
        assert (row.value, row.timestamp_ms) == (2, 20), "the latest of the aggregate's records"


@pytest.mark.parametrize(
    ("timestamp", "reason"),
    [
        (None, "topic in: the record's timestamp is negative. To go on, give its source timestamp= LogAndSkip"),
        ("cast(value AS BIGINT)", "topic in, partition 0, offset 1: the timestamp extractor found no time"),
        ("UsePartitionTimeOnInvalidTimestamp", "offset 0: .* none before it in its partition has a time to take"),
    ],
)
def test_a_record_without_a_time_fails_the_query_and_is_named(
    spark: SparkSession, timestamp: str | None, reason: str
) -> None:
    builder = StreamsBuilder()
    builder.stream("in", timestamp=timestamp).to("out")
    with TopologyTestDriver(builder.build("no-time"), spark) as driver:
        driver.pipe("in", [(None, b"1", -1), (None, None, -1)])
        with pytest.raises(RecordError, match=f"Timestamp extraction failed: .*{reason}"):
            driver.process()


def test_what_cannot_be_is_refused_before_anything_runs(spark: SparkSession) -> None:
    class Nothing(Processor):
        pass

    operator = ProcessorOperator(processor=Nothing(), key_type="STRING", value_type="STRING")
    builder = StreamsBuilder(timestamp="UsePartitionTimeOnInvalidTimestamp")
    builder.stream("in").process(operator, name="mine").to("out")
    said = StreamsBuilder()
    said.stream("in", timestamp=F.upper).to("out")
    for one, reason in ((builder, r"mine gives updates, .* put \.repartition\(\)"), (said, "not string: cast it")):
        with TopologyTestDriver(one.build("refused"), spark) as driver, pytest.raises(PipelineError, match=reason):
            driver.process()

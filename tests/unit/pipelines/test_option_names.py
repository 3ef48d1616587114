"""Options that are misspelt, of the other direction, and of Spark's."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from ottla.pipelines import option_names
from ottla.pipelines.option_names import SINK, SOURCE, SPARKS, UnknownOption, check_sink, check_source
from ottla.pipelines.sink.options import read_options
from ottla.pipelines.source.options import SourceOptions

BROKER = {"kafka.bootstrap.servers": "localhost:9092"}
SPARKS_SOURCE = [
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "groupIdPrefix",
    "includeHeaders",
]
"""All that Spark's connector 4.2 has, by the constants of its KafkaSourceProvider; its sink has `topic` besides."""


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("startingOffset", "startingOffsets"),
        ("failOnDataloss1", "failOnDataLoss"),
        ("subscribe_pattern", "subscribePattern"),
        ("includeHeader", "includeHeaders"),
        ("commitgroups", "commitGroup"),
        ("checkpointlocatoin", "checkpointLocation"),
    ],
)
def test_a_misspelt_option_of_a_reader_is_refused_with_the_nearest_name(name: str, meant: str) -> None:
    with pytest.raises(UnknownOption, match=f"There is no option {name} of a reader: is {meant} meant"):
        SourceOptions.read({**BROKER, "subscribe": "t", name: "1"}, is_streaming=True)


def test_a_misspelt_option_of_a_writer_is_refused_with_the_nearest_name() -> None:
    for name, meant in (("transactionId", "transactionalId"), ("deliver", "delivery"), ("topics", "topic")):
        with pytest.raises(UnknownOption, match=f"There is no option {name} of a writer: is {meant} meant"):
            read_options({**BROKER, name: "1"}, is_streaming=False)


def test_a_setting_of_kafka_without_its_prefix_is_told_with_it() -> None:
    with pytest.raises(UnknownOption, match=r"a setting of Kafka's client is kafka\.security\.protocol"):
        check_source({**BROKER, "security.protocol": "SSL"})


def test_every_option_of_sparks_connector_and_of_spark_is_known_to_both(caplog: pytest.LogCaptureFixture) -> None:
    option_names._told.clear()
    names = [*SPARKS_SOURCE, "topic", "kafka.client.id", *SPARKS, "spark.sql.x", "__internal"]
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            check_source(name.lower() for name in names)
            check_sink(name.upper() for name in names)
    told = [record.getMessage() for record in caplog.records]
    idle = [f"The option {name} has no effect on a writer" for name in SPARKS_SOURCE]
    assert sorted(told) == sorted([*idle, "The option topic has no effect on a reader"]), "once each"


def test_the_names_are_those_of_the_pages() -> None:
    for names, page in ((SOURCE, "source.md"), (SINK, "sink.md")):
        text = Path("docs/pipelines", page).read_text(encoding="utf-8")
        in_tables = {
            name for line in re.findall(r"(?m)^\| (`.*?) \|", text) for name in re.findall(r"`([\w.]+)`", line)
        }
        assert set(names) <= in_tables, f"{page} lacks {set(names) - in_tables}"

"""`consumer-perf-test`: the columns of Kafka's tool, and what is in them."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.cli.consumer_perf_test import KEY, VALUE, size_of
from ottla.cli.date_format import DateFormat
from ottla.client import ConsumerRecord
from ottla.records import TimestampType
from ottla.testing import Cluster
from tests.cli.conftest import Run

_numbers = itertools.count()
HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
    "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"


def filled_topic(cluster: Cluster, count: int, *, partitions: int = 1) -> str:
    """With so many records of 100 bytes, ten of them in the key."""
    topic = cluster.create_topic(f"read-perf-{next(_numbers)}", partitions)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, b"v" * 90, b"k" * 10, partition=number % partitions)
    producer.flush(20)
    return topic


# Beside Kafka's own


@pytest.mark.java
def test_both_read_the_same_and_tell_it_in_the_same_columns(ottla: Run, kafka: Run, cluster: Cluster) -> None:
    topic = filled_topic(cluster, 3000, partitions=3)
    rows = []
    for run in (ottla, kafka):
        done = run("consumer-perf-test", "--topic", topic, "--num-records", "3000")
        assert done.code == 0, done.err
        header, row = done.out.splitlines()
        assert header == HEADER
        assert re.fullmatch(rf"{TIME}, {TIME}, \d+\.\d{{4}}, \d+\.\d{{4}}, \d+, \d+\.\d{{4}}, \d+, \d+, "
                            r"\d+\.\d{4}, \d+\.\d{4}", row), row  # fmt: skip
        rows.append(row.split(", "))
    assert rows[0][2] == rows[1][2] == "0.2861"
    assert rows[0][4] == rows[1][4] == "3000"


@pytest.mark.java
def test_progress_is_told_in_the_same_columns(ottla: Run, kafka: Run, cluster: Cluster) -> None:
    topic = filled_topic(cluster, 3000)
    words = ("--num-records", "3000", "--show-detailed-stats", "--reporting-interval", "1")
    for run in (ottla, kafka):
        header, *rows = run("consumer-perf-test", "--topic", topic, *words).out.splitlines()
        assert header == HEADER.replace("start.time, end.time", "time, threadId")
        assert rows
        for row in rows:
            assert re.fullmatch(rf"{TIME}, 0, \d+\.\d{{4}}, \d+\.\d{{4}}, \d+, \d+\.\d{{4}}, \d+, -?\d+, "
                                r"\d+\.\d{4}, \d+\.\d{4}", row), row  # fmt: skip


@pytest.mark.java
def test_nothing_to_read_is_a_warning_as_in_kafka(ottla: Run, kafka: Run, cluster: Cluster) -> None:
    topic = filled_topic(cluster, 10)
    words = ("--topic", topic, "--messages", "11", "--timeout", "400", "--hide-header")
    ours, theirs = ottla("consumer-perf-test", *words), kafka("consumer-perf-test", *words)
    assert ours.code == theirs.code == 0
    assert ours.out.splitlines()[:2] == theirs.out.splitlines()[:2] == [
        "Warning: --messages is deprecated. Use --num-records instead.",
        "WARNING: Exiting before consuming the expected number of records: timeout (400 ms) exceeded. "
        "You can use the --timeout option to increase the timeout.",
    ]  # fmt: skip


@pytest.mark.java
def test_the_perf_consumer_refuses_what_kafka_refuses(ottla: Run, kafka: Run) -> None:
    for options in (
        ["--num-records", "1"],
        ["--topic", "t", "--include", "t", "--num-records", "1"],
        ["--topic", "t"],
        ["--topic", "t", "--num-records", "1", "--messages", "1"],
        ["--topic", "t", "--num-records", "1", "--command-config", "a", "--consumer.config", "b"],
    ):
        ours, theirs = ottla("consumer-perf-test", *options), kafka("consumer-perf-test", *options)
        assert (ours.code, ours.out) == (theirs.code, "") == (1, ""), options
        assert ours.err == theirs.err.splitlines()[0] + "\n"


@pytest.mark.java
def test_the_consumers_metrics_are_named_as_kafkas(ottla: Run, kafka: Run, cluster: Cluster) -> None:
    topic = filled_topic(cluster, 10)
    words = ("--topic", topic, "--num-records", "10", "--print-metrics", "--command-property", "group.protocol=classic")
    names = []
    for run in (ottla, kafka):
        _, table = run("consumer-perf-test", *words).out.split("\n\n")
        names.append({row.split(" : ")[0].rstrip() for row in table.splitlines()[1:]})
    assert "consumer-fetch-manager-metrics:records-consumed-total:{client-id=perf-consumer-client}" in names[0]
    assert names[0] <= names[1], names[0] - names[1]


# What is read


def test_topics_are_chosen_by_a_pattern_and_read_once_in_a_group(ottla: Run, cluster: Cluster) -> None:
    first, second = filled_topic(cluster, 30), filled_topic(cluster, 40)
    words = ("--include", f"{first}|{second}", "--group", "perf-group", "--hide-header", "--output", "json")
    row = json.loads(ottla("consumer-perf-test", *words, "--num-records", "70").out)
    assert (row["data.consumed.in.nMsg"], row["data.consumed.in.MB"]) == (70, 0.0067)
    again = ottla("consumer-perf-test", *words, "--num-records", "1", "--timeout", "300")
    row = json.loads(again.out)
    assert row["data.consumed.in.nMsg"] == 0
    assert again.err.startswith("WARNING: Exiting before consuming the expected number of records")


def test_from_latest_reads_nothing_that_was_there(ottla: Run, cluster: Cluster) -> None:
    topic = filled_topic(cluster, 30)
    words = ("--topic", topic, "--from-latest", "--num-records", "1", "--timeout", "500", "--output", "json")
    assert json.loads(ottla("consumer-perf-test", *words).out)["data.consumed.in.nMsg"] == 0


def test_settings_come_from_a_file_and_the_line(ottla: Run, cluster: Cluster, tmp_path: Path) -> None:
    topic = filled_topic(cluster, 30)
    file = tmp_path / "consumer.properties"
    file.write_text("client.id=of-a-file\nvalue.deserializer=org.apache.kafka.x.None\nmax.poll.records=0\n")
    words = ("--topic", topic, "--num-records", "30", "--consumer.config", str(file), "--print-metrics")
    assert ottla("consumer-perf-test", *words).code == 1
    done = ottla("consumer-perf-test", *words, "--command-property", "max.poll.records=7")
    assert done.code == 0, done.err
    assert done.out.startswith("Warning: --consumer.config is deprecated. Use --command-config instead.\n")
    assert "client-id=of-a-file" in done.out


def test_a_pattern_of_dates_that_is_none_is_one_line(ottla: Run) -> None:
    done = ottla("consumer-perf-test", "--topic", "t", "--num-records", "1", "--date-format", "bbb")
    assert (done.code, done.out, done.err) == (1, "", "Illegal pattern character 'b'\n")


# The parts


def test_keys_and_values_are_where_the_tool_takes_them_from() -> None:
    record = ConsumerRecord("t", 0, 1, 2, TimestampType.CREATE_TIME, b"key", b"value")
    assert (KEY(record), VALUE(record)) == (record.key, record.value) == (b"key", b"value")
    null: ConsumerRecord[bytes, bytes] = ConsumerRecord("t", 0, 1, 2, TimestampType.CREATE_TIME, None, None)  # type: ignore[arg-type]
    assert size_of([record, null, record]) == 16


@pytest.fixture
def in_vienna(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Vienna")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("pattern", "late", "early"),
    [
        ("yyyy-MM-dd HH:mm:ss:SSS", "2026-11-16 05:38:31:568", "1970-01-01 01:00:00:007"),
        ("yy/M/d h:m:s a", "26/11/16 5:38:31 AM", "70/1/1 1:0:0 AM"),
        ("EEE, d MMM yyyy HH:mm:ss Z", "Mon, 16 Nov 2026 05:38:31 +0100", "Thu, 1 Jan 1970 01:00:00 +0100"),
        ("EEEE dd MMMM y G", "Monday 16 November 2026 AD", "Thursday 01 January 1970 AD"),
        ("D u k K z X XX XXX", "320 1 5 5 CET +01 +0100 +01:00", "1 4 1 1 CET +01 +0100 +01:00"),
        ("'at' HH 'o''clock' ''", "at 05 o'clock '", "at 01 o'clock '"),
        ("S SS SSSS", "568 568 0568", "7 07 0007"),
        ("L LLL yyyyy", "11 Nov 02026", "1 Jan 01970"),
    ],
)
def test_times_are_written_as_by_java(in_vienna: None, pattern: str, late: str, early: str) -> None:
    """What SimpleDateFormat of Java 17 gave for the same two moments."""
    made = DateFormat(pattern)
    assert (made.format(1_794_803_911_568), made.format(7)) == (late, early)


@pytest.mark.parametrize(
    ("pattern", "message"), [("b", "Illegal pattern character 'b'"), ("yyyy 'x", "Unterminated quote")]
)
def test_what_is_no_pattern_is_refused_as_by_java(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DateFormat(pattern)

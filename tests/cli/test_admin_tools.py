"""`topics`, `get-offsets`, `delete-records`, `log-dirs`: ours and Kafka's, side by side on one broker."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.errors import OffsetOutOfRange
from ottla.testing import Cluster
from tests.cli.conftest import Run

_numbers = itertools.count()
OWN_WORDS = {
    str(OffsetOutOfRange()): "The requested offset is not within the range of offsets maintained by the server.",
}
"""Where a server sends only an error's code, each client has words of its own for it."""


def new_topic(cluster: Cluster, partitions: int = 1, records: int = 0, **configs: object) -> str:
    topic = cluster.create_topic(f"tool-{next(_numbers)}", partitions, **configs)
    if records:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(records):
            producer.produce(topic, b"%d" % number, partition=number % partitions, timestamp=1000 + number)
        producer.flush(20)
    return topic


def same(ottla: Run, kafka: Run, tool: str, *arguments: str) -> str:
    """Both print and end alike; what they printed."""
    ours, theirs = ottla(tool, *arguments), kafka(tool, *arguments)
    printed = ours.out
    for own, kafkas in OWN_WORDS.items():
        printed = printed.replace(own, kafkas)
    assert (ours.code, printed) == (theirs.code, theirs.out), (ours.err, theirs.err)
    return ours.out


def refused(ottla: Run, kafka: Run, tool: str, *arguments: str) -> str:
    """Both refuse the options; ours says in one line what theirs says first."""
    ours, theirs = ottla(tool, *arguments), kafka(tool, *arguments)
    assert (ours.code, ours.out) == (theirs.code, theirs.out) == (1, ""), theirs
    assert ours.err.count("\n") == 1
    assert ours.err == theirs.err.splitlines()[0] + "\n"
    return ours.err


@pytest.mark.java
def test_topics_prints_what_kafka_prints(ottla: Run, kafka: Run, cluster: Cluster) -> None:
    first = new_topic(cluster, 3, retention_ms=60000, cleanup_policy="compact")
    second = new_topic(cluster)
    for arguments in (
        ["--list"],
        ["--list", "--topic", "tool-.*"],
        ["--list", "--exclude-internal"],
        ["--list", "--topic", "nothing"],
        ["--describe", "--topic", first],
        ["--describe", "--topic", f"{first},{second}"],
        ["--describe", "--topic", first, "--partition-size-limit-per-response", "1"],
        ["--describe", "--topic", first, "--topics-with-overrides"],
        ["--describe", "--topic", second, "--topics-with-overrides"],
        ["--describe", "--topic", first, "--under-replicated-partitions"],
        ["--describe", "--topic", first, "--at-min-isr-partitions"],
        ["--describe", "--topic", first, "--under-min-isr-partitions", "--unavailable-partitions"],
        ["--describe", "--topic", "nothing"],
        ["--describe", "--topic", "nothing", "--if-exists"],
        ["--describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ"],
        ["--create", "--topic", first],
        ["--create", "--topic", first, "--if-not-exists"],
        ["--create", "--topic", "with.dot_and", "--partitions", "0"],
        ["--create", "--topic", "many", "--replication-factor", "40000"],
        ["--create", "--topic", "many", "--replication-factor", "2"],
        ["--create", "--topic", "odd", "--config", "retention.ms"],
        ["--create", "--topic", "odd", "--replica-assignment", "1:1"],
        ["--create", "--topic", "odd", "--replica-assignment", "1,1:2"],
        ["--alter", "--topic", "nothing", "--partitions", "3"],
        ["--alter", "--topic", "nothing", "--partitions", "3", "--if-exists"],
        ["--alter", "--topic", first, "--partitions", "2"],
        ["--delete", "--topic", "nothing"],
        ["--delete", "--topic", "nothing", "--if-exists"],
    ):
        same(ottla, kafka, "topics", *arguments)


@pytest.mark.java
def test_topics_are_made_grown_and_deleted_as_by_kafka(ottla: Run, kafka: Run, cluster: Cluster) -> None:
    seen = []
    for run in (ottla, kafka):
        printed = [
            run("topics", *arguments).out
            for arguments in (
                ["--create", "--topic", "made", "--partitions", "2", "--config", "retention.ms=1 ",
                 "--config", "segment.bytes = 1048576"],
                ["--describe", "--topic", "made"],
                ["--alter", "--topic", "made", "--partitions", "4"],
                ["--describe", "--topic", "made"],
                ["--create", "--topic", "placed", "--replica-assignment", "1,1,1"],
                ["--alter", "--topic", "placed", "--partitions", "4", "--replica-assignment", "1,1,1,1"],
                ["--describe", "--topic", "placed"],
                ["--delete", "--topic", "made,placed"],
                ["--list", "--topic", "made|placed"],
            )
        ]  # fmt: skip
        seen.append([re.sub(r"TopicId: \S+", "TopicId: ID", text) for text in printed])
    assert seen[0] == seen[1]
    assert seen[0][0] == "Created topic made.\n"
    assert "PartitionCount: 4" in seen[0][3]


@pytest.mark.java
def test_topics_refuses_what_kafka_refuses(ottla: Run, kafka: Run) -> None:
    for arguments in (
        [],
        ["--list", "--describe"],
        ["--create"],
        ["--alter", "--topic", "t"],
        ["--alter", "--topic", "t", "--partitions", "2", "--replication-factor", "1"],
        ["--describe", "--if-exists"],
        ["--list", "--partitions", "1"],
        ["--create", "--topic", "t", "--partitions", "1", "--replica-assignment", "1"],
        ["--describe", "--topics-with-overrides", "--under-min-isr-partitions"],
        ["--create", "--topic", "t", "--if-exists"],
        ["--delete", "--topic", "t", "--if-not-exists"],
        ["--delete", "--topic", "t", "--exclude-internal"],
    ):
        refused(ottla, kafka, "topics", *arguments)


def test_topics_speaks_json(ottla: Run, cluster: Cluster) -> None:
    topic = new_topic(cluster, 2, retention_ms=5)
    assert topic in json.loads(ottla("topics", "--list", "--output", "json").out)
    (found,) = json.loads(ottla("topics", "--describe", "--topic", topic, "--output", "json").out)
    assert (found["topic"], found["partitionCount"], found["configs"]["retention.ms"]) == (topic, 2, "5")
    assert found["partitions"][1] == {
        "partition": 1, "leader": 1, "replicas": [1], "isr": [1], "elr": [], "lastKnownElr": [],
    }  # fmt: skip


@pytest.mark.java
def test_offsets_are_shown_as_by_kafka(ottla: Run, kafka: Run, cluster: Cluster) -> None:
    topic = new_topic(cluster, 3, records=10)
    new_topic(cluster)
    for arguments in (
        ["--topic", topic],
        [],
        ["--exclude-internal-topics"],
        ["--topic", "tool-.*", "--partitions", "0,2"],
        ["--topic-partitions", f"{topic}:1-,tool-.*:0"],
        ["--topic-partitions", ":-2"],
        ["--topic-partitions", f"{topic}:2"],
        ["--topic", topic, "--time", "earliest"],
        ["--topic", topic, "--time", "-2"],
        ["--topic", topic, "--time", "max-timestamp"],
        ["--topic", topic, "--time", "earliest-local"],
        ["--topic", topic, "--time", "1004"],
        ["--topic", topic, "--time", "99999999999999"],
    ):
        same(ottla, kafka, "get-offsets", *arguments)
    for arguments in (
        ["--topic", "nothing"],
        ["--topic", topic, "--partitions", "7"],
        ["--topic", topic, "--topic-partitions", topic],
        ["--topic", topic, "--partitions", "one"],
        ["--topic", topic, "--time", "noon"],
    ):
        refused(ottla, kafka, "get-offsets", *arguments)
    assert json.loads(ottla("get-offsets", "--topic", topic, "--output", "json").out)[0] == {
        "topic": topic, "partition": 0, "offset": 4,
    }  # fmt: skip


@pytest.mark.java
def test_records_are_deleted_as_by_kafka(ottla: Run, kafka: Run, cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    printed = []
    for run in (ottla, kafka):
        topic = new_topic(cluster, 1, records=10)
        file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 3}], "version": 1}))
        printed.append(run("delete-records", "--offset-json-file", str(file)).out.replace(topic, "TOPIC"))
        assert run("get-offsets", "--topic", topic, "--time", "earliest").out == f"{topic}:0:3\n"
    assert printed[0] == printed[1]
    topic = new_topic(cluster, 1, records=1)
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 7}]}))
    assert "OffsetOutOfRangeException" in same(ottla, kafka, "delete-records", "--offset-json-file", str(file))
    for text in (
        "not json",
        '{"version": 2, "partitions": []}',
        '{"version": 1}',
        json.dumps({"partitions": 2 * [{"topic": "t", "partition": 0, "offset": 1}]}),
    ):
        file.write_text(text)
        refused(ottla, kafka, "delete-records", "--offset-json-file", str(file))


@pytest.mark.java
def test_log_directories_are_shown_as_by_kafka(ottla: Run, kafka: Run, cluster: Cluster) -> None:
    topic = new_topic(cluster, 1, records=10)
    shown = same(ottla, kafka, "log-dirs", "--describe", "--topic-list", topic)
    (directory,) = json.loads(shown.splitlines()[-1])["brokers"][0]["logDirs"]
    assert [one["partition"] for one in directory["partitions"]] == [f"{topic}-0"]
    same(ottla, kafka, "log-dirs", "--describe", "--topic-list", topic, "--broker-list", "1")
    refused(ottla, kafka, "log-dirs", "--describe", "--broker-list", "1,7")
    refused(ottla, kafka, "log-dirs")

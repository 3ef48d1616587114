"""How the verifiable tools end: by themselves, by a signal, by an error; and that no line of theirs is lost."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.client import Admin, TopicPartition
from ottla.testing import Cluster
from tests.cli.conftest import Run
from tests.support.ready import is_ready

_numbers = itertools.count()


def new_topic(cluster: Cluster, partitions: int = 1, *, records: int = 0, **configs: object) -> str:
    topic = cluster.create_topic(f"ends-{next(_numbers)}", partitions, **configs)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(records):
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    producer.flush(20)
    return topic


def events(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines()]


def names(printed: str) -> list[str]:
    return [event["name"] for event in events(printed)]


def start(cluster: Cluster, tool: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "ottla.cli.main", tool, "--bootstrap-server", cluster.bootstrap_servers, *arguments]
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )


def read_until(running: subprocess.Popen[str], wanted: str) -> str:
    assert running.stdout is not None
    seen = ""
    while wanted not in seen:
        line = running.stdout.readline()
        assert line, f"it ended by itself: {seen}"
        seen += line
    return seen


def read_rest(running: subprocess.Popen[str]) -> tuple[str, str]:
    """What else it printed, to both. `communicate` would skip what was buffered with the last line."""
    assert running.stdout is not None
    assert running.stderr is not None
    rest, complaints = running.stdout.read(), running.stderr.read()
    running.wait(30)
    return rest, complaints


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_producer_accounts_for_every_record(cluster: Cluster, number: signal.Signals, code: int) -> None:
    topic = new_topic(cluster, 2)
    with start(cluster, "verifiable-producer", "--topic", topic) as running:
        seen = read_until(running, "producer_send_success")
        running.send_signal(number)
        rest, complaints = read_rest(running)
    assert (running.returncode, complaints) == (code, "")
    *told, complete, summary = events(seen + rest)
    assert (complete["name"], summary["name"]) == ("shutdown_complete", "tool_data")
    acked = [event for event in told if event["name"] == "producer_send_success"]
    assert summary["sent"] == summary["acked"] == len(acked)
    assert sorted(int(event["value"]) for event in acked) == list(range(len(acked)))
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        from ottla.client.admin import OffsetSpec

        partitions = [TopicPartition(topic, index) for index in range(2)]
        ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.latest())).all()
    for partition in partitions:
        offsets = [event["offset"] for event in acked if event["partition"] == partition.partition]
        assert offsets == list(range(ends[partition].offset))


def test_a_signal_in_a_blocked_write_loses_no_line(cluster: Cluster) -> None:
    """Without a buffer of Python's, an interrupted write to a full pipe has written a part."""
    topic = new_topic(cluster)
    with start(cluster, "verifiable-producer", "--topic", topic, PYTHONUNBUFFERED="1") as running:
        assert running.stdout is not None
        assert is_ready(running.stdout, wait_s=30)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(1.5)  # nobody reads: the pipe is full, and the tool waits in a write
        running.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(0.3)
        printed, _ = running.communicate(timeout=30)
    assert running.returncode == 143
    told = events(printed)
    values = [event["value"] for event in told if event["name"] == "producer_send_success"]
    assert values == [str(number) for number in range(told[-1]["acked"])]
    assert len(printed) > 65_536


def test_records_that_a_broker_refuses_are_told_one_by_one(ottla: Run, cluster: Cluster, tmp_path: Path) -> None:
    topic = new_topic(cluster, max_message_bytes=70)
    done = ottla("verifiable-producer", "--topic", topic, "--max-messages", "3", "--value-prefix", "1234567890")
    failed = [event for event in events(done.out) if event["name"] == "producer_send_error"]
    assert [(event["key"], event["value"], event["topic"]) for event in failed] == [
        (None, f"1234567890.{number}", topic) for number in range(3)
    ]
    assert {event["exception"] for event in failed} == {"class org.apache.kafka.common.errors.RecordTooLargeException"}
    assert events(done.out)[-1]["acked"] == 0


@pytest.mark.parametrize("acks", ["0", "1", "-1"])
def test_acknowledgements_are_those_asked_for(ottla: Run, cluster: Cluster, acks: str) -> None:
    topic = new_topic(cluster)
    done = ottla("verifiable-producer", "--topic", topic, "--max-messages", "3", "--acks", acks)
    sent = [event for event in events(done.out) if event["name"] == "producer_send_success"]
    assert [event["offset"] for event in sent] == ([-1, -1, -1] if acks == "0" else [0, 1, 2])


@pytest.mark.java
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_real_kafka_is_written_and_read(ottla: Run, kafka_broker: str, protocol: str, tmp_path: Path) -> None:
    settings = tmp_path / "producer.properties"
    settings.write_text("retries=1000\n")  # the tool tries once, and a new topic's leader may not know of it yet
    topic = f"ends-{next(_numbers)}"
    made = ottla("topics", "--create", "--topic", topic, "--partitions", "2", at=kafka_broker)
    assert made.code == 0, made.err
    words = ("--topic", topic, "--max-messages", "500", "--command-config", str(settings))
    sent = ottla("verifiable-producer", *words, at=kafka_broker)
    acked = {event["value"] for event in events(sent.out) if event["name"] == "producer_send_success"}
    assert acked == {str(number) for number in range(500)}
    group = ("--group-id", topic, "--group-protocol", protocol)
    read = ottla("verifiable-consumer", "--topic", topic, *group, "--max-messages", "500", "--verbose", at=kafka_broker)
    assert {event["value"] for event in events(read.out) if event["name"] == "record_data"} == acked
    assert all(event["success"] for event in events(read.out) if event["name"] == "offsets_committed")
    perf = ("--topic", topic, "--num-records", "700", "--record-size", "50", "--throughput", "-1")
    assert ottla("producer-perf-test", *perf, at=kafka_broker).out.startswith("700 records sent, ")
    counted = ("--topic", topic, "--num-records", "1200", "--output", "json")
    assert json.loads(ottla("consumer-perf-test", *counted, at=kafka_broker).out)["data.consumed.in.nMsg"] == 1200


def test_no_records_at_all_may_be_asked_for(ottla: Run, cluster: Cluster) -> None:
    topic = new_topic(cluster, records=1)
    done = ottla("verifiable-producer", "--topic", topic, "--max-messages", "0")
    assert names(done.out) == ["startup_complete", "shutdown_complete", "tool_data"]
    done = ottla("verifiable-consumer", "--topic", topic, "--group-id", topic, "--max-messages", "0")
    assert names(done.out) == ["startup_complete", "shutdown_complete", "shutdown_requested"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_stopped_consumer_has_committed_and_left(cluster: Cluster, protocol: str) -> None:
    topic = new_topic(cluster, 2, records=10)
    group = f"{topic}-{protocol}"
    words = ("--topic", topic, "--group-id", group, "--group-protocol", protocol)
    with start(cluster, "verifiable-consumer", *words) as running:
        seen = ""
        while seen.count('"maxOffset":4') < 2 or not seen.rstrip().endswith('"success":true}'):
            seen += read_until(running, "offsets_committed")
        running.send_signal(signal.SIGTERM)
        rest, complaints = read_rest(running)
    assert (running.returncode, complaints) == (143, "")
    assert names(rest) == ["shutdown_requested", "partitions_revoked", "shutdown_complete"]
    assert names(seen)[:2] == ["startup_complete", "partitions_assigned"]
    consumed = [event for event in events(seen) if event["name"] == "records_consumed"]
    assert sum(event["count"] for event in consumed) == 10
    cluster.wait_for_group(group, members=0)
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        committed = admin.list_consumer_group_offsets([group]).all()[group]
    assert {partition: place.offset for partition, place in committed.items() if place is not None} == {
        TopicPartition(topic, 0): 5,
        TopicPartition(topic, 1): 5,
    }


def test_with_auto_commit_no_commit_is_told_of(ottla: Run, cluster: Cluster) -> None:
    topic = new_topic(cluster, records=4)
    words = ("--topic", topic, "--group-id", topic, "--max-messages", "4", "--enable-autocommit")
    assert "offsets_committed" not in names(ottla("verifiable-consumer", *words).out)


def test_an_error_ends_the_consumer_with_its_reason(ottla: Run, cluster: Cluster, tmp_path: Path) -> None:
    """The exit code is 0, as Kafka's: what counts are the events."""
    topic = new_topic(cluster, records=4)
    settings = tmp_path / "consumer.properties"
    settings.write_text("max.poll.interval.ms=3000\n")  # a poll without end looks for errors three times in that
    words = ("--topic", topic, "--group-id", topic, "--reset-policy", "none", "--command-config", str(settings))
    done = ottla("verifiable-consumer", *words)
    assert done.code == 0
    assert names(done.out)[-2:] == ["shutdown_complete", "shutdown_requested"]
    assert "records_consumed" not in names(done.out)
    assert done.err == (
        "Error during processing, terminating consumer process: "
        f"Undefined offset with no reset policy for partitions: {topic}-0\n"
    )


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["verifiable-producer", "--topic", "t", "--repeating-keys", "0"], "--repeating-keys should be greater than"),
        (["verifiable-producer", "--topic", "t", "--acks", "2"], "'2' is not one of '0', '1', '-1'"),
        (["verifiable-producer"], "Missing option '--topic'"),
        (
            ["verifiable-producer", "--topic", "t", "--command-config", "a", "--producer.config", "b"],
            "Options --producer.config and --command-config are mutually exclusive.",
        ),
        (["verifiable-producer", "--topic", "t", "--command-config", "not-there"], "Cannot read not-there"),
        (["verifiable-consumer", "--topic", "t"], "Missing option '--group-id'"),
        (
            ["verifiable-consumer", "--topic", "t", "--group-id", "g", "--reset-policy", "never"],
            "auto.offset.reset",
        ),
        (
            ["verifiable-consumer", "--topic", "t", "--group-id", "g", "--group-protocol", "consumer",
             "--session-timeout", "9000"],
            "session.timeout.ms",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(ottla: Run, words: list[str], complaint: str) -> None:
    done = ottla(*words)
    assert (done.code, done.out) == (1, "")
    assert done.err.count("\n") == 1
    assert complaint in done.err

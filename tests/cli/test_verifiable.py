"""The verifiable tools: the same events as Kafka's, but for times and rates."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.testing import Cluster
from tests.cli.conftest import CLASSES, Run
from tests.support.kafka import run_java

_numbers = itertools.count()


def new_topic(cluster: Cluster, partitions: int = 1) -> str:
    return cluster.create_topic(f"verifiable-{next(_numbers)}", partitions)


def events(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.java
def test_the_verifiable_tools_tell_the_events_of_kafkas(cluster: Cluster) -> None:
    """Each in a process of its own: Kafka's say their last words when the JVM ends."""
    told: list[list[list[str]]] = []
    for is_ours in (True, False):
        topic = new_topic(cluster)
        seen = []
        for tool, arguments in (
            ("verifiable-producer", ["--topic", topic, "--max-messages", "20", "--repeating-keys", "3"]),
            ("verifiable-producer", ["--topic", topic, "--max-messages", "5", "--value-prefix", "7"]),
            ("verifiable-consumer", ["--topic", topic, "--group-id", topic, "--max-messages", "25", "--verbose"]),
        ):
            words = ["--bootstrap-server", cluster.bootstrap_servers, *arguments]
            if is_ours:
                done = subprocess.run([sys.executable, "-m", "ottla.cli.main", tool, *words], capture_output=True,
                                      text=True, timeout=60, check=False)  # fmt: skip
            else:
                done = run_java(CLASSES[tool], words)
            assert done.returncode == 0, done.stderr
            for event in events(done.stdout.replace(topic, "TOPIC")):
                event.pop("timestamp")
                event.pop("avg_throughput", None)
                # Jackson orders what it was not told to by how it finds it, which is not promised.
                seen.append(sorted(json.dumps(item, sort_keys=True) for item in event.items()))
        told.append(seen)
    assert told[0] == told[1]


def test_keys_and_values_are_those_that_were_asked_for(ottla: Run, cluster: Cluster) -> None:
    topic = new_topic(cluster)
    done = ottla("verifiable-producer", "--topic", topic, "--max-messages", "4", "--repeating-keys", "3",
                 "--value-prefix", "9", "--message-create-time", "1000")  # fmt: skip
    sent = [event for event in events(done.out) if event["name"] == "producer_send_success"]
    assert [(event["key"], event["value"], event["offset"]) for event in sent] == [
        ("0", "9.0", 0), ("1", "9.1", 1), ("2", "9.2", 2), ("0", "9.3", 3),
    ]  # fmt: skip
    shown = ottla("console-consumer", "--topic", topic, "--partition", "0", "--offset", "0", "--max-messages", "1",
                  "--formatter-property", "print.timestamp=true").out  # fmt: skip
    assert shown == "CreateTime:1000\t9.0\n"


def test_what_cannot_be_sent_is_an_event(ottla: Run, cluster: Cluster, tmp_path: Path) -> None:
    settings = tmp_path / "producer.properties"
    settings.write_text("max.block.ms=300\n")
    done = ottla("verifiable-producer", "--topic", "no-such-topic", "--max-messages", "1", "--command-config",
                 str(settings))  # fmt: skip
    (failed,) = (event for event in events(done.out) if event["name"] == "producer_send_error")
    assert str(failed["exception"]).startswith("class org.apache.kafka.common.errors.")
    assert events(done.out)[-1]["acked"] == 0


@pytest.mark.parametrize("tool", ["verifiable-producer", "verifiable-consumer"])
def test_a_signal_ends_a_verifiable_tool_in_order(cluster: Cluster, tool: str) -> None:
    topic = new_topic(cluster)
    group = ["--group-id", topic] if tool == "verifiable-consumer" else ["--throughput", "100"]
    command = [sys.executable, "-m", "ottla.cli.main", tool, "--bootstrap-server", cluster.bootstrap_servers,
               "--topic", topic, *group]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        waited_for = "partitions_assigned" if tool == "verifiable-consumer" else "producer_send_success"
        while waited_for not in (line := running.stdout.readline()):
            assert line, "it ended by itself"
        running.send_signal(signal.SIGTERM)
        rest, complaints = running.communicate(timeout=20)
    assert (running.returncode, complaints) == (143, "")
    names = [event["name"] for event in events(rest)]
    assert names[-1] == ("shutdown_complete" if tool == "verifiable-consumer" else "tool_data")

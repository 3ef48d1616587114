"""Kafka's Java share consumer, its admin client and its tools for share groups against the broker (KIP-932).

`ShareMatrix.java` says what is checked, and says it of Kafka too: with OTTLA_SOAK a real Kafka 4.3.1 runs it as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.clients import PATIENCE_S, healthy_broker
from tests.support.kafka import run_java
from tests.support.nodes import NODE_COUNT, Brokers
from tests.support.server import Server, Settings, run_ottla

pytestmark = pytest.mark.java
SOURCE = Path(__file__).parent.parent / "support" / "ShareMatrix.java"
SCENARIOS = ["implicit", "explicit", "together", "timeouts", "limit", "renewal", "recordLimit", "committed", "offsets",
             "deletion"]  # fmt: skip
QUICK = {
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.record.lock.duration.ms": "1000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "3",
}
"""Members are assigned soon, and records come back soon."""
GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with healthy_broker(tmp_path_factory.mktemp("share"), QUICK) as running:
        yield running


def play(address: str, *scenarios: str) -> list[str]:
    """The scenarios that went through."""
    done = run_java(str(SOURCE), [address, *scenarios])
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


def run(main: str, broker: Brokers, *arguments: str, stdin: str = "") -> str:
    """What the tool prints; it must succeed."""
    done = run_java(main, ["--bootstrap-server", broker.address, *arguments], stdin=stdin)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def produce(broker: Brokers, topic: str, lines: list[str]) -> None:
    """Without the seconds that a JVM takes to start."""
    producer = Producer({"bootstrap.servers": broker.address})
    for line in lines:
        producer.produce(topic, line)
    assert producer.flush(PATIENCE_S) == 0


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines() if line.strip()]


def test_the_share_consumer_finds_nothing_unlike_kafka(quick: Brokers) -> None:
    assert play(quick.address, *SCENARIOS) == SCENARIOS


def test_what_members_have_said_survives_a_kill_of_the_broker(tmp_path: Path) -> None:
    with healthy_broker(tmp_path, QUICK) as broker:
        assert play(broker.address, "before") == ["before"]
        broker.kill()
        broker.start()
        assert play(broker.address, "after") == ["after"]


def test_the_share_groups_tool_resets_and_describes_and_the_console_consumer_reads(quick: Brokers) -> None:
    produce(quick, "tooled", [f"line {number}" for number in range(7)])
    reset = ["--reset-offsets", "--group", "tooled", "--topic", "tooled", "--to-earliest", "--execute"]
    assert ["tooled", "tooled", "0", "0"] in rows(run(GROUPS, quick, *reset))
    offsets = rows(run(GROUPS, quick, "--describe", "--group", "tooled"))
    assert offsets[-1] == ["tooled", "tooled", "0", "0", "7"]
    read = run(CONSOLE, quick, "--topic", "tooled", "--group", "tooled", "--max-messages", "5", "--timeout-ms", "20000")
    assert read.splitlines() == [f"line {number}" for number in range(5)]
    state = rows(run(GROUPS, quick, "--describe", "--group", "tooled", "--state"))[-1]
    assert (state[0], state[-2]) == ("tooled", "Empty")


def test_the_share_groups_tool_lists_and_deletes(quick: Brokers) -> None:
    produce(quick, "unwanted", ["line"])
    reset = ["--reset-offsets", "--group", "unwanted", "--topic", "unwanted", "--to-latest", "--execute"]
    run(GROUPS, quick, *reset)
    assert "unwanted" in run(GROUPS, quick, "--list").split()
    deleted = rows(run(GROUPS, quick, "--delete-offsets", "--group", "unwanted", "--topic", "unwanted"))
    assert ["unwanted", "Successful"] in deleted
    run(GROUPS, quick, "--delete", "--group", "unwanted")
    assert "unwanted" not in run(GROUPS, quick, "--list").split()


@pytest.mark.skipif(not os.environ.get("OTTLA_SOAK"), reason="what is said of Kafka does not change")
def test_kafka_plays_the_same_scenarios(tmp_path: Path) -> None:
    properties = Settings(tmp_path / "data", **QUICK).write(tmp_path / "server.properties")
    assert run_ottla("storage", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", properties).returncode == 0
    with Server.kafka(properties) as kafka:
        assert play(kafka.address, *SCENARIOS, "before") == [*SCENARIOS, "before"]
        kafka.kill()
        kafka.start()
        assert play(kafka.address, "after") == ["after"]


@pytest.mark.skipif(NODE_COUNT > 1, reason="of one node")
@pytest.mark.parametrize("order", [("kafka", "ottla"), ("ottla", "kafka")], ids=" then ".join)
def test_share_groups_go_on_when_the_other_broker_takes_the_directory(tmp_path: Path, order: tuple[str, str]) -> None:
    """What is stored of groups and of share partitions, one has written and the other reads."""
    properties = Settings(tmp_path / "data", **QUICK).write(tmp_path / "server.properties")
    assert run_ottla("storage", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", properties).returncode == 0
    for kind, scenario in zip(order, ("before", "after"), strict=True):
        with Server.kafka(properties) if kind == "kafka" else Server.ottla(properties) as server:
            assert play(server.address, scenario) == [scenario]
        if kind == "ottla":
            assert server.errors() == []

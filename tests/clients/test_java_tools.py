"""Kafka's own command line tools (kafka-tools 4.3.1) against the broker.

What consumes does so from a partition and an offset: the tools that join a group wait for groups to be served.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # it has no __all__

from tests.support.clients import PATIENCE_S, new_topic
from tests.support.kafka import run_java
from tests.support.nodes import NODE_IDS, REPLICAS, Brokers

pytestmark = pytest.mark.java
TOOLS = "org.apache.kafka.tools"


def run(tool: str, broker: Brokers, *arguments: str, stdin: str = "") -> str:
    """What the tool prints; it must succeed."""
    done = run_java(f"{TOOLS}.{tool}", ["--bootstrap-server", broker.address, *arguments], stdin=stdin)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fails(tool: str, broker: Brokers, *arguments: str) -> str:
    done = run_java(f"{TOOLS}.{tool}", ["--bootstrap-server", broker.address, *arguments])
    assert done.returncode != 0, done.stdout
    return done.stdout + done.stderr


def topics(broker: Brokers, *arguments: str) -> str:
    return run("TopicCommand", broker, *arguments)


def create(broker: Brokers, stem: str) -> str:
    """A topic of one partition, made without the seconds that a JVM takes to start."""
    topic = new_topic(stem)
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 2})
    admin.create_topics([NewTopic(topic, 1, REPLICAS)])[topic].result(PATIENCE_S)
    return topic


def test_the_topics_tool_creates_alters_describes_and_deletes(broker: Brokers) -> None:
    topic = new_topic("tool")
    made = topics(broker, "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=60000")
    assert f"Created topic {topic}." in made
    topics(broker, "--alter", "--topic", topic, "--partitions", "4")
    described = topics(broker, "--describe", "--topic", topic)
    assert "PartitionCount: 4" in described
    assert f"ReplicationFactor: {REPLICAS}" in described
    assert "retention.ms=60000" in described
    (last,) = re.findall(r"Partition: 3\s+Leader: (\d+)\s+Replicas: (\S+)\s+Isr: (\S+)", described)
    assert last[0] == last[1].split(",")[0], "the preferred replica leads"
    assert sorted(map(int, last[1].split(","))) == NODE_IDS
    assert sorted(map(int, last[2].split(","))) == NODE_IDS
    assert "already exists" in fails("TopicCommand", broker, "--create", "--topic", topic)
    assert topic in topics(broker, "--list").split()
    topics(broker, "--delete", "--topic", topic)
    assert topic not in topics(broker, "--list").split()


def test_the_configs_tool_changes_topics_and_brokers(broker: Brokers) -> None:
    topic = create(broker, "configs")
    done = run_java(
        "kafka.admin.ConfigCommand",
        ["--bootstrap-server", broker.address, "--alter", "--topic", topic, "--add-config",
         "retention.ms=1234567,cleanup.policy=[compact,delete]"],
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"Completed updating config for topic {topic}.\n"), done.stderr
    done = run_java("kafka.admin.ConfigCommand", ["--bootstrap-server", broker.address, "--describe", "--topic", topic])
    assert "retention.ms=1234567" in done.stdout, done.stderr
    assert "cleanup.policy=compact,delete" in done.stdout
    assert "DYNAMIC_TOPIC_CONFIG:retention.ms=1234567" in done.stdout
    done = run_java(
        "kafka.admin.ConfigCommand",
        ["--bootstrap-server", broker.address, "--alter", "--entity-type", "brokers", "--entity-default",
         "--add-config", "log.retention.ms=7654321"],
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    done = run_java(
        "kafka.admin.ConfigCommand",
        ["--bootstrap-server", broker.address, "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1"],
    )
    assert "log.retention.ms=7654321" in done.stdout, done.stderr
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=7654321" in done.stdout


def test_what_the_console_producer_writes_the_console_consumer_reads(broker: Brokers) -> None:
    topic = create(broker, "console")
    run(
        "ConsoleProducer", broker, "--topic", topic, "--reader-property", "parse.key=true",
        "--reader-property", "parse.headers=true",
        "--reader-property", "null.marker=NULL", "--compression-codec", "zstd",
        stdin="h1:v1\ta\tone\nh1:v1,h2:v2\tb\ttwo\nh1:v1\tc\tNULL\n",
    )  # fmt: skip
    printed = run(
        "consumer.ConsoleConsumer", broker, "--topic", topic, "--partition", "0", "--offset", "earliest",
        "--max-messages", "3", "--timeout-ms", "20000",
        "--formatter-property", "print.key=true", "--formatter-property", "print.headers=true",
        "--formatter-property", "print.offset=true",
    )  # fmt: skip
    assert printed.splitlines() == [
        "Offset:0\th1:v1\ta\tone", "Offset:1\th1:v1,h2:v2\tb\ttwo", "Offset:2\th1:v1\tc\tnull",
    ]  # fmt: skip
    printed = run(
        "consumer.ConsoleConsumer", broker, "--topic", topic, "--partition", "0", "--offset", "1",
        "--max-messages", "1", "--timeout-ms", "20000",
    )  # fmt: skip
    assert printed == "two\n"


def test_offsets_are_listed_records_deleted_and_directories_described(broker: Brokers, tmp_path: Path) -> None:
    topic = create(broker, "perf")
    done = run_java(
        f"{TOOLS}.ProducerPerformance",
        ["--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1",
         "--bootstrap-server", broker.address, "--command-property", "acks=all", "compression.type=lz4"],
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "20000 records sent" in done.stdout
    done = run_java(
        f"{TOOLS}.VerifiableProducer",
        ["--bootstrap-server", broker.address, "--topic", topic, "--max-messages", "500", "--acks", "-1"],
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(line["name"] == "producer_send_success" for line in lines) == 500, done.stderr
    asked = ["--topic", topic]
    assert run("GetOffsetShell", broker, *asked) == f"{topic}:0:20500\n"
    assert re.fullmatch(rf"{topic}:0:20\d\d\d\n", run("GetOffsetShell", broker, *asked, "--time", "max-timestamp"))
    assert run("GetOffsetShell", broker, *asked, "--time", "earliest-local") == f"{topic}:0:0\n"
    wanted = tmp_path / "delete.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 150}], "version": 1}))
    assert "low_watermark: 150" in run("DeleteRecordsCommand", broker, "--offset-json-file", str(wanted))
    assert run("GetOffsetShell", broker, *asked, "--time", "earliest") == f"{topic}:0:150\n"
    dirs = json.loads(run("LogDirsCommand", broker, "--describe", "--topic-list", topic).splitlines()[-1])
    assert [one["broker"] for one in dirs["brokers"]] == NODE_IDS
    for one in dirs["brokers"]:
        (directory,) = one["logDirs"]
        assert directory["error"] is None
        assert directory["logDir"] == str(broker.data[one["broker"]])
        (partition,) = directory["partitions"]
        assert (partition["partition"], partition["offsetLag"], partition["isFuture"]) == (f"{topic}-0", 0, False)
        assert partition["size"] > 100 * 500


def test_the_cluster_tools_know_the_broker(broker: Brokers) -> None:
    versions = run("BrokerApiVersionsCommand", broker)
    for number, address in broker.addresses.items():
        assert f"{address} (id: {number} rack: null isFenced: false)" in versions
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", versions)
    assert re.search(r"Fetch\(1\): 4 to 18 \[usable: 18\]", versions)
    status = run("MetadataQuorumCommand", broker, "describe", "--status")
    (leader,) = re.findall(r"LeaderId:\s+(\d+)\n", status)
    assert int(leader) in NODE_IDS
    assert re.search(r"MaxFollowerLag:\s+\d\n", status)
    (voters,) = re.findall(r"CurrentVoters:\s+(\[.*\])\n", status)
    assert [voter["id"] for voter in json.loads(voters)] == NODE_IDS
    replication = run("MetadataQuorumCommand", broker, "describe", "--replication")
    rows = [line.split() for line in replication.splitlines()[1:]]
    assert sorted(int(row[0]) for row in rows) == NODE_IDS
    assert [row[0] for row in rows if row[-1] == "Leader"] == [leader]
    assert [row[-1] for row in rows if row[0] != leader] == ["Follower"] * (len(NODE_IDS) - 1)
    features = run("FeatureCommand", broker, "describe")
    assert re.search(r"Feature: metadata.version\s+SupportedMinVersion: \S+\s+SupportedMaxVersion: 4\.3", features)

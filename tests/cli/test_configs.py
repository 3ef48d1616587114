"""`configs`: ours and Kafka's, side by side on one broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.testing import Cluster
from tests.cli.conftest import Run


def same(ottla: Run, kafka: Run, *arguments: str, at: str = "") -> str:
    ours, theirs = ottla("configs", *arguments, at=at), kafka("configs", *arguments, at=at)
    assert (ours.code, ours.out) == (theirs.code, theirs.out), (arguments, ours.err, theirs.err)
    return ours.out


@pytest.mark.java
def test_settings_are_changed_and_shown_as_by_kafka(ottla: Run, kafka: Run, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("orders")
    cluster.create_topic("shipments", retention_ms=5)
    file = tmp_path / "more.properties"
    file.write_text("flush.ms=1000\nflush.messages=7\n")
    for arguments in (
        ["--describe", "--topic", "orders"],
        ["--alter", "--topic", "orders", "--add-config", "retention.ms=1234567,cleanup.policy=[compact,delete]"],
        ["--alter", "--entity-type", "topics", "--entity-name", "orders", "--add-config-file", str(file)],
        ["--describe", "--topic", "orders"],
        ["--describe", "--topic", "orders", "--all"],
        ["--describe", "--entity-type", "topics"],
        [
            "--alter",
            "--topic",
            "orders",
            "--delete-config",
            "flush.ms,flush.messages",
            "--add-config",
            "retention.ms=8",
        ],
        ["--describe", "--topic", "orders"],
        ["--describe", "--topic", "nothing"],
        ["--alter", "--broker-defaults", "--add-config", "log.retention.ms=7654321"],
        ["--alter", "--broker", "1", "--add-config", "log.cleaner.threads=2"],
        ["--describe", "--broker-defaults"],
        ["--describe", "--entity-type", "brokers", "--entity-default"],
        ["--describe", "--broker", "1"],
        ["--describe", "--broker", "1", "--all"],
        ["--describe", "--broker", "9"],
        ["--describe", "--entity-type", "brokers"],
        ["--alter", "--broker", "1", "--delete-config", "log.cleaner.threads"],
        ["--alter", "--group", "billing", "--add-config", "consumer.session.timeout.ms=50000"],
        ["--describe", "--group", "billing"],
        ["--describe", "--group", "nobody"],
        ["--describe", "--entity-type", "groups"],
        ["--alter", "--client-metrics", "m", "--add-config", "interval.ms=5000,metrics=[org.apache.kafka.]"],
        ["--describe", "--client-metrics", "m"],
        ["--describe", "--client-metrics", "none"],
        ["--describe", "--entity-type", "client-metrics"],
    ):
        same(ottla, kafka, *arguments)
    (found,) = json.loads(ottla("configs", "--describe", "--topic", "orders", "--output", "json").out)
    assert {entry["name"]: entry["value"] for entry in found["configs"]} == {
        "cleanup.policy": "compact,delete", "retention.ms": "8",
    }  # fmt: skip


@pytest.mark.java
def test_quotas_and_passwords_are_changed_and_shown_as_by_kafka(ottla: Run, kafka: Run, kafka_broker: str) -> None:
    """Against a real Kafka: Ottla serves neither yet."""
    for arguments in (
        ["--alter", "--user", "alice", "--add-config", "producer_byte_rate=1048576,consumer_byte_rate=512"],
        ["--alter", "--user-defaults", "--add-config", "request_percentage=200"],
        ["--alter", "--client", "app", "--add-config", "producer_byte_rate=12345678901"],
        ["--alter", "--user", "alice", "--client", "app", "--add-config", "consumer_byte_rate=10"],
        ["--alter", "--entity-type", "users", "--entity-name", "bob", "--entity-type", "clients", "--entity-default",
         "--add-config", "consumer_byte_rate=11"],
        ["--alter", "--ip", "127.0.0.1", "--add-config", "connection_creation_rate=99"],
        ["--alter", "--ip-defaults", "--add-config", "connection_creation_rate=1000"],
        ["--describe", "--entity-type", "users"],
        ["--describe", "--user", "alice"],
        ["--describe", "--user-defaults"],
        ["--describe", "--entity-type", "clients"],
        ["--describe", "--user", "alice", "--client", "app"],
        ["--describe", "--entity-type", "users", "--entity-type", "clients"],
        ["--describe", "--entity-type", "ips"],
        ["--alter", "--user", "alice", "--add-config", "SCRAM-SHA-512=[password=secret]"],
        ["--alter", "--user", "alice", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=se=cret]"],
        ["--alter", "--user", "carol", "--add-config", "SCRAM-SHA-256=[password=x]"],
        ["--describe", "--user", "alice"],
        ["--describe", "--user", "carol"],
    ):  # fmt: skip
        assert same(ottla, kafka, *arguments, at=kafka_broker)
    for run, mechanism, quota in (
        (ottla, "SCRAM-SHA-256", "producer_byte_rate"),
        (kafka, "SCRAM-SHA-512", "consumer_byte_rate"),
    ):
        for name in (mechanism, quota):
            done = run("configs", "--alter", "--user", "alice", "--delete-config", name, at=kafka_broker)
            assert (done.code, done.out) == (0, "Completed updating config for user alice.\n")
        same(ottla, kafka, "--describe", "--user", "alice", at=kafka_broker)
    for arguments in (
        ["--alter", "--user", "u", "--add-config", "producer_byte_rate=fast"],
        ["--alter", "--user", "u", "--delete-config", "producer_byte_rate"],
    ):
        ours, theirs = ottla("configs", *arguments, at=kafka_broker), kafka("configs", *arguments, at=kafka_broker)
        assert (ours.code, ours.err) == (theirs.code, theirs.err) == (1, theirs.err.splitlines()[0] + "\n")


@pytest.mark.java
def test_what_kafka_refuses_is_refused(ottla: Run, kafka: Run) -> None:
    for arguments in (
        [],
        ["--describe", "--alter", "--topic", "t"],
        ["--describe", "--topic", "t", "--add-config", "a=b"],
        ["--describe"],
        ["--describe", "--entity-type", "planets"],
        ["--describe", "--entity-type", "topics", "--entity-type", "topics"],
        ["--describe", "--topic", "t", "--broker", "1"],
        ["--describe", "--entity-type", "topics", "--topic", "t"],
        ["--describe", "--broker", "one"],
        ["--describe", "--entity-type", "topics", "--entity-default"],
        ["--describe", "--entity-type", "broker-loggers"],
        ["--alter", "--entity-type", "topics", "--add-config", "a=b"],
        ["--alter", "--entity-type", "brokers", "--add-config", "a=b"],
        ["--alter", "--topic", "t"],
        ["--alter", "--topic", "t", "--add-config", "a=b", "--add-config-file", "/dev/null"],
        ["--alter", "--topic", "t", "--add-config", "a"],
        ["--alter", "--topic", "t", "--add-config", "a b=c"],
        ["--alter", "--user", "u", "--add-config", "SCRAM-SHA-256=[iterations=1,password=x]"],
        ["--alter", "--user", "u", "--add-config", "SCRAM-SHA-256=x"],
        ["--alter", "--user-defaults", "--add-config", "SCRAM-SHA-256=[password=x]"],
        ["--alter", "--user", "u", "--add-config", "SCRAM-SHA-256=[password=x],producer_byte_rate=1"],
        ["--alter", "--ip", "127.0.0.1", "--add-config", "producer_byte_rate=1"],
    ):
        ours, theirs = ottla("configs", *arguments), kafka("configs", *arguments)
        assert (ours.code, ours.out) == (theirs.code, theirs.out) == (1, ""), (arguments, ours, theirs)
        assert ours.err == theirs.err.splitlines()[0] + "\n", arguments


@pytest.mark.java
def test_what_the_broker_refuses_is_one_line(ottla: Run, kafka: Run, cluster: Cluster) -> None:
    cluster.create_topic("refused")
    for arguments in (
        ["--alter", "--topic", "refused", "--add-config", "retention.ms=soon"],
        ["--alter", "--topic", "nowhere", "--add-config", "retention.ms=1"],
        ["--alter", "--broker", "1", "--add-config", "node.id=3"],
    ):
        ours, theirs = ottla("configs", *arguments), kafka("configs", *arguments)
        assert (ours.code, ours.out) == (theirs.code, theirs.out) == (1, "")
        first, _, reason = theirs.err.splitlines()[0:2][0], "", theirs.err.splitlines()[1]
        assert ours.err.startswith(first + ": org.apache.kafka.common.errors."), ours.err
        assert ours.err.count("\n") == 1
        assert ours.err.partition(": org.")[2].partition(":")[0] in reason

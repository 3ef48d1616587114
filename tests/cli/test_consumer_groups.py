"""`consumer-groups`: ours and Kafka's, side by side on one broker."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.errors import GroupIdNotFound, GroupSubscribedToTopic, NonEmptyGroup, UnknownTopicOrPartition
from ottla.testing import Cluster
from tests.cli.conftest import Run

_numbers = itertools.count()
NEW_YEAR_MS = 1_767_225_600_000
"""2026-01-01, when the first record of each partition was made; the others follow by the hour."""
OWN_WORDS = {
    str(NonEmptyGroup()): "The group is not empty.",
    str(UnknownTopicOrPartition()): "This server does not host this topic-partition.",
    str(GroupSubscribedToTopic()): "Deleting offsets of a topic is forbidden while the consumer group is actively "
    "subscribed to it.",
    str(GroupIdNotFound()): "The group id does not exist.",
}
"""Where a server sends only an error's code, each client has words of its own for it."""


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    name = cluster.create_topic("orders", 3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(30):
        producer.produce(name, b"%d" % number, partition=number % 3, timestamp=NEW_YEAR_MS + number // 3 * 3_600_000)
    assert producer.flush(20) == 0
    return name


@pytest.fixture(scope="module")
def active(cluster: Cluster, topic: str) -> Iterator[str]:
    """A group with a member of each protocol's kind: this one is of the new protocol."""
    yield from _member(cluster, topic, "active", "consumer")


@pytest.fixture(scope="module")
def classic(cluster: Cluster, topic: str) -> Iterator[str]:
    yield from _member(cluster, topic, "classic", "classic")


def _member(cluster: Cluster, topic: str, group: str, protocol: str) -> Iterator[str]:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "group.protocol": protocol}
    if protocol == "classic":
        settings["group.instance.id"] = "static-1"
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([topic])
    while not (message := consumer.poll(10)):
        pass
    consumer.commit(message=message, asynchronous=False)
    cluster.wait_for_group(group, state="Stable", members=1)
    yield group
    consumer.close()


def idle_group(cluster: Cluster, topic: str) -> str:
    """A group that has committed and gone."""
    group = f"idle-{next(_numbers)}"
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 4), TopicPartition(topic, 2, 7)], asynchronous=False)
    consumer.close()
    return group


def words(text: str) -> str:
    for own, kafkas in OWN_WORDS.items():
        text = text.replace(own, kafkas)
    return text


def same(ottla: Run, kafka: Run, *arguments: str) -> str:
    ours, theirs = ottla("consumer-groups", *arguments), kafka("consumer-groups", *arguments)
    assert (ours.code, words(ours.out)) == (theirs.code, words(theirs.out)), (ours.err, theirs.err)
    told = [line for line in theirs.err.splitlines() if not line.startswith(("\tat ", "Caused", "org.", "java."))]
    assert ours.err.splitlines() == told
    return ours.out


@pytest.mark.java
def test_groups_are_listed_and_described_as_by_kafka(
    ottla: Run, kafka: Run, cluster: Cluster, topic: str, active: str, classic: str
) -> None:
    idle = idle_group(cluster, topic)
    for arguments in (
        ["--list"],
        ["--list", "--state"],
        ["--list", "--type"],
        ["--list", "--state", "--type"],
        ["--list", "--state", "stable"],
        ["--list", "--state", "Empty,Dead"],
        ["--list", "--type", "classic"],
        ["--describe", "--group", active],
        ["--describe", "--group", active, "--verbose"],
        ["--describe", "--group", active, "--members"],
        ["--describe", "--group", active, "--members", "--verbose"],
        ["--describe", "--group", active, "--state"],
        ["--describe", "--group", active, "--state", "--verbose"],
        ["--describe", "--group", classic, "--offsets"],
        ["--describe", "--group", classic, "--members"],
        ["--describe", "--group", classic, "--members", "--verbose"],
        ["--describe", "--group", classic, "--state", "--verbose"],
        ["--describe", "--group", idle],
        ["--describe", "--group", idle, "--members"],
        ["--describe", "--group", idle, "--state"],
        ["--describe", "--all-groups"],
        ["--describe", "--all-groups", "--members"],
        ["--describe", "--group", "nobody"],
        ["--validate-regex", "a.*b"],
    ):
        same(ottla, kafka, *arguments)
    described = json.loads(ottla("consumer-groups", "--describe", "--group", idle, "--output", "json").out)
    assert described[0]["state"] == "Empty"
    assert [(one["partition"], one["currentOffset"], one["lag"]) for one in described[0]["partitions"]] == [
        (0, 4, 6), (2, 7, 3),
    ]  # fmt: skip
    listed = json.loads(ottla("consumer-groups", "--list", "--output", "json").out)
    assert {"group": active, "type": "Consumer", "state": "Stable"} in listed


@pytest.mark.java
def test_offsets_are_set_as_by_kafka(ottla: Run, kafka: Run, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    idle = idle_group(cluster, topic)
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,2\n{topic},1,3\n")
    both = tmp_path / "both.csv"
    both.write_text(f"{idle},{topic},0,5\n")
    scope = ["--reset-offsets", "--group", idle, "--dry-run"]
    for arguments in (
        ["--topic", topic, "--to-earliest"],
        ["--topic", topic, "--to-latest"],
        ["--topic", f"{topic}:0,2", "--to-offset", "3"],
        ["--topic", topic, "--to-offset", "1000"],
        ["--all-topics", "--shift-by", "-2"],
        ["--all-topics", "--shift-by", "-100"],
        ["--all-topics", "--to-current"],
        ["--topic", topic, "--to-current"],
        ["--topic", topic, "--to-datetime", "2026-01-01T02:30:00.000"],
        ["--topic", topic, "--to-datetime", "2026-01-01T04:30:00.000+02:00"],
        ["--topic", topic, "--to-datetime", "2030-01-01T00:00:00.000Z"],
        ["--topic", topic, "--by-duration", "P10000D"],
        ["--topic", topic, "--by-duration", "PT0S"],
        ["--from-file", str(plan)],
        ["--from-file", str(both)],
        ["--topic", topic, "--to-earliest", "--export"],
    ):
        ours, theirs = ottla("consumer-groups", *scope, *arguments), kafka("consumer-groups", *scope, *arguments)
        assert (ours.code, ours.out) == (theirs.code, theirs.out), (arguments, ours.err, theirs.err)
    same(ottla, kafka, "--reset-offsets", "--all-groups", "--topic", f"{topic}:9", "--to-latest", "--dry-run")
    assert same(ottla, kafka, "--describe", "--group", idle).count("\n") == 4, "nothing was set"
    for run in (ottla, kafka):
        run("consumer-groups", "--reset-offsets", "--group", idle, "--topic", topic, "--to-offset", "1", "--execute")
        shown = run("consumer-groups", "--describe", "--group", idle).out
        assert re.findall(rf"{topic}\s+(\d)\s+(\d+)", shown) == [("0", "1"), ("1", "1"), ("2", "1")]
        run("consumer-groups", "--reset-offsets", "--group", idle, "--all-topics", "--to-latest", "--execute")


@pytest.mark.java
def test_an_active_group_is_left_alone_as_by_kafka(
    ottla: Run, kafka: Run, cluster: Cluster, topic: str, active: str, classic: str
) -> None:
    for arguments in (
        ["--reset-offsets", "--group", active, "--topic", topic, "--to-earliest", "--execute"],
        ["--delete", "--group", active],
        ["--delete-offsets", "--group", classic, "--topic", f"{topic}:0"],
        ["--delete-offsets", "--group", active, "--topic", f"{topic}:0"],
    ):
        same(ottla, kafka, *arguments)


@pytest.mark.java
def test_groups_and_offsets_are_deleted_as_by_kafka(ottla: Run, kafka: Run, cluster: Cluster, topic: str) -> None:
    printed = []
    for run in (ottla, kafka):
        group = idle_group(cluster, topic)
        text = [
            run("consumer-groups", *arguments).out
            for arguments in (
                ["--delete-offsets", "--group", group, "--topic", f"{topic}:0"],
                ["--describe", "--group", group],
                ["--delete-offsets", "--group", group, "--topic", topic],
                ["--delete-offsets", "--group", "nobody", "--topic", topic],
                ["--delete-offsets", "--group", group, "--topic", "nothing"],
                ["--delete", "--group", group],
                ["--delete", "--group", group],
            )
        ]
        printed.append([words(one.replace(group, "idle-N")) for one in text])
    assert printed[0] == printed[1]


@pytest.mark.java
def test_what_kafka_refuses_is_refused(ottla: Run, kafka: Run) -> None:
    for arguments in (
        [],
        ["--list", "--describe", "--all-groups"],
        ["--describe"],
        ["--describe", "--group", "g", "--members", "--offsets"],
        ["--describe", "--group", "g", "--state", "Stable"],
        ["--delete", "--group", "g", "--topic", "t"],
        ["--reset-offsets", "--group", "g", "--dry-run", "--execute"],
        ["--reset-offsets", "--group", "g", "--dry-run"],
        ["--reset-offsets", "--group", "g", "--dry-run", "--topic", "orders"],
        ["--reset-offsets", "--group", "g", "--dry-run", "--to-latest", "--to-earliest"],
        ["--list", "--group", "g"],
        ["--describe", "--group", "g", "--all-groups"],
        ["--list", "--state", "Sleepy"],
        ["--list", "--type", "share"],
    ):
        ours, theirs = ottla("consumer-groups", *arguments), kafka("consumer-groups", *arguments)
        assert (ours.code, ours.out) == (1, ""), arguments
        assert ours.err.count("\n") == 1
        # Which of several options Kafka names first changes from run to run.
        assert sorted(re.findall(r"\w+", ours.err)) == sorted(re.findall(r"\w+", theirs.err.splitlines()[0])), arguments


def test_an_option_of_another_action_is_refused(ottla: Run) -> None:
    done = ottla("consumer-groups", "--list", "--members")
    expected = "Option(s) [members] are unavailable given other options on the command line\n"
    assert (done.code, done.out, done.err) == (1, "", expected)

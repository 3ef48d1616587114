"""Random groups at Ottla and at a real Kafka: the same answers, and the same records, hashes and all.

The topics have the same ids at both, so that nothing is left to chance but times. Members are named by single letters,
whose places in Java's tables do not collide: there Kafka's order of members is another one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from itertools import count
from uuid import uuid4

import pytest

from ottla.wire import Message
from ottla.wire.coordinator.consumer_group import ConsumerGroupCurrentMemberAssignmentValue
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.metadata import RegisterBrokerRecord
from tests.support.raw import RawClient
from tests.support.server import Server, Settings, run_ottla
from tests.unit.coordinator.group.clusters import SocketCluster, VirtualCluster
from tests.unit.coordinator.group.consumer_player import ConsumerPlayer
from tests.unit.coordinator.group.doors import SocketDoor, VirtualDoor
from tests.unit.replica.node import NODE_ID

SEEDS = 14
SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}
ANSWER_MS = 2000.0
METADATA_S = 30
"""How long Kafka's group coordinator may take to hear of new topics, after the clients have, on a busy machine."""


class PromptDoor(SocketDoor):
    """Waits for answers, and not longer."""

    def run_ms(self, duration_ms: float) -> None:
        deadline = time.monotonic() + ANSWER_MS / 1000
        while time.monotonic() < deadline and any(not self._lines[who].is_readable() for who in self._pending):
            time.sleep(0.001)


class Exact(ConsumerPlayer):
    """Records with their hashes; partitions that a member owns are a set, whose order says nothing."""

    hides_hashes = False

    def _record(self, key: Message, value: Message | None) -> str:
        if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
            for topics in (value.assigned_partitions, value.partitions_pending_revocation):
                topics.sort(key=lambda one: one.topic_id)
                for one in topics:
                    both = sorted(zip(one.partitions, one.assignment_epochs or [], strict=True))
                    one.partitions = [partition for partition, _ in both]
                    one.assignment_epochs = [epoch for _, epoch in both]
        return super()._record(key, value)


def script(seed: int) -> list[str]:
    """Commands; `T` and `U` stand for topics of the script's own."""
    choose = random.Random(seed)
    subscriptions = ["T", "T", "U", "T+U", "T+missing", "missing"]
    is_homogeneous = choose.random() < 0.4
    uses_classic = choose.random() < 0.5

    def topics() -> str:
        return "T+U" if is_homogeneous else choose.choice(subscriptions)

    commands = ["beat z join topics=T"]  # somebody always stays: Kafka forgets an empty group that a classic one joins
    members: dict[str, str] = {}
    classic: dict[str, str] = {}
    for _ in range(60):
        action = choose.choices(
            ["beat", "join", "told", "subscribe", "leave", "away", "epoch", "full", "classic", "show"],
            [30, 14, 25, 8, 6, 5, 4, 4, 30 if uses_classic else 0, 4],
        )[0]
        who = choose.choice(sorted(members)) if members else None
        if action == "join" or (who is None and action not in ("classic", "show")):
            name = choose.choice("abcdefgh")
            # A name has one instance id for good: Kafka never forgets that a member had another.
            static = members.setdefault(name, choose.choice(["", "", f" instance=i{choose.randrange(4)}"]))
            extra = choose.choice(["", "", " assignor=range", " assignor=uniform", " rack=x"])
            commands.append(f"beat {name} join topics={topics()}{static}{extra}")
        elif action == "classic":
            commands += _classic(choose, classic, "T+U" if is_homogeneous else choose.choice(["T", "U", "T+U"]))
        elif action == "show":
            commands.append("show")
        elif who is not None:
            commands.append({
                "beat": f"beat {who}",
                "told": f"beat {who} owns=told",
                "subscribe": f"beat {who} topics={topics()}",
                "leave": f"beat {who} leave",
                "away": f"beat {who} away",
                "epoch": f"beat {who} epoch={choose.randint(0, 9)} {choose.choice(['', 'owns=told'])}".rstrip(),
                "full": f"beat {who} full owns=told",
            }[action])  # fmt: skip
    return [*commands, "show", "records", "list"]


def _classic(choose: random.Random, members: dict[str, str], topics: str) -> list[str]:
    who = choose.choice("pqr")
    if who not in members:
        members[who] = topics
        return [f"join {who} id={who} protocols=range:{topics}"]
    again = f"join {who} id={who} protocols=range:{members[who]} owns=told"
    return choose.choice([
        [f"heartbeat {who}"], [f"heartbeat {who}"], [again, f"sync {who}"], [again], [f"sync {who}"], [f"leave {who}"],
    ])  # fmt: skip


@pytest.fixture(scope="module")
def kafka_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory = tmp_path_factory.mktemp("kafka")
    settings = Settings(directory / "data")
    settings.update(SETTINGS)
    properties = settings.write(directory / "server.properties")
    cluster_id = run_ottla("storage", "random-uuid").stdout.strip()
    formatted = run_ottla("storage", "format", "-t", cluster_id, "-c", properties)
    assert formatted.returncode == 0, formatted.stderr
    with Server.kafka(properties) as server:
        with RawClient(server.port) as client:
            find = FindCoordinatorRequest(key_type=0, coordinator_keys=["any"])
            while client.send(find, 4, FindCoordinatorResponse).coordinators[0].error_code:
                time.sleep(0.1)  # it makes the topic
            while client.send(ListGroupsRequest(), 5, ListGroupsResponse).error_code:
                time.sleep(0.1)
        yield server.port


def wait_until_known(port: int, topics: dict[str, int]) -> None:
    """Until Kafka's group coordinator has heard of all partitions: a new group's first member is given them."""
    deadline = time.monotonic() + METADATA_S
    with RawClient(port) as client:
        for attempt in count():
            beat = ConsumerGroupHeartbeatRequest(
                f"probe-{'-'.join(topics)}-{attempt}", str(uuid4()), 0,
                rebalance_timeout_ms=1000, subscribed_topic_names=list(topics), topic_partitions=[],
            )  # fmt: skip
            told = client.send(beat, 0, ConsumerGroupHeartbeatResponse)
            assert told.error_code == 0, told
            given = [] if told.assignment is None else told.assignment.topic_partitions
            beat.member_epoch = -1
            client.send(beat, 0, ConsumerGroupHeartbeatResponse)
            if sum(len(one.partitions) for one in given) == sum(topics.values()):
                return
            assert time.monotonic() < deadline, f"Kafka's coordinator knows {given} of {topics}"
            time.sleep(0.05)


@pytest.mark.java
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_random_group_is_the_same_at_ottla_and_at_kafka(seed: int, kafka_port: int) -> None:
    choose = random.Random(seed)
    cluster = SocketCluster(kafka_port)
    topics = {f"T{seed}x": choose.randint(1, 20), f"U{seed}x": choose.randint(1, 5)}
    for name, partitions in topics.items():
        cluster.create(name, partitions)
    wait_until_known(kafka_port, topics)
    virtual = VirtualDoor({}, SETTINGS)
    virtual.node.publish(RegisterBrokerRecord(broker_id=NODE_ID, broker_epoch=9, fenced=False, rack=None))
    for uuid, name in cluster.topic_names().items():
        if name in topics:
            virtual.node.create_topic(name, topics[name], uuid=uuid)
    ours = Exact(virtual, VirtualCluster(virtual.node), f"random-{seed}")
    door = PromptDoor(kafka_port)
    kafkas = Exact(door, cluster, f"random-{seed}")
    played: list[str] = []
    try:
        for command in script(seed):
            for letter in "TU":
                command = _named(command, letter, f"{letter}{seed}x")
            played.append(f"> {command}")
            told, kafka_told = ours.execute(command), kafkas.execute(command)
            played += told
            assert told == kafka_told, "\n".join(played)
    finally:
        for name in topics:
            cluster.delete(name)
        cluster.close()
        door.close()
        virtual.close()


def _named(command: str, letter: str, name: str) -> str:
    """The command with a topic's real name."""
    for mark in "=+|:":
        command = command.replace(f"{mark}{letter}", f"{mark}{name}")
    return command

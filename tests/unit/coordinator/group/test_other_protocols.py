"""What the classic and the everyday APIs make of groups of other protocols; asked of a real Kafka as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla.errors import error_class
from ottla.wire import Message
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ottla.wire.metadata import FeatureLevelRecord
from tests.unit.coordinator.group.classic_player import Player
from tests.unit.coordinator.group.doors import SocketDoor, VirtualDoor
from tests.unit.coordinator.group.test_classic_transcripts import SETTINGS, TOPICS, kafka_port

__all__ = ["kafka_port"]

MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"
JOIN, LEAVE = 0, -1


def consumer_heartbeat(group: str, epoch: int) -> Message:
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=MEMBER,
        member_epoch=epoch,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )


def share_heartbeat(group: str, epoch: int) -> Message:
    return ShareGroupHeartbeatRequest(
        group_id=group, member_id=MEMBER, member_epoch=epoch, subscribed_topic_names=["t"]
    )


Heartbeat = Callable[[str, int], Message]


def story(door: VirtualDoor | SocketDoor, heartbeat: Heartbeat, group: str) -> list[str]:
    """A group with a member of another protocol, then without, and what classic requests are told."""
    player = Player(door, group)
    lines: list[str] = []

    def told(epoch: int) -> None:
        door.begin("m", heartbeat(group, epoch), 1)
        door.run_ms(200)
        if isinstance(door, SocketDoor):
            door.await_answers(1)
        for _, response in door.answers():
            assert isinstance(response, ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse), response
            name = error_class(response.error_code).name if response.error_code else "fine"
            lines.append(f"epoch {epoch}: {name}")

    def play(*commands: str) -> None:
        for command in commands:
            lines.append(f"> {command}")
            # A classic member that is let in waits for no other here, so every command has one answer.
            lines.extend(player.execute_expecting(command, ["one"]))

    told(JOIN)
    play("list", "describe", "describe v=5", "delete", "delete-offsets u-0", "delete-offsets t-0")
    play("join a type=connect", "sync a gen=1 protocol=range", "heartbeat a gen=1 id=nobody", "leave nobody")
    play("commit - t-0=1", "commit a gen=1 id=nobody t-0=1", "fetch all", "list types=classic")
    told(LEAVE)
    play("list", "describe", "commit - t-0=5", "fetch all", "delete-offsets t-0", "join a", "list")
    return lines


PROTOCOLS = {"consumer": consumer_heartbeat, "share": share_heartbeat}


@pytest.fixture
def virtual() -> Iterator[VirtualDoor]:
    door = VirtualDoor(TOPICS, SETTINGS)
    for feature in ("group.version", "share.version"):
        door.node.publish(FeatureLevelRecord(name=feature, feature_level=1))
    yield door
    door.close()


def test_an_empty_consumer_group_becomes_classic_when_a_classic_member_joins(virtual: VirtualDoor) -> None:
    lines = story(virtual, consumer_heartbeat, "g")
    assert lines[-4:] == ["> join a", "a: MEMBER_ID_REQUIRED a", "> list", "listed: classic Empty -"]
    virtual.node.change_partition("__consumer_offsets", 0, leader=1)
    virtual.run_ms(100)
    assert Player(virtual, "g").execute("list") == ["listed: classic Empty -"], "its successor reads the same"


def test_a_share_group_stays_one(virtual: VirtualDoor) -> None:
    lines = story(virtual, share_heartbeat, "g")
    assert lines[-4:-2] == ["> join a", "a: INCONSISTENT_GROUP_PROTOCOL"]
    assert lines[-1].startswith("listed: share")


@pytest.mark.java
@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_real_kafka_tells_the_same(protocol: str, kafka_port: int, virtual: VirtualDoor) -> None:
    ours = story(virtual, PROTOCOLS[protocol], protocol)
    theirs: list[str] = []
    for attempt in range(3):
        door = SocketDoor(kafka_port)
        try:
            theirs = story(door, PROTOCOLS[protocol], f"{protocol}-{attempt}")
        finally:
            door.close()
        if theirs == ours:
            return
    assert theirs == ours

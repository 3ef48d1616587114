"""`ottla/coordinator/group/share/`: what follows from metadata and from a new leader, with both coordinators."""

from __future__ import annotations

from typing import Any

from ottla.coordinator.group.share import ShareGroup
from ottla.sim import VirtualClock
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.wire.metadata import FeatureLevelRecord, PartitionRecord
from tests.unit.replica.node import NODE_ID, TestNode, directory_id, topic_id


class Play:
    """A node with a share group `g`, whose members heartbeat once a second."""

    def __init__(self) -> None:
        self.node = TestNode({"offsets.topic.num.partitions": 1})
        self.node.create_topic("__consumer_offsets")
        self.node.create_topic("__share_group_state", 3)
        self.node.publish(FeatureLevelRecord(name="share.version", feature_level=1))
        self.epochs: dict[str, int] = {}
        self.assigned: dict[str, dict[str, list[int]]] = {}

    def join(self, member: str, *topics: str) -> None:
        self.heartbeat(member, 0, list(topics))

    def heartbeat(self, member: str, epoch: int, topics: list[str] | None = None) -> None:
        answer: Any = self.node.send(ShareGroupHeartbeatRequest("g", member, epoch, None, topics), 1)
        assert answer.error_code == 0, answer
        self.epochs[member] = answer.member_epoch
        if answer.assignment is not None:
            names = {topic.id: topic.name for topic in self.node.image.topics.by_id.values()}
            self.assigned[member] = {
                names[one.topic_id]: sorted(one.partitions) for one in answer.assignment.topic_partitions
            }

    def run(self, seconds: int = 3) -> None:
        for _ in range(seconds):
            self.node.run_ms(1000)
            for member, epoch in list(self.epochs.items()):
                self.heartbeat(member, epoch)

    @property
    def group(self) -> ShareGroup:
        return self.node.groups.read("g", "look", lambda shard: shard.share.find("g")).result()

    def stored(self) -> list[tuple[str, int]]:
        """The partitions that the share coordinator has state of."""
        runtime = self.node.broker.share.coordinator.runtime
        found = [
            one for promise in runtime.read_all("look", lambda shard: list(shard.states)) for one in promise.result()
        ]
        return sorted((key.group_id, key.partition) for key in found)


def test_a_group_is_the_same_when_another_leader_has_loaded_it() -> None:
    play = Play()
    play.node.create_topic("t", 3)
    play.join("m", "t")
    play.join("n", "t")
    play.run()
    before = play.group
    play.node.groups.on_resigned(0)
    play.node.groups.on_elected(0, 5)
    play.node.run_ms(10)
    after = play.group
    assert after is not before
    for name in ("epoch", "metadata_hash", "members", "targets", "assignment_epoch", "assignment_ms"):
        assert getattr(after, name) == getattr(before, name), name
    known, found = after.state_topics.initialized, before.state_topics.initialized
    assert {key: topic.partitions for key, topic in known.items()} == {
        key: topic.partitions for key, topic in found.items()
    }
    play.run(1)
    assert sorted(play.assigned["m"]["t"] + play.assigned["n"]["t"]) == [0, 1, 2]


def test_partitions_that_are_added_get_state_and_are_read() -> None:
    play = Play()
    play.node.create_topic("t", 1)
    play.join("m", "t")
    play.run()
    assert play.assigned["m"] == {"t": [0]}
    play.node.publish(
        PartitionRecord(
            partition_id=1,
            topic_id=topic_id("t"),
            replicas=[NODE_ID],
            isr=[NODE_ID],
            leader=NODE_ID,
            directories=[directory_id("/logs")],
        )
    )
    play.run()
    assert play.assigned["m"] == {"t": [0, 1]}
    assert play.stored() == [("g", 0), ("g", 1)]


def test_both_coordinators_forget_a_deleted_topic() -> None:
    play = Play()
    play.node.create_topic("t", 2)
    play.node.create_topic("u", 1)
    play.join("m", "t", "u")
    play.run()
    assert play.assigned["m"] == {"t": [0, 1], "u": [0]}
    play.node.delete_topic("t")
    play.run()
    assert play.assigned["m"] == {"u": [0]}
    assert list(play.group.state_topics.initialized) == [topic_id("u")]
    assert play.stored() == [("g", 0)]


def test_a_member_that_is_silent_is_fenced_also_by_a_coordinator_that_has_just_loaded_the_group() -> None:
    play = Play()
    play.node.create_topic("t", 1)
    play.join("m", "t")
    play.run()
    play.node.groups.on_resigned(0)
    play.node.groups.on_elected(0, 5)
    play.node.run_ms(44_000)
    assert list(play.group.members) == ["m"]
    play.node.run_ms(2000)
    assert list(play.group.members) == []


def test_a_clock_that_was_set_back_does_not_keep_a_share_group_from_its_partitions() -> None:
    """The time of the last assignment is in the future then, and Kafka waits until it comes."""
    play = Play()
    play.node.create_topic("t", 3)
    play.join("m", "t")
    play.run()
    assert play.assigned["m"] == {"t": [0, 1, 2]}
    play.node.create_topic("u", 1)
    clock = play.node.world.clock
    assert isinstance(clock, VirtualClock), clock
    clock.set_now_ms(clock.now_ms() - 600_000)
    play.join("n", "u")
    play.run()
    assert play.assigned["n"] == {"u": [0]}

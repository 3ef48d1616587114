"""Classic groups when things go wrong: logs that refuse, coordinators that move, settings that have changed."""

from __future__ import annotations

import pytest

from ottla.config import BrokerConfig
from ottla.coordinator.group.classic import ClassicGroup
from ottla.errors import CoordinatorLoadInProgress
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.unit.coordinator.group.classic_player import Player
from tests.unit.coordinator.group.doors import VirtualDoor

SETTINGS = {"group.initial.rebalance.delay.ms": 0}


class Play(Player):
    """A group on virtual time whose coordinator can be moved, and whose log can be made to refuse."""

    def __init__(self, *, replicas: tuple[int, ...] = (1,), **settings: object) -> None:
        given = {**SETTINGS, **{name.replace("_", "."): value for name, value in settings.items()}}
        self.door = VirtualDoor({"t": 2, "u": 1}, given, replicas=replicas)
        super().__init__(self.door, "g")

    def all(self, *commands: str) -> list[str]:
        """What the last of the commands prints."""
        lines: list[str] = []
        for command in commands:
            lines = self.execute(command)
        return lines

    def reload(self) -> None:
        """The same node leads in a new epoch: the shard is thrown away and read from the log."""
        self.door.node.change_partition("__consumer_offsets", 0, leader=1)
        self.door.run_ms(100)

    def move_away(self) -> None:
        self.door.node.change_partition("__consumer_offsets", 0, leader=2, isr=[2])

    def refuse(self) -> None:
        """The log takes nothing any more: everything is too large for it."""
        self.door.node.set_config("__consumer_offsets", "max.message.bytes", "1")

    def accept(self) -> None:
        self.door.node.set_config("__consumer_offsets", "max.message.bytes", None)

    @property
    def group(self) -> ClassicGroup | None:
        (shard,) = self.door.node.groups.runtime.shards
        group = shard.groups.get("g")
        assert group is None or isinstance(group, ClassicGroup), group
        return group


@pytest.fixture
def two() -> Play:
    """A stable group of a, which leads, and b."""
    play = Play()
    play.all("enter a", "sync a assign=a:x", "enter b", "join a", "sync a assign=a:x,b:y", "sync b")
    return play


def test_a_new_coordinator_goes_on_with_the_last_generation(two: Play) -> None:
    before = two.execute("describe")
    assert before[0] == "Stable consumer range"
    two.reload()
    assert two.execute("describe") == before
    assert two.execute("heartbeat a") == ["a: alive"]
    assert two.execute("sync b") == ["b: assigned 'y' consumer range"]
    assert two.all("wait 9000", "heartbeat a", "wait 2000", "heartbeat a") == ["a: REBALANCE_IN_PROGRESS"]
    assert two.execute("join a") == ["a: generation 3 consumer range as a, led by a, with a"]


def test_a_rebalance_under_way_is_forgotten_by_the_next_coordinator(two: Play) -> None:
    """It has the last generation that was written; members learn that they must join from the errors they get."""
    two.all("join a")
    two.reload()
    assert two.execute("describe")[0] == "Stable consumer range"
    assert two.execute("heartbeat b") == ["b: alive"]


def test_who_waits_to_join_or_for_an_assignment_is_sent_to_the_next_coordinator(two: Play) -> None:
    two.execute("join a")
    two.move_away()
    assert two.execute("wait 1") == ["a: NOT_COORDINATOR a"]
    assert two.execute("heartbeat b") == ["b: NOT_COORDINATOR"]
    two.reload()
    two.all("join a", "join b")
    two.execute("sync b")
    two.move_away()
    assert two.execute("wait 1") == ["b: NOT_COORDINATOR"]


def test_an_assignment_that_cannot_be_written_is_given_to_nobody(two: Play) -> None:
    two.all("join a", "join b", "sync b")
    two.refuse()
    assert two.execute("sync a assign=a:1,b:2") == ["a: UNKNOWN_SERVER_ERROR", "b: UNKNOWN_SERVER_ERROR"]
    assert two.execute("heartbeat a") == ["a: REBALANCE_IN_PROGRESS"]
    two.accept()
    two.execute("join b")
    assert two.execute("join a")[0] == "a: generation 4 consumer range as a, led by a, with a b"
    assert two.all("sync b", "sync a assign=a:1,b:2") == [
        "a: assigned '1' consumer range",
        "b: assigned '2' consumer range",
    ]


def test_nobody_waits_for_ever_for_an_assignment_that_is_not_committed() -> None:
    """The other replica sleeps: all who wait are told after `offsets.commit.timeout.ms`, and are to join again."""
    play = Play(replicas=(1, 2))
    play.all("enter a", "join b v=3", "join a", "sync b")
    assert play.execute("sync a assign=a:x,b:y") == []
    assert play.execute("wait 4800") == []
    assert play.execute("wait 300") == ["a: COORDINATOR_NOT_AVAILABLE", "b: COORDINATOR_NOT_AVAILABLE"]
    group = play.group
    assert group is not None
    assert group.state_name == "PreparingRebalance"


def test_a_static_members_return_that_cannot_be_written_leaves_its_old_id() -> None:
    play = Play()
    play.all("join a instance=one", "sync a instance=one assign=a:x")
    play.refuse()
    (told,) = play.execute("join a2 instance=one")
    assert told.startswith("a2: UNKNOWN_SERVER_ERROR")
    assert play.execute("heartbeat a instance=one") == ["a: alive"]
    play.accept()
    assert play.execute("join a2 instance=one") == [
        "a2: generation 1 consumer range as a2, led by a2, with a2@one, assignment stays"
    ]
    assert play.execute("heartbeat a instance=one") == ["a: FENCED_INSTANCE_ID"]


def test_a_group_that_cannot_be_written_does_not_exist() -> None:
    play = Play()
    play.refuse()
    assert play.execute("join a v=3") == ["a: UNKNOWN_SERVER_ERROR"]
    assert play.group is None
    assert play.execute("wait 400000") == []
    play.accept()
    assert play.execute("enter a") == ["a: generation 1 consumer range as a, led by a, with a"]


def test_a_group_that_is_left_empty_by_a_log_that_refuses_is_empty_all_the_same(two: Play) -> None:
    two.refuse()
    assert two.execute("leave a,b") == ["UNKNOWN_SERVER_ERROR"]
    assert two.execute("describe") == ["Empty consumer"]
    two.accept()
    assert two.execute("enter a") == ["a: generation 4 consumer range as a, led by a, with a"]


def test_a_time_out_that_cannot_be_written_is_tried_again_until_it_can() -> None:
    """The group is empty for this coordinator at once; what is written later, its successors read."""
    play = Play()
    play.all("enter a session=6000", "sync a assign=a:x")
    play.refuse()
    play.execute("wait 7000")
    assert play.execute("describe") == ["Empty consumer"]
    play.accept()
    play.execute("enter b")
    play.execute("sync b assign=b:x")
    play.reload()
    assert play.execute("describe")[1:] == ["  b of b at /127.0.0.1 metadata 13 bytes, assigned 'x'"]


def test_a_group_that_has_become_too_large_rebalances_when_it_is_loaded(two: Play) -> None:
    node = two.door.node
    node.config = BrokerConfig({**node.config.originals, "group.max.size": 1})
    two.reload()
    assert two.execute("heartbeat a") == ["a: REBALANCE_IN_PROGRESS"]
    two.execute("join a")
    assert two.execute("join b") == ["b: GROUP_MAX_SIZE_REACHED"]
    # As with Kafka, the one that was turned away is waited for until the rebalance times out.
    assert two.execute("wait 10000") == ["a: generation 3 consumer range as a, led by a, with a"]


def test_a_heartbeat_while_the_group_is_loaded_upsets_nobody(two: Play) -> None:
    node = two.door.node
    node.change_partition("__consumer_offsets", 0, leader=1)
    two.door.begin("a", HeartbeatRequest("g", 2, "whoever", None), 4)
    protocols = [JoinGroupRequestProtocol("range", b"")]
    two.door.begin("b", JoinGroupRequest("g", 6000, 6000, "", None, "consumer", protocols), 9)
    codes = {who: answer.error_code for who, answer in two.door.answers()}  # type: ignore[attr-defined]
    assert codes == {"a": 0, "b": CoordinatorLoadInProgress.code}
    two.door.run_ms(1)
    assert two.execute("heartbeat a") == ["a: alive"]


def test_a_new_member_that_does_not_come_back_for_its_answer_is_taken_out() -> None:
    """It cannot send heartbeats, so it has five minutes to ask again."""
    play = Play(group_initial_rebalance_delay_ms=400_000, group_max_session_timeout_ms=600_000)
    play.execute("join a v=3 session=600000 rebalance=600000")
    assert play.execute("wait 299000") == []
    assert play.execute("wait 2000") == ["a: UNKNOWN_MEMBER_ID"]
    assert play.group is not None
    assert play.group.members == {}


def test_metadata_that_is_no_consumers_keeps_every_offset_of_the_group() -> None:
    play = Play()
    play.all("enter a", "sync a assign=a:x", "commit a t-0=1 u-0=1")
    group = play.group
    assert group is not None
    assert not group.is_subscribed_to("u")
    (member,) = group.members.values()
    member.protocols = (("range", b"\0"),)
    group.note_subscribed_topics()
    assert group.is_subscribed_to("u"), "for all that is known"
    assert play.execute("delete-offsets u-0") == ["u-0: GROUP_SUBSCRIBED_TO_TOPIC"]
    assert group.offsets_expire_from(7) is None

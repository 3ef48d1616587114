"""Consumer groups beyond their transcripts: Kafka's bytes, coordinators that move, logs that refuse, many topics."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.coordinator import CoordinatorRecord
from ottla.coordinator.group import GroupShard
from ottla.coordinator.group.classic import ClassicGroup
from ottla.coordinator.group.consumer import ConsumerGroup, Member, MemberState
from ottla.coordinator.group.consumer.records import current
from ottla.coordinator.group.consumer.regexes import SLICE_MATCHES, check_regex
from ottla.errors import InvalidRegularExpression, StaleMemberEpoch, UnknownMemberId
from ottla.machine import Result
from ottla.records import batches
from ottla.types import ZERO_UUID, Uuid
from ottla.wire.coordinator import GROUP
from ottla.wire.coordinator.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartitions,
)
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.metadata import RegisterBrokerRecord
from tests.support.golden import golden_data_dir
from tests.unit.coordinator.group.clusters import VirtualCluster
from tests.unit.coordinator.group.consumer_player import ConsumerPlayer
from tests.unit.coordinator.group.doors import VirtualDoor
from tests.unit.replica.node import NODE_ID, topic_id

SETTINGS = {"group.consumer.assignment.interval.ms": 0}
LOG = "__consumer_offsets"


class Play(ConsumerPlayer):
    """A group on virtual time whose coordinator can be moved, and whose log can be made to refuse."""

    def __init__(self, topics: dict[str, int] | None = None, **settings: object) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.door = VirtualDoor({"t": 4} if topics is None else topics, {**SETTINGS, **given})
        super().__init__(self.door, VirtualCluster(self.door.node), "g")

    def all(self, *commands: str) -> list[str]:
        """What the last of the commands prints."""
        lines: list[str] = []
        for command in commands:
            lines = self.execute(command)
        return lines

    def reload(self) -> None:
        """The same node leads in a new epoch: the shard is thrown away and read from the log."""
        self.door.node.change_partition(LOG, 0, leader=1)
        self.door.run_ms(100)

    def refuse(self) -> None:
        """The log takes nothing any more: everything is too large for it."""
        self.door.node.set_config(LOG, "max.message.bytes", "1")

    def accept(self) -> None:
        self.door.node.set_config(LOG, "max.message.bytes", None)

    def write(self, *records: CoordinatorRecord) -> None:
        """Let these be in the log, whoever wrote them."""
        self.door.node.groups.write("g", "test", lambda _: Result(None, records)).result()

    @property
    def shard(self) -> GroupShard:
        (shard,) = self.door.node.groups.runtime.shards
        return shard

    def state_of(self, member_id: str) -> MemberState:
        return self.group.members[member_id].state

    @property
    def group(self) -> ConsumerGroup:
        group = self.shard.groups["g"]
        assert isinstance(group, ConsumerGroup), group
        return group


# Kafka's bytes


def test_a_member_that_comes_and_goes_is_written_byte_for_byte_as_by_kafka(tmp_path: Path) -> None:
    """The golden directory has such a group, of librdkafka and a real Kafka; only its times are taken from there."""
    golden: list[tuple[bytes, bytes | None]] = []
    for path in (golden_data_dir(tmp_path / "data") / f"{LOG}-2").glob("*.log"):
        for batch in batches(path.read_bytes()):
            golden += [
                (bytes(key or b""), None if value is None else bytes(value)) for _, _, key, value, _ in batch.rows()
            ]
    groups = [(key, value) for key, value in golden if type(GROUP.read_key(key)).__name__.startswith("ConsumerGroup")]
    member_id = "0dd5WmtxR1W4oEiYh0MTiw"
    door = VirtualDoor({}, SETTINGS)
    VirtualCluster(door.node)
    door.node.publish(RegisterBrokerRecord(broker_id=NODE_ID, broker_epoch=9, fenced=False, rack=None))
    door.node.create_topic("gzip", 1, uuid=Uuid.parse("T5ZATSikSZ2Vtg5oPvCqGg"))
    door.node.create_topic("plain", 3, uuid=Uuid.parse("bUoY_Z0TSfi95HZWTJ7o4Q"))
    join = ConsumerGroupHeartbeatRequest(
        group_id="new-readers",
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=["plain", "gzip"],
        topic_partitions=[],
    )
    door.begin("rdkafka", join, 1)
    door.begin("rdkafka", ConsumerGroupHeartbeatRequest("new-readers", member_id, -1), 1)
    assert [response.error_code for _, response in door.answers()] == [0, 0]  # type: ignore[attr-defined]
    found, _ = VirtualCluster(door.node).records(0)
    assert len(found) == len(groups) == 9
    for (key, value), (golden_key, golden_value) in zip(found, groups, strict=True):
        if isinstance(value, ConsumerGroupTargetAssignmentMetadataValue):
            assert golden_value is not None
            kafkas, _ = GROUP.read_value(key, golden_value)
            assert isinstance(kafkas, ConsumerGroupTargetAssignmentMetadataValue)
            value.assignment_timestamp = kafkas.assignment_timestamp
        assert GROUP.write_key(key) == golden_key
        assert (None if value is None else GROUP.write_value(value, 0)) == golden_value


def test_partitions_written_without_epochs_count_as_given_in_the_members_epoch() -> None:
    """Brokers before 4.3 write none; a static member that is away has an epoch below 0."""
    play = Play()
    for member_id, epoch, expected in (("old", 7, 7), ("away", -2, 0)):
        owned = TopicPartitions(topic_id("t"), [0 if member_id == "old" else 1], None)
        value = ConsumerGroupCurrentMemberAssignmentValue(epoch, 6, 0, [owned], [])
        play.write(CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey("g", member_id), value))
        (epochs,) = play.group.members[member_id].assigned.values()
        assert list(epochs.values()) == [expected]


def test_what_brokers_before_4_1_wrote_of_a_groups_topics_is_ended_with_the_next_look_at_them() -> None:
    play = Play()
    play.execute("beat a join topics=t")
    key = ConsumerGroupPartitionMetadataKey("g")
    play.write(CoordinatorRecord(key, ConsumerGroupPartitionMetadataValue([])))
    play.reload()
    play.execute("records")
    play.execute("beat a")
    assert play.execute("records") == ["- ConsumerGroupPartitionMetadata"]


def test_tombstones_of_what_a_compacted_log_has_lost_are_passed_over() -> None:
    play = Play()
    gone = [ConsumerGroupCurrentMemberAssignmentKey("g", "x"), ConsumerGroupMemberMetadataKey("g", "x")]
    play.write(*(CoordinatorRecord(key) for key in gone))
    assert "g" not in play.shard.groups
    play.execute("beat a join topics=t")
    play.write(*(CoordinatorRecord(key) for key in gone))
    assert list(play.group.members) == ["a"]


def test_a_member_in_a_state_of_a_newer_broker_must_come_with_nothing() -> None:
    play = Play()
    play.execute("beat a join topics=t")
    member = play.group.members["a"]
    written = current("g", member)
    assert isinstance(written.value, ConsumerGroupCurrentMemberAssignmentValue)
    written.value.state = 42
    play.write(written)
    assert play.state_of("a") is MemberState.UNKNOWN
    assert play.execute("beat a") == ["a: FENCED_MEMBER_EPOCH"]
    assert play.execute("beat a owns=none") == ["a: epoch 2"]
    assert play.state_of("a") is MemberState.STABLE


# Coordinators that move


def test_a_new_coordinator_reads_the_same_group_from_the_log() -> None:
    play = Play({"t": 4, "r-1": 2, "r-2": 1})
    play.all(
        "beat a join topics=t instance=one rack=x",
        "beat b join regex=r-.* assignor=range",
        "beat a owns=t-0+t-1",
        "beat b",
        "beat c join topics=t+r-1",
        "beat a away",
    )
    before = play.group
    shown = play.execute("show")
    play.reload()
    after = play.group
    assert after is not before
    assert play.execute("show") == shown
    for name in ConsumerGroup.__slots__:
        if not name.startswith(("_", "refresh")):
            assert getattr(after, name) == getattr(before, name), name


def test_sessions_and_rebalances_begin_anew_at_a_new_coordinator() -> None:
    play = Play(group_consumer_session_timeout_ms=45_000)
    play.all("beat a join topics=t timeout=2000", "beat b join topics=t", "beat a owns=t-0+t-1+t-2+t-3")
    assert play.state_of("a") is MemberState.UNREVOKED_PARTITIONS
    play.reload()
    play.execute("wait 1500")
    assert list(play.group.members) == ["a", "b"]
    play.execute("wait 600")
    assert list(play.group.members) == ["b"]
    play.execute("wait 44000")
    assert not play.group.members


# Logs that refuse


def test_what_could_not_be_written_never_was() -> None:
    play = Play()
    play.execute("beat a join topics=t")
    shown = play.execute("show")
    play.refuse()
    assert play.execute("beat b join topics=t") == ["b: UNKNOWN_SERVER_ERROR"]
    assert play.execute("beat a leave") == ["a: UNKNOWN_SERVER_ERROR"]
    assert play.execute("show") == shown
    assert play.group.partition_epochs == {(topic_id("t"), index): 2 for index in range(4)}
    play.accept()
    assert play.execute("beat b join topics=t") == ["b: epoch 3, has -"]


def test_a_look_at_the_topics_whose_epoch_could_not_be_written_is_made_again() -> None:
    play = Play()
    play.all("beat a join topics=t", "beat a", "grow t 5")
    play.refuse()
    assert play.execute("beat a") == ["a: UNKNOWN_SERVER_ERROR"]
    play.accept()
    assert play.execute("beat a") == ["a: epoch 3, has t-0 t-1 t-2 t-3 t-4"]


def test_a_group_whose_first_record_is_refused_is_not_there() -> None:
    play = Play()
    play.refuse()
    assert play.execute("beat a join topics=t") == ["a: UNKNOWN_SERVER_ERROR"]
    assert "g" not in play.shard.groups


def test_an_upgrade_that_could_not_be_written_leaves_the_classic_group() -> None:
    play = Play(group_initial_rebalance_delay_ms=0)
    play.all("enter a protocols=range:t", "sync a assign=a:t-0+t-1")
    play.refuse()
    assert play.execute("beat b join topics=t") == ["b: UNKNOWN_SERVER_ERROR"]
    assert play.execute("describe")[0] == "Stable consumer range"
    assert play.execute("heartbeat a") == ["a: alive"]


def test_a_downgrade_that_could_not_be_written_leaves_the_consumer_group() -> None:
    play = Play()
    play.all("beat a join topics=t", "enter b protocols=range:t", "sync b")
    play.refuse()
    assert play.execute("beat a leave") == ["a: UNKNOWN_SERVER_ERROR"]
    assert sorted(play.group.members.values(), key=lambda one: one.epoch)[0].member_id == "a"
    play.accept()
    assert play.execute("beat a leave") == ["a: epoch -1"]
    assert play.execute("describe")[0] == "PreparingRebalance consumer"


def test_a_member_whose_leaving_could_not_be_written_is_forgotten_when_its_session_ends() -> None:
    """Seed 1118 of three nodes: its session's time-out was gone with the request, and its partitions with it."""
    play = Play()
    play.all("beat a join topics=t", "beat b join topics=t")
    play.refuse()
    assert play.execute("beat a leave") == ["a: UNKNOWN_SERVER_ERROR"]
    assert set(play.group.members) == {"a", "b"}
    play.accept()
    for _ in range(10):
        play.door.run_ms(5_000)
        play.execute("beat b")
    assert set(play.group.members) == {"b"}


# Settings


def test_a_full_group_takes_nobody_new() -> None:
    play = Play(group_consumer_max_size=1)
    play.execute("beat a join topics=t")
    assert play.execute("beat b join topics=t") == ["b: GROUP_MAX_SIZE_REACHED"]
    assert play.execute("join b") == ["b: GROUP_MAX_SIZE_REACHED"]
    assert play.execute("beat a epoch=0 topics=t timeout=9 owns=none") == ["a: epoch 2, has t-0 t-1 t-2 t-3"]


@pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades"),
    [("disabled", False, False), ("UPGRADE", True, False), ("downgrade", False, True), ("Bidirectional", True, True)],
)
def test_the_policy_says_which_way_groups_may_go(policy: str, upgrades: bool, downgrades: bool) -> None:
    play = Play(group_consumer_migration_policy=policy, group_initial_rebalance_delay_ms=0)
    play.all("enter a protocols=range:t", "sync a assign=a:t-0")
    told = play.execute("beat b join topics=t")
    assert told == ["b: epoch 2, has t-1 t-2" if upgrades else "b: GROUP_ID_NOT_FOUND"]
    other = Play(group_consumer_migration_policy=policy)
    other.execute("beat a join topics=t")
    if policy == "disabled":
        assert other.execute("join b protocols=range:t") == ["b: INCONSISTENT_GROUP_PROTOCOL"]
        return
    other.all("enter b protocols=range:t", "sync b", "beat a leave")
    assert (other.execute("show") == ["GROUP_ID_NOT_FOUND"]) is downgrades


def test_an_upgrade_is_refused_where_it_would_lose_what_an_assignor_keeps() -> None:
    play = Play(group_initial_rebalance_delay_ms=0)
    play.execute("enter a protocols=range:t")
    play.execute("sync a assign=a:t-0")
    classic = play.shard.groups["g"]
    assert isinstance(classic, ClassicGroup)
    (member,) = classic.members.values()
    for assignment in (b"\0\0\0\0\0\0\0\0\0\1x", b"\0"):  # with data of its own; not readable at all
        member.assignment = assignment
        assert play.execute("beat b join topics=t") == ["b: GROUP_ID_NOT_FOUND"]
    assert play.shard.groups["g"] is classic


def test_a_groups_own_settings_count_at_once() -> None:
    play = Play(group_consumer_min_session_timeout_ms=1000, group_consumer_min_heartbeat_interval_ms=100)
    play.execute("beat a join topics=t")
    play.execute("config consumer.session.timeout.ms=2000 consumer.heartbeat.interval.ms=700")
    settings = play.shard.consumer.settings("g")
    assert (settings.session_timeout_ms, settings.heartbeat_interval_ms) == (2000, 700)
    assert play.shard.consumer.settings("other").heartbeat_interval_ms == 5000
    play.execute("beat a")
    play.execute("wait 2500")
    assert not play.group.members


def test_without_the_feature_the_apis_are_not_there() -> None:
    door = VirtualDoor({"t": 1}, SETTINGS)
    door.begin("a", ConsumerGroupHeartbeatRequest("g", "a", 0, None, None, 1, ["t"], None, None, []), 1)
    ((_, response),) = door.answers()
    assert response.error_code == 35  # type: ignore[attr-defined]


# Offsets


def test_offsets_are_told_to_members_in_their_own_epoch_and_to_whoever_says_nothing() -> None:
    play = Play()
    play.all("beat a join topics=t", "commit a t-0=5 gen=2")
    codes = []
    for member_id, epoch in ((None, -1), ("a", 2), ("a", 1), ("a", 3), ("x", 2)):
        topics = [OffsetFetchRequestTopics("t", ZERO_UUID, [0])]
        group = OffsetFetchRequestGroup("g", member_id, epoch, topics)
        play.door.begin("a", OffsetFetchRequest(groups=[group]), 9)
        play.door.run_ms(1)
        ((_, response),) = play.door.answers()
        assert isinstance(response, OffsetFetchResponse)
        codes.append(response.groups[0].error_code)
    assert codes == [0, 0, StaleMemberEpoch.code, StaleMemberEpoch.code, UnknownMemberId.code]


def test_an_empty_group_without_offsets_goes_away_by_itself() -> None:
    play = Play(offsets_retention_check_interval_ms=1000, offsets_retention_minutes=1)
    play.all("beat a join topics=t", "commit a t-0=5 gen=2", "beat a leave", "wait 5000")
    assert play.execute("list") == ["listed: consumer Empty consumer"]
    play.execute("wait 61000")
    assert "g" not in play.shard.groups
    play.reload()
    assert "g" not in play.shard.groups


def test_offsets_of_topics_that_members_consume_are_kept() -> None:
    play = Play({"t": 1, "u": 1}, offsets_retention_check_interval_ms=1000, offsets_retention_minutes=1)
    play.all("beat a join topics=t", "commit a t-0=5 u-0=6 gen=2")
    for _ in range(4):
        play.all("wait 20000", "beat a")
    assert play.execute("fetch all") == ["t-0: 5 epoch 3 ''"]


# Assignments


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_member_that_wants_nothing_takes_nothing_away_from_the_others(assignor: str) -> None:
    """Kafka 4.3 takes the group for one of equal subscriptions then, and the newcomer's, none, for everybody's."""
    play = Play()
    play.all(f"beat z join topics=t assignor={assignor}", "beat b join topics=t", "beat b leave")
    assert play.execute("beat a join topics=none") == ["a: epoch 4, has -"]
    assert sorted(play.group.targets["z"][topic_id("t")]) == [0, 1, 2, 3]


# Regular expressions


def test_topics_that_come_later_are_matched_ten_seconds_after_the_last_look() -> None:
    play = Play({"r-1": 1})
    play.all("beat a join regex=r-.*", "beat a")
    play.execute("create r-2 1")
    assert play.execute("beat a") == ["a: epoch 2"]
    play.all("wait 10000", "beat a")
    assert play.execute("beat a") == ["a: epoch 3, has r-1-0 r-2-0"]


def test_a_topic_that_is_gone_is_nobodys_though_its_name_still_matches() -> None:
    play = Play({"r-1": 1, "r-2": 1})
    play.all("beat a join regex=r-.*", "beat a")
    play.door.node.delete_topic("r-2")
    assert play.execute("beat a owns=r-1-0") == ["a: epoch 3, has r-1-0"]


def test_very_many_topics_are_matched_in_slices() -> None:
    topics = {f"{'in' if index % 3 else 'out'}-{index}": 1 for index in range(3 * SLICE_MATCHES)}
    play = Play(topics)
    play.all("beat a join regex=in-[0-9]+", "beat a")
    assert play.group.topics.keys() == {name for name in topics if name.startswith("in-")}


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("[", "missing closing ]"),
        ("(a", "missing closing )"),
        ("a**", "invalid nested repetition operator"),
        ("*", "missing argument to repetition operator"),
        ("x{1001}", "invalid repeat count"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("a\\", "trailing backslash at end of expression"),
        ("\\1", "invalid escape sequence"),
        ("[z-a]", "invalid character class range"),
    ],
)
def test_an_expression_that_re2_refuses_is_refused_for_kafkas_reason(expression: str, reason: str) -> None:
    with pytest.raises(InvalidRegularExpression, match="is not a valid regular expression") as caught:
        check_regex(expression)
    assert caught.value.message == f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {reason}."


def test_a_member_is_known_by_what_it_owns() -> None:
    member = Member("a", assigned={topic_id("t"): {0: 3}}, pending_revocation={topic_id("t"): {1: 2}})
    assert [member.epoch_of(topic_id("t"), index) for index in range(3)] == [3, 2, None]


def test_a_clock_that_was_set_back_does_not_keep_a_group_from_its_partitions() -> None:
    """Found by the simulator. The time of the last assignment is in the future then, and Kafka waits until it comes."""
    play = Play(group_consumer_assignment_interval_ms=1000)
    virtual = play.door.node.virtual
    assert virtual is not None
    clock = virtual.clock
    assert play.all("beat a join topics=t") == ["a: epoch 2, has t-0 t-1 t-2 t-3"]
    clock.set_now_ms(clock.now_ms() - 600_000)
    assert play.all("beat b join topics=t", "beat a owns=t-0+t-1", "beat b") == ["b: epoch 3, has t-2 t-3"]

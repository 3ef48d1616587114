"""`ottla/coordinator/group/offsets`: transactions, expiry, deletion, topics that come again under their old name."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ottla.coordinator import EndMarker, Producer
from ottla.coordinator.group import GroupShard
from ottla.errors import KafkaError
from ottla.machine import Result
from ottla.types import ZERO_UUID, Uuid
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.coordinator.group.classic_player import Player
from tests.unit.coordinator.group.doors import VirtualDoor
from tests.unit.replica.node import topic_id

MINUTE_MS = 60_000


class Play:
    """A shard of a node on virtual time, with commits from outside of groups and in transactions."""

    def __init__(self, **settings: object) -> None:
        # Verification is another module's: `tests/unit/server` has it.
        given: dict[str, object] = {"transaction.partition.verification.enable": False}
        given |= {name.replace("_", "."): value for name, value in settings.items()}
        self.door = VirtualDoor({"t": 2, "u": 1}, given)
        self.node = self.door.node

    def outcome(self, promise: Any) -> Any:
        self.node.run_ms(1)
        try:
            return promise.result()
        except KafkaError as error:
            return error.name

    def commit(self, group: str = "g", topic: str = "t", index: int = 0, *, offset: int, **more: Any) -> Any:
        commit = OffsetCommitRequest(
            group,
            topics=[
                OffsetCommitRequestTopic(
                    topic, more.pop("uuid", topic_id(topic)), [OffsetCommitRequestPartition(index, offset, -1, None)]
                )
            ],
            **more,
        )
        return self.outcome(self.node.groups.write(group, "commit", lambda shard: shard.offsets.commit(commit, 9)))

    def commit_in_transaction(self, producer_id: int, *, offset: int, index: int = 0, group: str = "g") -> None:
        commit = TxnOffsetCommitRequest(
            "id",
            group,
            producer_id,
            0,
            topics=[TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(index, offset, -1, None)])],
        )
        told = self.outcome(
            self.node.groups.write(
                group,
                "commit",
                lambda shard: shard.offsets.commit_in_transaction(commit, 5),
                producer=Producer(producer_id, 0),
            )
        )
        assert not isinstance(told, str), told

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        marker = EndMarker(producer_id, 0, 1, is_commit)
        assert self.outcome(self.node.groups.complete_transaction(0, marker, transaction_version=0)) is None

    def fetch(self, *, stable: bool = False, group: str = "g", version: int = 9) -> dict[str, int | str]:
        """What is told of the group's offsets, or which error."""
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, None, -1, None)], require_stable=stable)
        self.door.begin("-", request, version)
        ((_, response),) = self.door.answers()
        (told,) = response.groups  # type: ignore[attr-defined]
        return _offsets(told)

    def reload(self) -> None:
        """Another leader epoch: everything is read from the log again."""
        self.node.change_partition("__consumer_offsets", 0, leader=1)
        self.node.run_ms(100)

    @property
    def shard(self) -> GroupShard:
        shards: list[GroupShard] = []
        self.node.groups.runtime.read(0, "look", shards.append)
        return shards[0]

    def run_minutes(self, minutes: float) -> None:
        self.node.run_ms(minutes * MINUTE_MS)


def _offsets(group: OffsetFetchResponseGroup) -> dict[str, int | str]:
    return {
        f"{topic.name}-{one.partition_index}": "unstable" if one.error_code else one.committed_offset
        for topic in group.topics
        for one in topic.partitions
    }


@pytest.fixture
def play() -> Play:
    return Play()


# Transactions


def test_an_offset_of_a_transaction_counts_when_that_is_committed(play: Play) -> None:
    play.commit(offset=1)
    play.commit_in_transaction(7, offset=5)
    assert play.fetch() == {"t-0": 1}
    assert play.fetch(stable=True) == {"t-0": "unstable"}
    play.end(7, is_commit=True)
    assert play.fetch(stable=True) == {"t-0": 5}
    play.reload()
    assert play.fetch(stable=True) == {"t-0": 5}


def test_an_offset_of_an_aborted_transaction_never_was(play: Play) -> None:
    play.commit_in_transaction(7, offset=5)
    assert play.fetch() == {}
    play.end(7, is_commit=False)
    assert play.fetch(stable=True) == {}
    play.reload()
    assert play.fetch() == {}


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_the_commit_that_was_written_last_counts_whatever_ends_last(play: Play, is_reloaded: bool) -> None:
    """As Kafka keeps it, by the offset of the record: compaction leaves the last one only."""
    play.commit_in_transaction(7, offset=5)
    play.commit_in_transaction(8, offset=6)
    play.commit_in_transaction(9, offset=7)
    if is_reloaded:
        play.reload()
    play.end(8, is_commit=True)
    assert play.fetch() == {"t-0": 6}
    play.end(7, is_commit=True)
    assert play.fetch() == {"t-0": 6}
    assert play.fetch(stable=True) == {"t-0": "unstable"}
    play.end(9, is_commit=True)
    assert play.fetch(stable=True) == {"t-0": 7}


def test_a_commit_outside_overtakes_an_open_transaction_which_stays_unstable(play: Play) -> None:
    play.commit_in_transaction(7, offset=5)
    play.commit(offset=9)
    assert play.fetch(stable=True) == {"t-0": "unstable"}
    play.end(7, is_commit=True)
    assert play.fetch(stable=True) == {"t-0": 9}
    play.commit_in_transaction(7, offset=10)
    play.end(7, is_commit=True)
    assert play.fetch(stable=True) == {"t-0": 10}


def test_a_deleted_group_takes_its_open_transactions_offsets_along(play: Play) -> None:
    play.commit(offset=1, index=1)
    play.commit_in_transaction(7, offset=5)
    play.outcome(play.node.groups.write("g", "delete", lambda shard: shard.delete_groups(["g"])))
    play.end(7, is_commit=True)
    assert play.fetch(stable=True) == {}
    assert play.shard.groups == {}
    play.reload()
    assert play.shard.groups == {}


def test_a_producer_commits_a_partition_twice_and_the_second_counts(play: Play) -> None:
    play.commit_in_transaction(7, offset=5)
    play.commit_in_transaction(7, offset=6)
    play.commit_in_transaction(7, offset=3, index=1)
    play.end(7, is_commit=True)
    assert play.fetch(stable=True) == {"t-0": 6, "t-1": 3}


# Topics


def test_the_offset_of_a_topic_that_was_made_anew_is_not_told() -> None:
    play = Play()
    play.commit(offset=3, uuid=Uuid(16 * b"\5"))
    group = OffsetFetchRequestGroup("g", None, -1, [OffsetFetchRequestTopics("", topic_id("t"), [0])])
    play.door.begin("-", OffsetFetchRequest(groups=[group]), 10)
    ((_, response),) = play.door.answers()
    (topic,) = response.groups[0].topics  # type: ignore[attr-defined]
    assert (topic.topic_id, topic.partitions[0].committed_offset) == (topic_id("t"), -1)


def test_topics_are_asked_for_and_told_by_id_from_version_10_on(play: Play) -> None:
    play.commit(offset=3)
    unknown = Uuid(16 * b"\7")
    topics = [OffsetFetchRequestTopics("", topic_id("t"), [0]), OffsetFetchRequestTopics("", unknown, [4])]
    groups = [OffsetFetchRequestGroup("g", None, -1, topics), OffsetFetchRequestGroup("g", None, -1, None)]
    play.door.begin("-", OffsetFetchRequest(groups=groups), 10)
    ((_, response),) = play.door.answers()
    some, everything = response.groups  # type: ignore[attr-defined]
    told = [
        (topic.topic_id, one.partition_index, one.committed_offset, one.error_code)
        for topic in some.topics
        for one in topic.partitions
    ]
    assert told == [(topic_id("t"), 0, 3, 0), (unknown, 4, -1, 100)]
    assert [topic.topic_id for topic in everything.topics] == [topic_id("t")]


def test_versions_before_8_ask_for_one_group(play: Play) -> None:
    play.commit(offset=3)
    for version in range(1, 8):
        request = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic("t", [0, 1])])
        play.door.begin("-", request, version)
        ((_, response),) = play.door.answers()
        (topic,) = response.topics  # type: ignore[attr-defined]
        assert [one.committed_offset for one in topic.partitions] == [3, -1]


def test_a_deleted_topics_offsets_go_with_it(play: Play) -> None:
    play.commit(offset=3)
    play.commit(offset=4, topic="u")
    play.commit(offset=5, group="h")
    play.commit(offset=6, index=1, uuid=Uuid(16 * b"\5"))
    play.commit_in_transaction(7, offset=5, index=1, group="h")
    play.node.delete_topic("t")
    play.node.run_ms(1)
    play.end(7, is_commit=True)
    assert play.fetch() == {"u-0": 4, "t-1": 6}
    assert play.fetch(group="h") == {}
    play.reload()
    assert play.fetch() == {"u-0": 4, "t-1": 6}


def test_thousands_of_offsets_of_a_deleted_topic_go_in_several_batches() -> None:
    play = Play(message_max_bytes=70_000)
    for number in range(2500):
        commit = partial(_commit_one, f"group-{number}")
        play.node.groups.runtime.write(0, "commit", commit)
    play.node.delete_topic("t")
    play.node.run_ms(10)
    assert len(play.shard.offsets.committed) == 0


def _commit_one(group: str, shard: GroupShard) -> Result[OffsetCommitResponse]:
    partition = OffsetCommitRequestPartition(0, 1, -1, None)
    topics = [OffsetCommitRequestTopic("t", topic_id("t"), [partition])]
    return shard.offsets.commit(OffsetCommitRequest(group, topics=topics), 9)


# Expiry


def expiring(**more: object) -> Play:
    return Play(offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE_MS, **more)


def test_offsets_of_standalone_consumers_expire_after_their_last_commit() -> None:
    play = expiring()
    play.commit(offset=3)
    play.run_minutes(6)
    play.commit(offset=4, index=1)
    play.run_minutes(6)
    assert play.fetch() == {"t-1": 4}
    play.run_minutes(6)
    assert play.fetch() == {}
    assert play.shard.groups == {}, "an empty group without offsets goes, too"
    play.reload()
    assert play.shard.groups == {}


def test_thousands_of_expired_offsets_go_in_several_batches() -> None:
    """In one they would be too large for the log, again at every try."""
    play = expiring(message_max_bytes=70_000)
    for start in range(0, 2500, 500):
        partitions = [OffsetCommitRequestPartition(index, 1, -1, None) for index in range(start, start + 500)]
        commit = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", topic_id("t"), partitions)])
        assert not isinstance(play.outcome(_write(play, commit)), str)
    assert len(play.shard.offsets.committed) == 2500
    play.run_minutes(12)
    assert len(play.shard.offsets.committed) == 0
    assert play.shard.groups == {}


def _write(play: Play, commit: OffsetCommitRequest) -> Any:
    return play.node.groups.write("g", "commit", lambda shard: shard.offsets.commit(commit, 9))


def test_a_groups_offsets_expire_when_it_has_been_empty_for_long() -> None:
    play = expiring()
    player = Player(play.door, "g")
    player.execute("enter a session=60000")
    player.execute("wait 4000")
    player.execute("sync a assign=a:x")
    player.execute("commit a t-0=5")
    for _ in range(30):
        play.run_minutes(0.5)
        player.execute("heartbeat a")
    assert play.fetch() == {"t-0": 5}, "a member consumes the topic"
    player.execute("leave a")
    play.run_minutes(9)
    assert play.fetch() == {"t-0": 5}, "the time counts from when the last member left"
    play.run_minutes(2)
    assert play.fetch() == {}
    assert play.shard.groups == {}


def test_a_live_groups_offsets_of_topics_it_left_expire() -> None:
    play = expiring()
    player = Player(play.door, "g")
    player.execute("enter a session=60000 protocols=range:u")
    player.execute("wait 4000")
    player.execute("sync a assign=a:x")
    player.execute("commit a t-0=5 u-0=6")
    for _ in range(24):
        play.run_minutes(0.5)
        player.execute("heartbeat a")
    assert play.fetch() == {"u-0": 6}
    assert list(play.shard.groups) == ["g"]


def test_offsets_of_members_that_are_no_consumers_do_not_expire_while_there_are_any() -> None:
    play = expiring()
    player = Player(play.door, "g")
    player.execute("enter a session=60000 type=connect")
    player.execute("wait 4000")
    player.execute("sync a assign=a:x type=connect")
    player.execute("commit a t-0=5")
    for _ in range(24):
        play.run_minutes(0.5)
        player.execute("heartbeat a")
    assert play.fetch() == {"t-0": 5}


def test_an_offset_with_a_retention_of_its_own_expires_by_that() -> None:
    play = expiring()
    play.commit(offset=3, retention_time_ms=2 * MINUTE_MS)
    play.commit(offset=4, index=1, retention_time_ms=30 * MINUTE_MS)
    play.run_minutes(3.1)
    assert play.fetch() == {"t-1": 4}
    play.run_minutes(20)
    assert play.fetch() == {"t-1": 4}
    play.run_minutes(10)
    assert play.fetch() == {}


def test_an_offset_with_an_open_transaction_does_not_expire() -> None:
    play = expiring()
    play.commit(offset=3)
    play.commit_in_transaction(7, offset=5)
    play.run_minutes(30)
    assert play.fetch() == {"t-0": 3}
    play.end(7, is_commit=False)
    play.run_minutes(2)
    assert play.fetch() == {}


# Failures


def test_a_commit_that_cannot_be_written_is_not_seen() -> None:
    play = Play(message_max_bytes=600, offset_metadata_max_bytes=4096)
    play.commit(offset=3)
    partition = OffsetCommitRequestPartition(0, 9, -1, "x" * 2000)
    too_large = OffsetCommitRequest("new", topics=[OffsetCommitRequestTopic("t", ZERO_UUID, [partition])])
    told = play.outcome(play.node.groups.write("new", "commit", lambda shard: shard.offsets.commit(too_large, 9)))
    assert told == "UNKNOWN_SERVER_ERROR"
    assert list(play.shard.groups) == ["g"]
    assert play.fetch(group="new") == {}

"""Fetch sessions of followers: what a request looks at, what wakes one that waits, and who counts as in sync."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.errors import FencedLeaderEpoch, FetchSessionIdNotFound, NotLeaderOrFollower, UnknownTopicOrPartition
from ottla.replica import IsrChanges, Partition
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from ottla.wire.metadata import RegisterBrokerRecord
from tests.support.logs import make_batch
from tests.unit.replica.node import NODE_ID, TestNode, topic_id

VERSION = 17
FOLLOWER_ID = 2
BROKER_EPOCH = 8
WAIT_MS = 500


class Follower:
    """Broker 2's session with the node. `offsets` are where it would fetch from next."""

    def __init__(self, node: TestNode, partitions: int = 1) -> None:
        self.node = node
        self.offsets = dict.fromkeys(range(partitions), 0)
        self.session_id = 0
        self.session_epoch = 0
        self.broker_epoch = BROKER_EPOCH

    def request(self, *named: int, max_wait_ms: int = 0, forgotten: tuple[int, ...] = ()) -> FetchRequest:
        indexes = named or (tuple(self.offsets) if self.session_epoch == 0 else ())
        wanted = [
            FetchPartition(
                partition=index,
                current_leader_epoch=self.node.partition("t", index).leader_epoch if self.session_epoch == 0 else 0,
                fetch_offset=self.offsets[index],
                log_start_offset=0,
                partition_max_bytes=1 << 20,
            )
            for index in indexes
        ]
        return FetchRequest(
            replica_state=ReplicaState(FOLLOWER_ID, self.broker_epoch),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            topics=[FetchTopic(topic_id=topic_id("t"), partitions=wanted)] if wanted else [],
            forgotten_topics_data=[ForgottenTopic(topic_id=topic_id("t"), partitions=list(forgotten))]
            if forgotten
            else [],
        )

    def fetch(self, *named: int, **other: Any) -> FetchResponse:
        return self.read(self.node.send(self.request(*named, **other), VERSION))

    def read(self, response: FetchResponse) -> FetchResponse:
        if response.error_code == 0:
            self.session_id = response.session_id
            self.session_epoch += 1
        return response

    def catch_up(self) -> None:
        """Fetch until there is nothing new."""
        while True:
            response = self.fetch()
            named = [one.partition_index for one in data(response) if one.records]
            if not named and not data(response):
                return
            for index in named:
                self.offsets[index] = self.node.partition("t", index).local_log().log_end_offset
            if named:
                self.fetch(*named)


def data(response: FetchResponse) -> list[Any]:
    return [one for topic in response.responses for one in topic.partitions]


def errors(response: FetchResponse) -> list[int]:
    return [one.error_code for one in data(response)]


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The indexes of the partitions that were read, in order."""
    found: list[int] = []
    read = Partition.read

    def counted(self: Partition, *args: Any, **other: Any) -> Any:
        found.append(self.index)
        return read(self, *args, **other)

    monkeypatch.setattr(Partition, "read", counted)
    return found


def leading(partitions: int = 1, **topic: Any) -> TestNode:
    node = TestNode()
    node.create_topic("t", partitions, replicas=(NODE_ID, 2), **topic)
    return node


def test_a_fetch_of_thousands_of_idle_partitions_looks_at_none_of_them(looked_at: list[int]) -> None:
    """With `BEGUN_AT_ONCE_MAX` the logs come bit by bit; then 5,000 partitions are in one session."""
    node = leading(5_000)
    node.run_ms(10)
    follower = Follower(node, 5_000)
    follower.fetch()
    assert len(looked_at) == 5_000, "the first fetch names them all"
    looked_at.clear()
    for _ in range(10):
        follower.fetch()
        node.run_ms(1_000)
    assert looked_at == []
    node.partition("t", 4_321).append(make_batch(b"a"))
    response = follower.fetch()
    assert looked_at == [4_321]
    assert [one.partition_index for one in data(response)] == [4_321]


def test_a_fetch_that_waits_for_thousands_hangs_on_none_of_them(looked_at: list[int]) -> None:
    node = leading(200)
    node.run_ms(10)
    follower = Follower(node, 200)
    follower.fetch()
    looked_at.clear()
    waiting = node.begin(follower.request(max_wait_ms=WAIT_MS), VERSION)
    assert all(not node.partition("t", index).waiters for index in range(200))
    node.run_ms(10)
    assert not waiting.done()
    node.partition("t", 7).append(make_batch(b"a"))
    node.run_ms(1)
    assert waiting.done()
    assert [one.partition_index for one in data(follower.read(waiting.result()))] == [7]
    assert looked_at == [7]


def test_a_fetch_that_waits_is_answered_when_its_time_is_up() -> None:
    node = leading()
    follower = Follower(node)
    follower.fetch()
    waiting = node.begin(follower.request(max_wait_ms=WAIT_MS), VERSION)
    node.run_ms(WAIT_MS - 1)
    assert not waiting.done()
    node.run_ms(2)
    assert data(follower.read(waiting.result())) == []


def test_a_partition_whose_follower_has_not_fetched_what_it_was_sent_is_told_again(looked_at: list[int]) -> None:
    """Its append may have failed: it fetches on from where it was, and names nothing."""
    node = leading()
    node.partition().append(make_batch(b"a"))
    follower = Follower(node)
    assert data(follower.fetch())[0].records
    assert data(follower.fetch())[0].records
    follower.offsets[0] = 1
    follower.fetch(0)
    follower.fetch()
    looked_at.clear()
    assert data(follower.fetch()) == []
    assert looked_at == []


def test_a_follower_is_told_a_high_watermark_that_others_have_moved() -> None:
    node = TestNode()
    node.create_topic("t", replicas=(NODE_ID, 2, 3))
    node.partition().append(make_batch(b"a"))
    follower = Follower(node)
    follower.catch_up()
    assert node.partition().local_log().high_watermark == 0
    node.partition().record_fetch(3, fetch_offset=1, log_start_offset=0)
    (one,) = data(follower.fetch())
    assert (one.high_watermark, one.records) == (1, b"")
    assert data(follower.fetch()) == []


def test_a_follower_is_told_where_the_log_begins() -> None:
    node = leading()
    node.partition().append(make_batch(b"a"))
    follower = Follower(node)
    follower.catch_up()
    node.partition().delete_records(1)
    assert [one.log_start_offset for one in data(follower.fetch())] == [1]


def test_a_log_start_that_retention_moves_is_told_within_a_minute() -> None:
    node = leading()
    node.partition().append(make_batch(b"a"))
    follower = Follower(node)
    follower.catch_up()
    node.partition().local_log().advance_log_start(1, "retention")
    assert data(follower.fetch()) == []
    node.run_ms(60_000)
    assert [one.log_start_offset for one in data(follower.fetch())] == [1]


def test_a_new_leader_epoch_is_told_to_a_follower_that_rests() -> None:
    node = leading()
    follower = Follower(node)
    follower.fetch()
    waiting = node.begin(follower.request(max_wait_ms=WAIT_MS), VERSION)
    node.change_partition("t", 0, leader=NODE_ID)
    node.run_ms(1)
    assert errors(follower.read(waiting.result())) == [FencedLeaderEpoch.code]
    assert errors(follower.fetch()) == [FencedLeaderEpoch.code], "until it asks for something else"


def test_a_partition_that_is_led_elsewhere_or_deleted_is_told_to_a_follower_that_rests() -> None:
    node = leading(2)
    follower = Follower(node, 2)
    follower.fetch()
    node.change_partition("t", 1, leader=2)
    assert errors(follower.fetch()) == [FencedLeaderEpoch.code]
    node.delete_topic()
    codes = errors(follower.fetch())
    assert len(codes) == 2
    assert set(codes) <= {UnknownTopicOrPartition.code, 100}


def test_fetches_that_find_nothing_keep_a_follower_in_sync() -> None:
    """`replica.lag.time.max.ms` is 30 s: a follower that fetches, and finds nothing for an hour, has no lag at all."""
    node = leading()
    node.partition().append(make_batch(b"a"))
    follower = Follower(node)
    follower.catch_up()
    partition = node.partition()
    for _ in range(60):
        node.run_ms(60_000)
        follower.fetch()
    node.run_ms(29_000)
    partition.append(make_batch(b"b"))
    partition.check_lag()
    assert partition.leadership.pending is None
    alters = asked_of(node)
    node.run_ms(2_000)
    partition.check_lag()
    node.run_ms(10)
    assert [one.new_isr_with_epochs[0].broker_id for one in alters] == [NODE_ID]


def test_a_follower_that_stops_fetching_leaves_the_isr_with_its_next_record() -> None:
    node = leading()
    partition = node.partition()
    partition.append(make_batch(b"a"))
    follower = Follower(node)
    follower.catch_up()
    alters = asked_of(node)
    node.run_ms(40_000)
    partition.check_lag()
    assert list(partition.isr) == [1, 2], "it has everything"
    partition.append(make_batch(b"b"))
    partition.check_lag()
    node.run_ms(10)
    assert list(partition.isr) == [1]
    assert [len(one.new_isr_with_epochs) for one in alters] == [1]
    assert partition.local_log().high_watermark == 2


def asked_of(node: TestNode) -> list[Any]:
    """Let the node ask its controller for changes of the ISR, which makes them; returns them."""
    asked: list[Any] = []

    def make(request: AlterPartitionRequest) -> AlterPartitionResponse:
        response = AlterPartitionResponse()
        for topic in request.topics:
            asked.extend(topic.partitions)
            response.topics.append(
                AlterPartitionResponseTopicData(
                    topic.topic_id,
                    [
                        AlterPartitionResponsePartitionData(
                            one.partition_index, 0, NODE_ID, one.leader_epoch,
                            [member.broker_id for member in one.new_isr_with_epochs], 0, one.partition_epoch + 1,
                        )
                        for one in topic.partitions
                    ],
                )
            )  # fmt: skip
        return response

    node.controller.answers[AlterPartitionRequest] = make
    node.replicas.isr_changes = IsrChanges(node.world, node.controller, NODE_ID, lambda: 7)
    return asked


def test_a_follower_that_catches_up_joins_the_isr_and_is_looked_at_until_it_has() -> None:
    node = leading(isr=(NODE_ID,))
    asked = asked_of(node)
    node.partition().append(make_batch(b"a"))
    follower = Follower(node)
    follower.fetch()
    assert asked == []
    follower.offsets[0] = 1
    follower.fetch(0)
    node.run_ms(10)
    assert [[(m.broker_id, m.broker_epoch) for m in one.new_isr_with_epochs] for one in asked] == [[(1, 7), (2, 8)]]
    assert node.partition().isr == (1, 2)


def test_a_follower_that_may_not_join_yet_joins_when_it_may() -> None:
    node = leading(isr=(NODE_ID,))
    asked = asked_of(node)
    node.publish(RegisterBrokerRecord(broker_id=2, broker_epoch=BROKER_EPOCH, fenced=True))
    follower = Follower(node)
    follower.fetch()
    follower.fetch()
    node.run_ms(10)
    assert asked == []
    node.publish(RegisterBrokerRecord(broker_id=2, broker_epoch=BROKER_EPOCH, fenced=False))
    follower.fetch()
    node.run_ms(10)
    assert len(asked) == 1


def test_a_session_of_a_brokers_former_life_counts_for_nothing(looked_at: list[int]) -> None:
    """KIP-903: broker 2 has restarted with epoch 9, and a fetch of before still comes."""
    node = leading(3)
    follower = Follower(node, 3)
    follower.fetch()
    node.publish(RegisterBrokerRecord(broker_id=2, broker_epoch=9, fenced=False))
    looked_at.clear()
    assert errors(follower.fetch()) == [NotLeaderOrFollower.code] * 3
    assert sorted(looked_at) == [0, 1, 2]


def test_a_session_that_goes_on_with_another_broker_epoch_looks_at_everything(looked_at: list[int]) -> None:
    node = leading(3)
    follower = Follower(node, 3)
    follower.fetch()
    looked_at.clear()
    follower.broker_epoch = 9
    follower.fetch()
    assert sorted(looked_at) == [0, 1, 2]
    assert {one.broker_epoch for index in range(3) for one in node.partition("t", index).followers.values()} == {9}


def test_partitions_that_are_forgotten_no_longer_wake_the_session(looked_at: list[int]) -> None:
    node = leading(2)
    follower = Follower(node, 2)
    follower.fetch()
    follower.fetch(forgotten=(1,))
    looked_at.clear()
    node.partition("t", 1).append(make_batch(b"a"))
    assert data(follower.fetch()) == []
    assert looked_at == []
    assert not node.partition("t", 1).resting


def test_a_session_that_has_ended_rests_nowhere() -> None:
    node = leading(3)
    follower = Follower(node, 3)
    follower.fetch()
    assert all(node.partition("t", index).resting for index in range(3))
    follower.session_epoch = 0
    follower.fetch()
    assert [len(node.partition("t", index).resting) for index in range(3)] == [1, 1, 1], "those of the new session"


def test_a_session_is_the_followers_own() -> None:
    node = leading()
    follower = Follower(node)
    follower.fetch()
    request = follower.request()
    request.replica_state = ReplicaState(3, 5)
    assert node.send(request, VERSION).error_code == FetchSessionIdNotFound.code
    request.replica_state = None
    assert node.send(request, VERSION).error_code == FetchSessionIdNotFound.code
    assert follower.fetch().error_code == 0


def took_over(isr: tuple[int, ...] = (NODE_ID, FOLLOWER_ID)) -> tuple[TestNode, Follower, Any]:
    """A node that leads partition 0 and begins to lead partition 1 while its follower's fetch waits."""
    node = TestNode()
    node.create_topic("t", 2, replicas=(NODE_ID, FOLLOWER_ID, 3))
    node.change_partition("t", 1, leader=3)
    follower = Follower(node)
    follower.fetch()
    waiting = node.begin(follower.request(max_wait_ms=WAIT_MS), VERSION)
    node.run_ms(50)
    assert not waiting.done()
    node.change_partition("t", 1, leader=NODE_ID, isr=list(isr))
    node.run_ms(1)
    return node, follower, waiting


def waited_ms(node: TestNode, follower: Follower) -> float:
    """How long the next fetch of nothing new is kept."""
    begun_ms = node.world.clock.monotonic_ms()
    follower.read(node.wait(node.begin(follower.request(max_wait_ms=WAIT_MS), VERSION)))
    return node.world.clock.monotonic_ms() - begun_ms


def test_a_new_leader_answers_what_its_in_sync_followers_have_waiting() -> None:
    """They can ask for the partition only with the fetch after that one. Nothing is acknowledged before."""
    node, follower, waiting = took_over()
    assert waiting.done()
    assert data(follower.read(waiting.result())) == []
    # The follower may hear of its new leader later than the leader itself: its next fetches are kept short.
    assert waited_ms(node, follower) == 10
    assert waited_ms(node, follower) == 10
    partition = node.partition("t", 1)
    partition.append(make_batch(b"a"))
    follower.offsets[1] = 0
    request = follower.request(1)
    request.topics[0].partitions[0].current_leader_epoch = partition.leader_epoch
    (found,) = data(follower.read(node.send(request, VERSION)))
    assert (found.partition_index, found.error_code, len(found.records) > 0) == (1, 0, True)
    follower.offsets[1] = 1
    request = follower.request(1)
    request.topics[0].partitions[0].current_leader_epoch = partition.leader_epoch
    follower.read(node.send(request, VERSION))
    assert waited_ms(node, follower) == WAIT_MS, "it has asked for everything"


def test_a_new_leader_hurries_a_follower_for_a_second_at_most() -> None:
    node, follower, waiting = took_over()
    follower.read(waiting.result())
    node.run_ms(1_000)
    assert waited_ms(node, follower) == WAIT_MS


def test_a_new_leader_hurries_nobody_that_is_not_in_sync() -> None:
    node, _, waiting = took_over(isr=(NODE_ID, 3))
    assert not waiting.done()
    node.run_ms(WAIT_MS - 60)
    assert not waiting.done()

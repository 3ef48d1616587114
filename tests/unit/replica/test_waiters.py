"""Requests wait for partitions, are woken once, and never for ever."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.replica import DataWaiter, FollowerFeed, FollowerWaiter, Interest, OutcomeWaiter, Partition
from ottla.replica.waiters import bytes_available
from ottla.storage import Isolation
from tests.support.logs import make_batch
from tests.unit.replica.node import NODE_ID, TestNode

BATCH_SIZE = len(make_batch(b"v"))


def park_for_data(node: TestNode, partition: Partition, told: list[int], *, bytes_min: int) -> DataWaiter:
    read = partition.read(partition.log.log_end_offset if partition.log else 0, bytes_max=1 << 20)
    waiter = DataWaiter(
        [partition],
        [read.start],
        lambda: told.append(node.world.clock.monotonic_ms()),
        available=[0],
        bytes_min=bytes_min,
        bytes_max=[1 << 20],
        isolation=Isolation.HIGH_WATERMARK,
    )
    node.replicas.waiters.park(waiter, 500)
    return waiter


class WaitingFollower:
    """A follower's session whose partitions are awake, as the handler of Fetch leaves them, and a fetch that waits."""

    def __init__(self, node: TestNode, partitions: list[Partition], *, bytes_min: int) -> None:
        self.node = node
        self.feed = FollowerFeed(2, 8, node.replicas.waiters, node.world.clock.monotonic_ms())
        self.interests = [self.interest(partition) for partition in partitions]
        for interest in self.interests:
            self.feed.add(interest)
        self.answered_ms: list[int] = []
        self._begun_ms = node.world.clock.monotonic_ms()
        waiter = FollowerWaiter(self.feed, node.replicas.takeover.of(2), self._answer, bytes_min=bytes_min)
        node.replicas.waiters.park(waiter, 500)

    def interest(self, partition: Partition) -> Interest:
        assert partition.log is not None
        interest = Interest()
        interest.note_read(partition, partition.read(partition.log.log_end_offset, bytes_max=1).start, 1 << 20)
        return interest

    def _answer(self) -> None:
        self.answered_ms.append(self.node.world.clock.monotonic_ms() - self._begun_ms)


def replicated(count: int) -> tuple[TestNode, list[Partition]]:
    node = TestNode()
    node.create_topic("t", count, replicas=(NODE_ID, 2))
    node.run_ms(10)  # many are made in several turns of the loop
    return node, [node.partition("t", number) for number in range(count)]


def test_a_change_of_each_of_many_partitions_costs_a_followers_fetch_one_look_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bug: each change looked at all that were awake, so a follower of 1,700 partitions that was restarted held the
    leader's loop for seconds."""
    node, partitions = replicated(100)
    waiting = WaitingFollower(node, partitions, bytes_min=BATCH_SIZE + 1)
    looks: list[Partition] = []

    def counted(partition: Partition, *arguments: Any) -> int | None:
        looks.append(partition)
        return bytes_available(partition, *arguments)

    monkeypatch.setattr("ottla.replica.follower_feed.bytes_available", counted)
    partitions[7].append(make_batch(b"v"))  # not enough yet
    for partition in partitions:
        node.replicas.waiters.touch(partition)
    node.run_ms(10)
    assert len(looks) <= 2 * len(partitions)
    assert not waiting.answered_ms
    partitions[8].append(make_batch(b"v"))
    node.run_ms(1)
    assert waiting.answered_ms == [10]
    assert not any(partition.waiters for partition in partitions)


def test_a_followers_fetch_adds_up_what_its_partitions_get() -> None:
    node, partitions = replicated(2)
    waiting = WaitingFollower(node, partitions, bytes_min=3 * BATCH_SIZE)
    for number in (0, 1, 0):
        assert not waiting.answered_ms
        partitions[number].append(make_batch(b"v"))
        node.run_ms(10)
    assert waiting.answered_ms == [20]


def test_a_followers_fetch_hears_of_all_that_comes_to_a_partition_that_wakes_while_it_waits() -> None:
    """Bug: it was told that the partition had changed, and of nothing that came to it later."""
    node, partitions = replicated(2)
    waiting = WaitingFollower(node, partitions[:1], bytes_min=2 * BATCH_SIZE)
    woken = waiting.interest(partitions[1])
    partitions[1].append(make_batch(b"v"))
    waiting.feed.on_change(woken, partitions[1])
    node.run_ms(10)
    assert not waiting.answered_ms
    partitions[1].append(make_batch(b"v"))
    node.run_ms(10)
    assert waiting.answered_ms == [10]
    assert not partitions[1].waiters


def test_a_reader_is_woken_once_however_many_appends_come_together() -> None:
    node = TestNode()
    node.create_topic("t")
    told: list[int] = []
    park_for_data(node, node.partition(), told, bytes_min=1)
    node.partition().append(make_batch(b"v"))
    node.partition().append(make_batch(b"v"))
    assert not told, "not from inside the append"
    node.run_ms(1)
    assert len(told) == 1
    assert not node.partition().waiters
    node.run_ms(1000)
    assert len(told) == 1, "its timer is gone"


def test_a_reader_waits_for_as_many_bytes_as_it_wants() -> None:
    node = TestNode()
    node.create_topic("t")
    told: list[int] = []
    park_for_data(node, node.partition(), told, bytes_min=2 * BATCH_SIZE)
    node.partition().append(make_batch(b"v"))
    node.run_ms(10)
    assert not told
    node.partition().append(make_batch(b"v"))
    node.run_ms(1)
    assert len(told) == 1


def test_a_reader_that_gets_nothing_is_told_when_its_time_is_up() -> None:
    node = TestNode()
    node.create_topic("t")
    told: list[int] = []
    before = node.world.clock.monotonic_ms()
    park_for_data(node, node.partition(), told, bytes_min=1)
    node.run_ms(600)
    assert [at - before for at in told] == [500]


def test_a_reader_of_a_deleted_topic_does_not_wait_on() -> None:
    node = TestNode()
    node.create_topic("t")
    told: list[int] = []
    park_for_data(node, node.partition(), told, bytes_min=1)
    node.delete_topic("t")
    node.run_ms(1)
    assert len(told) == 1


def test_a_reader_that_gave_up_is_forgotten() -> None:
    node = TestNode()
    node.create_topic("t")
    told: list[int] = []
    waiter = park_for_data(node, node.partition(), told, bytes_min=1)
    waiter.give_up()
    node.partition().append(make_batch(b"v"))
    node.run_ms(1000)
    assert not told
    assert not node.partition().waiters


def test_outcomes_are_gathered_from_all_partitions() -> None:
    node = TestNode()
    node.create_topic("t", 2, replicas=(NODE_ID, 2))
    partitions = [node.partition("t", 0), node.partition("t", 1)]
    for partition in partitions:
        partition.append(make_batch(b"v"))
    done: list[dict[Partition, int]] = []
    waiter = OutcomeWaiter(partitions, lambda one: one.replication_outcome(1), lambda: done.append(waiter.outcomes))
    node.replicas.waiters.park(waiter, 500)
    partitions[0].record_fetch(2, fetch_offset=1, log_start_offset=0)
    node.run_ms(1)
    assert not done
    partitions[1].record_fetch(2, fetch_offset=1, log_start_offset=0)
    node.run_ms(1)
    assert done == [{partitions[0]: 0, partitions[1]: 0}]

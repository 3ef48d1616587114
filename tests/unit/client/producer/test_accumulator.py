"""The accumulator alone: which batch a record goes to, when a batch is due, and who gets memory."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest

from ottla.client.errors import ClientClosed
from ottla.client.network import Cluster, Node, PartitionInfo, TopicInfo
from ottla.client.producer.accumulator import Accumulator, BufferFull, PartitionQueue
from ottla.client.producer.delivery import Delivery
from ottla.errors import LeaderNotAvailable, MessageTooLarge, UnknownTopicOrPartition
from ottla.records import HEADER_SIZE, Codec, batches, partition_of
from ottla.types import Uuid


class Clock:
    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


class Made:
    """An accumulator of topic `a`, and how often it woke the sender."""

    def __init__(self, partition_count: int = 1, **settings: Any) -> None:
        self.clock = Clock()
        self.wakes = 0
        given = {
            "batch_size": 200, "buffer_memory": 2000, "request_size_max": 1000, "linger_ms": 10, "codec": Codec.NONE,
            "level": None, "ignore_keys": False, "is_adaptive": True,
        }  # fmt: skip
        self.accumulator = Accumulator(
            **{**given, **settings},
            random=Random(1),
            monotonic_ms=self.clock,
            promise=lambda: pytest.fail("nobody waits"),
            check_may_block=lambda: None,
        )
        self.accumulator.wake = self._wake
        self.accumulator.update(cluster(partition_count))
        self.topic = self.accumulator.topics["a"]

    def _wake(self) -> None:
        self.wakes += 1

    def append(self, value: bytes = b"v", key: bytes | None = None, partition: int = -1, **more: Any) -> Any:
        return self.accumulator.append(self.topic, partition, 1000, key, value, (), None, **more)

    def due(self) -> list[PartitionQueue]:
        return self.accumulator.collect_due(self.clock.now_ms)

    def take(self, partition: int = 0) -> list[bytes | None]:
        """The values of the next batch of the partition."""
        batch = self.accumulator.take(self.topic.queues[partition])
        return [record.value for record in next(batches(batch.records())).records()]


def cluster(partition_count: int, *, leaders: dict[int, int] | None = None, error_code: int = 0) -> Cluster:
    partitions = {
        index: PartitionInfo("a", index, (leaders or {}).get(index, 1), 0) for index in range(partition_count)
    }
    topic = TopicInfo("a", Uuid(b"0123456789abcdef"), partitions, error_code=error_code)
    return Cluster({1: Node(1, "one", 9092), 2: Node(2, "two", 9092)}, {"a": topic})


# Batches


def test_records_of_a_partition_share_a_batch_until_it_is_full() -> None:
    made = Made()
    deliveries = [made.append(b"%d" % number + bytes(40)) for number in range(5)]
    assert [delivery[1] for delivery in deliveries] == [0, 1, 0, 1, 0]
    queue = made.topic.queues[0]
    assert [batch.count for batch in queue.batches] == [2, 2, 1]
    assert all(batch.size <= 200 for batch in queue.batches)
    assert made.due() == [queue]
    assert made.take() == [b"%d" % number + bytes(40) for number in (0, 1)]


def test_the_sender_is_woken_for_a_batch_and_not_for_a_record() -> None:
    made = Made()
    for _ in range(10):
        made.append()
    assert made.wakes == 1  # for the first to linger
    made.due()
    for _ in range(10):
        made.append()
    assert made.wakes == 2  # for the one that became full
    made.append(bytes(150))
    made.append(bytes(150))
    assert made.wakes == 2  # it has not looked yet


def test_a_batch_is_due_when_it_has_lingered() -> None:
    made = Made()
    made.append()
    assert made.due() == []
    assert made.accumulator.linger_left_ms(made.clock.now_ms) == 10
    made.clock.now_ms = 10
    assert made.due() == [made.topic.queues[0]]
    assert made.accumulator.settle(made.topic.queues[0], 10)
    made.take()
    assert not made.accumulator.settle(made.topic.queues[0], 10)
    assert made.accumulator.linger_left_ms(10) is None


def test_nothing_lingers_where_that_is_asked_for() -> None:
    made = Made(linger_ms=0)
    made.append()
    assert made.due() == [made.topic.queues[0]]


def test_a_hurry_makes_all_due_and_begins_new_batches() -> None:
    made = Made(2)
    made.append(partition=0)
    made.append(partition=1)
    with made.accumulator.mutex:
        made.accumulator.hurry()
    assert made.due() == made.topic.queues
    assert made.append(partition=0)[1] == 0
    made.accumulator.stop_lingering()
    made.take(0)
    made.take(0)
    assert made.append(partition=0)[1] == 0
    assert made.accumulator.settle(made.topic.queues[0], 0)


def test_a_batch_that_is_sent_again_goes_before_later_ones() -> None:
    made = Made()
    taken = []
    for number in range(3):
        made.append(b"%d" % number)
        taken.append(made.accumulator.take(made.topic.queues[0]))
        taken[number].set_producer(1, 0, number, is_transactional=False)
    made.append(b"new")
    for number in (1, 2, 0):
        made.accumulator.put_back(made.topic.queues[0], taken[number])
    assert [batch.base_sequence for batch in made.topic.queues[0].batches] == [0, 1, 2, -1]


def test_batches_grow_as_compression_proves_itself() -> None:
    made = Made(codec=Codec.LZ4, level=1, batch_size=500, request_size_max=5000, buffer_memory=100_000)
    before = made.topic.section_max
    for _ in range(300):
        made.append(bytes(100))
        if len(made.topic.queues[0].batches) > 1:
            made.accumulator.forget(made.accumulator.take(made.topic.queues[0]))
    assert made.topic.section_max > before
    made.accumulator.reset_ratio(made.topic, 1.0)
    assert made.topic.section_max <= before


# Partitions


def test_keys_are_hashed_and_may_be_ignored() -> None:
    made = Made(3)
    for number in range(20):
        key = b"%d" % number
        assert made.append(b"", key)[0].partition.partition == partition_of(key, 3)
    ignoring = Made(3, ignore_keys=True)
    assert len({ignoring.append(b"", b"%d" % number)[0].partition for number in range(3)}) == 1


def test_records_without_a_key_move_on_when_a_batch_is_full() -> None:
    made = Made(4, buffer_memory=1_000_000)
    partitions = [made.append(bytes(40))[0].partition.partition for _ in range(400)]
    changes = sum(one != other for one, other in pairwise(partitions))
    assert set(partitions) == {0, 1, 2, 3}
    assert changes <= 400 / 2


def test_records_without_a_key_avoid_partitions_without_a_leader() -> None:
    made = Made(3, buffer_memory=1_000_000)
    made.accumulator.update(cluster(3, leaders={1: -1}))
    partitions = {made.append(bytes(40))[0].partition.partition for _ in range(200)}
    assert partitions == {0, 2}


# Memory


def test_memory_is_charged_for_a_batch_and_given_back() -> None:
    made = Made()
    made.append()
    assert made.accumulator.memory_free == 1800
    made.append(bytes(500))
    assert made.accumulator.memory_free < 1300
    for _ in range(2):
        made.accumulator.forget(made.accumulator.take(made.topic.queues[0]))
    assert made.accumulator.memory_free == 2000
    assert not made.accumulator.incomplete


def test_those_who_wait_for_memory_are_served_in_turn_and_nothing_lingers_meanwhile() -> None:
    made = Made(10, linger_ms=1000)
    for partition in range(10):
        assert isinstance(made.append(partition=partition), Delivery)
    with pytest.raises(BufferFull) as caught:
        made.append(bytes(150), partition=0)
    needed = caught.value.needed
    assert needed == HEADER_SIZE + 21 + 150
    told: list[str] = []
    first = made.accumulator.wait_for_memory(needed, lambda: told.append("first"))
    second = made.accumulator.wait_for_memory(200, lambda: told.append("second"))
    assert len(made.due()) == 10
    # Whoever comes later stands in line, even if there were room.
    made.accumulator.forget(made.accumulator.take(made.topic.queues[0]))
    assert told == []
    made.accumulator.forget(made.accumulator.take(made.topic.queues[1]))
    assert told == ["first"]
    with pytest.raises(BufferFull):
        made.append(partition=3)
    assert isinstance(made.append(bytes(150), partition=0, granted=first), Delivery)
    made.accumulator.stop_waiting(first, 0)
    made.accumulator.stop_waiting(second, 0)
    assert made.accumulator.memory_free == 2000 - 8 * 200 - needed
    assert not made.accumulator.waiting


def test_a_grant_that_was_not_used_goes_back() -> None:
    made = Made()
    waiting = made.accumulator.wait_for_memory(500, lambda: None)
    assert made.accumulator.memory_free == 1500
    made.accumulator.stop_waiting(waiting, 0)
    assert made.accumulator.memory_free == 2000


def test_a_record_that_cannot_be_encoded_costs_nothing() -> None:
    made = Made()
    with pytest.raises(TypeError):
        made.append("text")  # type: ignore[arg-type]
    assert made.accumulator.memory_free == 2000
    with pytest.raises(MessageTooLarge):
        made.append(bytes(1000))
    assert made.append()[1] == 0


# What changes


def test_new_partitions_get_queues_and_a_lost_topic_is_looked_for_again() -> None:
    made = Made(2)
    accumulator = made.accumulator
    assert [str(queue.partition) for queue in accumulator.update(cluster(3, leaders={0: 2}))] == ["a-0", "a-2"]
    assert made.topic.partition_count == 3
    assert made.topic.queues[0].leader == 2
    accumulator.update(cluster(3, leaders={0: 9}))
    assert made.topic.queues[0].leader == -1  # nobody knows broker 9
    accumulator.update(cluster(0, error_code=UnknownTopicOrPartition.code))
    assert accumulator.topics == {}
    accumulator.update(cluster(3, error_code=LeaderNotAvailable.code))
    assert accumulator.topics == {}
    accumulator.update(cluster(3))
    assert accumulator.topics == {"a": made.topic}


def test_a_topic_without_records_becomes_idle() -> None:
    made = Made()
    made.append()
    made.clock.now_ms = 10_000
    assert made.accumulator.idle_topics(5000) == []
    made.accumulator.forget(made.accumulator.take(made.topic.queues[0]))
    assert made.accumulator.idle_topics(5000) == ["a"]


def test_closed_it_takes_nothing_more_and_tells_those_who_wait() -> None:
    made = Made()
    told: list[int] = []
    made.accumulator.wait_for_memory(5000, lambda: told.append(1))
    made.accumulator.close()
    assert told == [1]
    with pytest.raises(ClientClosed):
        made.append()

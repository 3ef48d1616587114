"""Requests wait for partitions, are woken once, and never for ever."""

from __future__ import annotations

from ottla.replica import DataWaiter, OutcomeWaiter, Partition
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

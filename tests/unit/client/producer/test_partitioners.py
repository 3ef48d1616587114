"""Partitioners: keys by Kafka's hash, records without one in turns that fill batches, queues that weigh (KIP-794)."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from ottla.client.network import Cluster, Node, PartitionInfo, TopicInfo
from ottla.client.producer.partitioners import (
    FunctionPartitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
    UniformStickyPartitioner,
    available_partitions,
    partition_of,
)
from ottla.types import ZERO_UUID


def cluster_of(*leaders: int) -> Cluster:
    """A topic `t` whose partitions have these leaders; -1 has none, and 9 is a broker that nobody knows."""
    partitions = {index: PartitionInfo("t", index, leader) for index, leader in enumerate(leaders)}
    nodes = {node_id: Node(node_id, "h", 9092) for node_id in range(3)}
    return Cluster(nodes=nodes, topics={"t": TopicInfo("t", ZERO_UUID, partitions)})


def sticky(size: int = 100, seed: int = 1) -> StickyPartitioner:
    return StickyPartitioner("t", size, Random(seed))


@pytest.mark.parametrize(
    ("key", "hashed"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536), (b"", 275646681)],
)
def test_a_key_goes_where_kafkas_clients_send_it(key: bytes, hashed: int) -> None:
    """The hashes are those that Kafka's own test of murmur2 names."""
    assert partition_of(key, 7) == (hashed & 0x7FFFFFFF) % 7


def test_only_partitions_with_a_known_leader_are_available() -> None:
    assert available_partitions(cluster_of(0, -1, 2, 9), "t") == [0, 2]
    assert available_partitions(cluster_of(0), "other") == []


def test_a_partition_is_kept_until_enough_bytes_were_appended() -> None:
    cluster = cluster_of(*[0] * 50)
    partitioner = sticky(100)
    first = partitioner.partition(cluster)
    partitioner.appended(99, cluster)
    assert partitioner.partition(cluster) == first
    partitioner.appended(1, cluster)
    assert partitioner.partition(cluster) != first


def test_a_batch_that_still_lingers_is_not_left_until_twice_the_bytes() -> None:
    cluster = cluster_of(*[0] * 50)
    partitioner = sticky(100)
    first = partitioner.partition(cluster)
    partitioner.appended(199, cluster, may_switch=False)
    assert partitioner.partition(cluster) == first
    partitioner.appended(1, cluster, may_switch=False)
    assert partitioner.partition(cluster) != first


def chosen(partitioner: StickyPartitioner, cluster: Cluster, times: int) -> Counter[int]:
    counts: Counter[int] = Counter()
    for _ in range(times):
        counts[partitioner.partition(cluster)] += 1
        partitioner.appended(1, cluster)
    return counts


def test_without_load_every_available_partition_is_as_likely() -> None:
    counts = chosen(sticky(1), cluster_of(0, -1, 1, 2), 6000)
    assert set(counts) == {0, 2, 3}
    assert max(counts.values()) - min(counts.values()) < 300


def test_without_any_leader_all_partitions_are_chosen_from() -> None:
    assert set(chosen(sticky(1), cluster_of(-1, -1, 9), 100)) == {0, 1, 2}


def test_the_shorter_a_queue_the_more_often_its_partition_is_chosen() -> None:
    """Queues of 0, 3 and 1 give the weights 4, 1 and 3."""
    partitioner = sticky(1)
    partitioner.update_load([0, 3, 1], [0, 1, 2], 3)
    counts = chosen(partitioner, cluster_of(0, 1, 2), 8000)
    assert [round(counts[partition] / 1000) for partition in range(3)] == [4, 1, 3]


def test_a_draw_maps_to_the_partition_whose_weight_covers_it() -> None:
    class Draws(Random):
        def getrandbits(self, k: int, /) -> int:
            return next(draws)

    draws = iter(range(8))
    partitioner = StickyPartitioner("t", 1, Draws())
    partitioner.update_load([0, 3, 1], [5, 6, 7], 3)
    cluster = cluster_of(0)
    found = [partitioner.partition(cluster)]
    for _ in range(7):
        partitioner.appended(1, cluster)
        found.append(partitioner.partition(cluster))
    assert found == [5, 5, 5, 5, 6, 7, 7, 7]


def test_a_partition_that_was_left_out_for_slowness_is_not_chosen() -> None:
    partitioner = sticky(1)
    partitioner.update_load([2, 2], [0, 2], 3)
    assert set(chosen(partitioner, cluster_of(0, 1, 2), 100)) == {0, 2}


@pytest.mark.parametrize(("sizes", "partitions", "count"), [([1, 1, 1], [0, 1, 2], 3), ([5], [0], 1), (None, [], 3)])
def test_queues_that_tell_nothing_make_all_partitions_alike_again(
    sizes: list[int] | None, partitions: list[int], count: int
) -> None:
    partitioner = sticky(1)
    partitioner.update_load([9, 0], [0, 1], 3)
    partitioner.update_load(sizes, partitions, count)
    assert set(chosen(partitioner, cluster_of(0, 1, 2), 200)) == {0, 1, 2}


def test_one_seed_chooses_the_same_partitions_again() -> None:
    cluster = cluster_of(0, 1, 2)
    assert chosen(sticky(1, seed=7), cluster, 50) == chosen(sticky(1, seed=7), cluster, 50)


def test_round_robin_goes_through_the_available_partitions_and_knows_when_they_change() -> None:
    partitioner = RoundRobinPartitioner()
    before, after = cluster_of(0, -1, 2), cluster_of(0, 1, 2)
    assert [partitioner.partition("t", None, None, None, b"v", before) for _ in range(4)] == [0, 2, 0, 2]
    assert [partitioner.partition("t", b"k", b"k", None, b"v", after) for _ in range(3)] == [1, 2, 0]
    assert [partitioner.partition("t", b"k", b"k", None, b"v", cluster_of(-1, -1)) for _ in range(2)] == [1, 0]


def test_the_uniform_sticky_partitioner_spreads_records_with_keys_too() -> None:
    partitioner = UniformStickyPartitioner(batch_size=10)
    partitioner.bind(Random(3))
    cluster = cluster_of(0, 1, 2)
    found = [partitioner.partition("t", b"k", b"k", b"v", b"vvvv", cluster) for _ in range(600)]
    assert all(found[at] == found[at + 1] for at in range(0, 600, 2)), "two records of five bytes fill a batch of ten"
    assert set(found) == {0, 1, 2}


def test_a_function_can_choose_the_partition() -> None:
    partitioner = FunctionPartitioner(
        lambda topic, key, key_bytes, value, value_bytes, cluster: len(value_bytes or b"")
    )
    assert partitioner.partition("t", None, None, "xy", b"xy", cluster_of(0, 1, 2)) == 2

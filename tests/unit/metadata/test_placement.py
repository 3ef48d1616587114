"""Placement: racks, spread, fenced brokers, and what cannot be placed."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from ottla.errors import InvalidReplicationFactor
from ottla.metadata.control.placement import UsableBroker, place


def brokers(*racks: str | None, fenced: tuple[int, ...] = ()) -> list[UsableBroker]:
    return [UsableBroker(number, rack, number in fenced) for number, rack in enumerate(racks)]


@pytest.mark.parametrize("seed", range(20))
def test_replicas_are_on_different_brokers_and_leaders_are_spread_evenly(seed: int) -> None:
    placed = place(Random(seed), brokers(*[None] * 5), partition_count=50, replication_factor=3)
    assert len(placed) == 50
    assert all(len(set(replicas)) == 3 for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    assert set(leaders.values()) == {10}
    load = Counter(broker for replicas in placed for broker in replicas)
    assert max(load.values()) - min(load.values()) <= 15


@pytest.mark.parametrize("seed", range(20))
def test_replicas_of_a_partition_are_on_different_racks_while_there_are_enough(seed: int) -> None:
    racks = ["a", "a", "b", "b", "c", "c"]
    placed = place(Random(seed), brokers(*racks), partition_count=30, replication_factor=3)
    assert all(len({racks[broker] for broker in replicas}) == 3 for replicas in placed)
    more = place(Random(seed), brokers(*racks), partition_count=30, replication_factor=4)
    assert all(len({racks[broker] for broker in replicas}) == 3 for replicas in more)
    assert all(len(set(replicas)) == 4 for replicas in more)


@pytest.mark.parametrize("seed", range(20))
def test_a_fenced_broker_follows_and_never_leads(seed: int) -> None:
    placed = place(Random(seed), brokers(None, None, None, fenced=(1,)), partition_count=20, replication_factor=3)
    assert all(set(replicas) == {0, 1, 2} for replicas in placed)
    assert 1 not in {replicas[0] for replicas in placed}
    two = place(Random(seed), brokers(None, None, None, fenced=(1,)), partition_count=20, replication_factor=2)
    assert all(1 not in replicas for replicas in two), "unfenced ones are enough"


def test_a_rack_that_is_fenced_does_not_lead() -> None:
    placed = place(Random(3), brokers("a", "b", "c", fenced=(0,)), partition_count=12, replication_factor=3)
    assert {replicas[0] for replicas in placed} == {1, 2}


def test_the_same_seed_places_the_same() -> None:
    first = place(Random(9), brokers("a", "b", None, "a"), partition_count=40, replication_factor=2)
    again = place(Random(9), brokers("a", "b", None, "a"), partition_count=40, replication_factor=2)
    other = place(Random(10), brokers("a", "b", None, "a"), partition_count=40, replication_factor=2)
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("cluster", "factor", "reason"),
    [
        (brokers(None, None), 0, "the replication factor must be positive"),
        (brokers(None, None), 3, "only 2 broker(s) are registered"),
        (brokers(None, None, fenced=(0, 1)), 1, "All brokers are currently fenced"),
        ([], 1, "All brokers are currently fenced"),
    ],
)
def test_what_cannot_be_placed_says_why(cluster: list[UsableBroker], factor: int, reason: str) -> None:
    with pytest.raises(InvalidReplicationFactor) as caught:
        place(Random(1), cluster, partition_count=1, replication_factor=factor)
    assert reason in caught.value.message

"""`ottla/sim/checks/convergence.py`, on made-up views."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.sim.checks import PartitionView, missing_of

GOOD = PartitionView(leader=1, leader_epoch=4, replicas=(1, 2, 3), isr=(3, 1, 2))
VIEWS = {name: {"t-0": GOOD, "t-1": replace(GOOD, leader=2)} for name in ("one", "two", "three")}


def missing(views: dict[str, dict[str, PartitionView]]) -> list[str]:
    return missing_of(views, nodes=["one", "two", "three"], partitions=["t-0", "t-1"])


def test_a_whole_cluster_misses_nothing() -> None:
    assert missing(VIEWS) == []


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (replace(GOOD, leader=-1), "t-0 has no leader, says one"),
        (replace(GOOD, isr=(1, 2)), "t-0 has ISR (1, 2) of replicas (1, 2, 3), says one"),
        (replace(GOOD, isr=(2, 3)), "t-0 is led by 1, which is not in its ISR (2, 3), says one"),
        (replace(GOOD, offline=(3,)), "t-0 has offline replicas (3,), says one"),
        (replace(GOOD, leader_epoch=3), "t-0 has leaders by who is asked: one: 1 in epoch 3"),
        (replace(GOOD, leader=3), "t-0 has leaders by who is asked: one: 3 in epoch 4"),
    ],
)
def test_everything_that_is_missing_is_named(view: PartitionView, expected: str) -> None:
    lines = missing({**VIEWS, "one": {**VIEWS["one"], "t-0": view}})
    assert any(line.startswith(expected) for line in lines), lines


def test_a_node_that_tells_nothing_and_one_that_does_not_know_a_partition_are_named() -> None:
    views = {"one": VIEWS["one"], "two": {"t-0": GOOD}}
    assert missing(views) == ["three tells nothing", "two does not know t-1"]

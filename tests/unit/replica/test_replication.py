"""Replication as a whole, from seeds: leaders, followers, ISR and logs, while everything goes wrong that may.

Replicas are equal below the high watermark, the high watermark is never beyond what a member of the ISR has, and no
acknowledged record is lost. What makes it so is taken away below, and each time a seed finds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ottla.replica import fetcher as fetcher_module
from ottla.replica.fetcher import Fetcher
from ottla.replica.leadership import Leadership
from ottla.replica.partition import Partition
from tests.unit.replica.model_cluster import ModelCluster

SEEDS = 60
STEPS = 400
MUTANT_SEEDS = 200


def run(seed: int, steps: int = STEPS) -> ModelCluster:
    cluster = ModelCluster(seed)
    for count in range(steps):
        cluster.step()
        if count % 4 == 0:
            cluster.check()
    cluster.check()
    cluster.heal()
    return cluster


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_acknowledged_is_lost_and_replicas_become_equal(seed: int) -> None:
    cluster = run(seed)
    assert len(cluster.controller.partition.isr) == len(cluster.nodes), "at the end everybody is in sync"


def test_the_seeds_reach_what_they_are_for() -> None:
    """Else a model in which nothing happens would pass: truncations, ISR changes, deaths, all of them."""
    seen: Counter[str] = Counter()
    facts: Counter[str] = Counter()
    on_response = Fetcher.on_response

    def counted(self: Fetcher, *args: Any) -> Any:
        found = on_response(self, *args)
        facts.update(type(fact).__name__ for fact in found)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fetcher, "on_response", counted)
        for seed in range(20):
            cluster = run(1_000 + seed)
            seen.update(cluster.counts)
            seen["acked"] += len(cluster.acked)
            seen["shrinks"] += sum(node.shrink_count for node in cluster.nodes.values())
            seen["expansions"] += sum(node.expand_count for node in cluster.nodes.values())
    assert seen["acked"] > 150
    assert seen["die"] > 50
    assert seen["shrinks"] > 0
    assert seen["expansions"] > 5
    assert facts["Truncated"] > 20
    assert facts["Restarted"] > 0


def found_by(break_it: Callable[[pytest.MonkeyPatch], None]) -> int | None:
    """The first seed that fails with the change."""
    for seed in range(MUTANT_SEEDS):
        with pytest.MonkeyPatch.context() as patch:
            break_it(patch)
            try:
                run(seed)
            except AssertionError:
                return seed
    return None


def no_truncation(patch: pytest.MonkeyPatch) -> None:
    """A follower that is told of diverging logs goes on as if nothing were."""
    patch.setattr(fetcher_module, "truncation_offset", lambda log, epoch, end_offset: log.log_end_offset)


def truncation_by_watermark(patch: pytest.MonkeyPatch) -> None:
    """What Kafka did before KIP-101."""
    patch.setattr(fetcher_module, "truncation_offset", lambda log, epoch, end_offset: log.high_watermark)


def no_bound_of_the_watermark(patch: pytest.MonkeyPatch) -> None:
    """The leader commits what it has, whoever else does."""
    patch.setattr(Partition, "_on_append", lambda self, log: log.advance_high_watermark(log.log_end_offset))


def watermark_without_those_who_leave(patch: pytest.MonkeyPatch) -> None:
    """A shrunk ISR counts before the controller has agreed to it."""
    on_time = Leadership.on_time

    def eager(self: Leadership, now_ms: int) -> Any:
        effects = on_time(self, now_ms)
        if self.pending is not None:
            self.maximal_isr = self.pending.isr
        return effects

    patch.setattr(Leadership, "on_time", eager)


def everybody_is_caught_up(patch: pytest.MonkeyPatch) -> None:
    """A follower joins the ISR wherever its log ends."""
    patch.setattr(Leadership, "_may_join", lambda self, replica, follower: self._is_eligible(replica, follower))


@pytest.mark.parametrize(
    "break_it",
    [
        no_truncation,
        truncation_by_watermark,
        no_bound_of_the_watermark,
        watermark_without_those_who_leave,
        everybody_is_caught_up,
    ],
    ids=lambda one: one.__name__,
)
def test_a_rule_that_is_taken_away_is_missed(break_it: Callable[[pytest.MonkeyPatch], None]) -> None:
    assert found_by(break_it) is not None

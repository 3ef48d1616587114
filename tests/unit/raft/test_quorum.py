"""A quorum of several nodes: what it promises under faults, what the faults in it would break, and what it does."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.raft import SnapshotId
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from tests.unit.raft.mutants import MUTANTS, SEEDS_MAX, mutated
from tests.unit.raft.nodes import record
from tests.unit.raft.quorum import Member, Quorum, Violation

SEEDS_A_TEST = 4
# The first seeds that showed a mutant: tried first, so that the search is short while nothing else changes.
FOUND = {
    "no sync before a granted vote": 16,
    "no epoch check in fetch": 0,
    "no truncation on divergence": 0,
    "no own-epoch rule": 1,
}


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Thousands of elections are not worth their log lines."""
    with caplog.at_level(logging.CRITICAL):
        yield


@pytest.mark.parametrize("part", range(5))
def test_three_voters_lose_nothing_committed(part: int) -> None:
    for seed in range(part * SEEDS_A_TEST, (part + 1) * SEEDS_A_TEST):
        Quorum(seed).run()


@pytest.mark.parametrize("part", range(3))
def test_five_voters_lose_nothing_committed(part: int) -> None:
    for seed in range(part * SEEDS_A_TEST, (part + 1) * SEEDS_A_TEST):
        Quorum(seed, voter_count=5, observer_count=2).run()


def test_voters_in_the_log_lose_nothing_committed() -> None:
    for seed in range(SEEDS_A_TEST):
        Quorum(seed, is_formatted=True).run()


def test_a_seed_plays_the_same_history_again() -> None:
    played = []
    for _ in range(2):
        quorum = Quorum(7)
        quorum.run()
        played.append((quorum.loop.step_count, quorum.truth.batches, quorum.truth.leaders))
    assert played[0] == played[1]
    assert len(played[0][2]) > 1, "there was more than one leader"


@pytest.mark.parametrize("name", MUTANTS)
def test_the_simulation_finds_a_rule_that_is_not_kept(name: str) -> None:
    with mutated(name):
        for seed in [FOUND[name], *range(SEEDS_MAX)]:
            try:
                Quorum(seed).run()
            except Violation:
                return
    raise AssertionError(f"{SEEDS_MAX} seeds do not show: {name}")


# What it does, without faults


def settled(quorum: Quorum) -> Member:
    quorum.wait(lambda: quorum.is_settled)
    assert quorum.leader is not None
    return quorum.leader


def append(quorum: Quorum, count: int) -> int:
    """Append that many batches and wait until everybody was told; where the log ends then."""
    leader = settled(quorum)
    for _ in range(count):
        quorum.call(leader, lambda: leader.raft.append([record(quorum.next_number)]))
        quorum.next_number += 1
    end = leader.raft.log_end_offset
    quorum.wait(lambda: all(m.watch.next_offset >= end for m in quorum.members.values() if m.is_alive))
    return end


def test_a_leader_that_stops_hands_over_without_an_election_timeout() -> None:
    with Quorum(1, is_faulty=False) as quorum:
        append(quorum, 5)
        leader = settled(quorum)
        begun_us = quorum.loop.now_us
        handing = quorum.call(leader, lambda: leader.world.tasks.spawn(leader.raft.hand_over(), "hand over"))
        quorum.wait(handing.done)
        assert (quorum.loop.now_us - begun_us) / 1000 < 100, "the timeouts are 150 ms and more"
        assert leader.raft.leader_id not in (-1, leader.id)
        stopping = quorum.call(leader, lambda: leader.world.tasks.spawn(leader.raft.stop(), "stop"))
        quorum.wait(stopping.done)
        others = [member for member in quorum.members.values() if member is not leader]
        quorum.wait(lambda: any(member.watch.is_leader for member in others))
        [leads] = [member for member in others if member.watch.is_leader]
        assert leads.is_voter


def test_the_leader_describes_how_far_each_replica_has_come() -> None:
    with Quorum(2, is_faulty=False) as quorum:
        end = append(quorum, 10)
        leader = settled(quorum)
        quorum.run_for(2)
        slow = next(member for member in quorum.members.values() if member.is_voter and member is not leader)
        slow.kill(is_power_cut=False, returns=False)
        quorum.call(leader, lambda: leader.raft.append([record(99)]))
        quorum.wait(lambda: leader.raft.high_watermark > end)
        request = DescribeQuorumRequest(
            topics=[
                DescribeQuorumRequestTopicData(
                    topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
                )
            ]
        )
        response: Any = quorum.call(leader, lambda: leader.raft.handle(request, version=2, listener="CONTROLLER"))
        partition = response.result().topics[0].partitions[0]
        assert (partition.leader_id, partition.high_watermark) == (leader.id, end + 1)
        ends = {one.replica_id: one.log_end_offset for one in partition.current_voters}
        assert ends == {1: end + 1, 2: end + 1, 3: end + 1} | {slow.id: end}
        now_ms = leader.clock.now_ms()
        by_id = {one.replica_id: one for one in partition.current_voters}
        assert by_id[leader.id].last_fetch_timestamp == by_id[leader.id].last_caught_up_timestamp == now_ms
        for voter in partition.current_voters:
            assert now_ms - 1_000 < voter.last_caught_up_timestamp <= voter.last_fetch_timestamp <= now_ms
        [observer] = partition.observers
        assert (observer.replica_id, observer.log_end_offset) == (4, end + 1)
        follower = next(m for m in quorum.members.values() if m.is_alive and m is not leader)
        other: Any = quorum.call(follower, lambda: follower.raft.handle(request, version=2, listener="CONTROLLER"))
        assert other.result().topics[0].partitions[0].error_code == 6


def test_a_node_that_was_away_loads_the_snapshot_of_what_it_missed() -> None:
    with Quorum(3, is_faulty=False) as quorum:
        append(quorum, 3)
        leader = settled(quorum)
        away = next(member for member in quorum.members.values() if member is not leader)
        quorum.cuts |= {(away.id, other) for other in quorum.members} | {(other, away.id) for other in quorum.members}
        made: list[SnapshotId | None] = []

        async def snapshot() -> None:
            watch = leader.watch
            state = [record(number) for number in quorum.truth.numbers_below(watch.next_offset)]
            made.append(await leader.raft.create_snapshot(watch.next_offset, watch.last_epoch, state))

        for round in range(1, 4):
            for _ in range(20):
                quorum.call(leader, lambda: leader.raft.append([record(quorum.next_number)]))
                quorum.next_number += 1
            quorum.wait(lambda: leader.watch.next_offset == leader.raft.log_end_offset)
            quorum.call(leader, lambda: leader.world.tasks.spawn(snapshot(), "snapshot"))
            quorum.wait(lambda count=round: len(made) == count)  # type: ignore[misc]
        quorum.run_for(1)
        assert leader.raft.log_start_offset > away.raft.log_end_offset
        quorum.cuts.clear()
        quorum.wait(lambda: away.watch.next_offset >= leader.raft.log_end_offset)
        assert away.raft.log_start_offset == away.raft.latest_snapshot_id.offset > 0  # type: ignore[union-attr]
        append(quorum, 3)


def test_a_leader_that_is_cut_off_gives_up_and_follows_the_next() -> None:
    with Quorum(4, is_faulty=False) as quorum:
        end = append(quorum, 3)
        old = settled(quorum)
        quorum.cuts |= {(old.id, other) for other in quorum.members} | {(other, old.id) for other in quorum.members}
        quorum.call(old, lambda: old.raft.append([record(1000)]))
        quorum.wait(lambda: any(m.watch.is_leader for m in quorum.members.values() if m is not old))
        quorum.wait(lambda: not old.watch.is_leader)
        assert old.raft.high_watermark == end, "what it appended alone is not committed"
        quorum.cuts.clear()
        settled(quorum)
        append(quorum, 3)
        assert 1000 not in quorum.truth.numbers_below(quorum.truth.end_offset), (
            "the next leader had other records there"
        )

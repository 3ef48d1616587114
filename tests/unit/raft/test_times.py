"""The latencies of the quorum: averages over the last windows, and when an election counts."""

from __future__ import annotations

from ottla.raft.states import Candidate, Follower, Unattached, Votes
from ottla.raft.times import WINDOW_MS, Latency, QuorumTimes
from ottla.raft.voters import ReplicaKey, VoterSet
from ottla.types import ZERO_UUID


def test_an_average_and_the_largest_of_the_last_two_windows() -> None:
    seen = Latency()
    assert (seen.average(0), seen.largest(0)) == (0, 0)
    seen.record(10, 1)
    seen.record(30, WINDOW_MS - 1)
    assert (seen.average(WINDOW_MS - 1), seen.largest(WINDOW_MS - 1)) == (20, 30)
    seen.record(80, WINDOW_MS)
    assert (seen.average(WINDOW_MS), seen.largest(WINDOW_MS)) == (40, 80)
    assert (seen.average(2 * WINDOW_MS), seen.largest(2 * WINDOW_MS)) == (80, 80), "the first window is over"
    assert (seen.average(3 * WINDOW_MS), seen.largest(3 * WINDOW_MS)) == (0, 0)
    seen.record(5, 9 * WINDOW_MS)
    assert seen.average(9 * WINDOW_MS) == 5


def test_an_election_lasts_from_standing_for_it_to_a_leader_whoever_that_is() -> None:
    times = QuorumTimes()
    candidate = Candidate(3, ReplicaKey(1, ZERO_UUID), Votes(VoterSet.static("C", {}), 1))
    times.on_state(Unattached(2), -1, 50)
    times.on_state(Follower(2, 2, {}), 2, 60)
    assert times.election.average(60) == 0, "this node did not stand"
    times.on_state(candidate, -1, 100)
    times.on_state(candidate, -1, 150)
    times.on_state(Unattached(4), -1, 180)
    times.on_state(Follower(4, 2, {}), 2, 220)
    assert times.election.average(220) == 120

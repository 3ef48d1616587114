"""`ottla/sim/checks/leaders.py`, on made-up histories."""

from __future__ import annotations

import pytest

from ottla.sim.checks import QUORUM, Leaders
from ottla.sim.history import Violation


def test_nodes_that_are_behind_and_nodes_that_know_no_leader_are_right() -> None:
    leaders = Leaders()
    leaders.observe("one life 1", "t-0", 1, 1)
    leaders.observe("two life 1", "t-0", 2, 2)
    leaders.observe("one life 1", "t-0", 1, 1)
    leaders.observe("one life 1", "t-0", 2, -1)
    leaders.observe("one life 1", "t-0", 2, 2)
    leaders.observe("one life 2", "t-0", 1, 1)
    leaders.observe("one life 2", QUORUM, 1, 3)
    leaders.observe("two life 1", "t-1", 2, 3)
    assert leaders.newest == {"t-0": 2, QUORUM: 1, "t-1": 2}
    assert leaders.election_count == 4
    assert [leaders.leader_of(subject) for subject in ("t-0", QUORUM, "t-9")] == [2, 3, None]


@pytest.mark.parametrize("subject", ["t-0", QUORUM])
def test_two_leaders_of_one_epoch_are_found_whoever_tells_of_them_and_when(subject: str) -> None:
    leaders = Leaders()
    leaders.observe("one life 1", subject, 4, 1)
    leaders.observe("one life 1", subject, 5, 1)
    with pytest.raises(Violation, match=r"two leaders in epoch 4: 1 says one life 1, 2 says two life 1"):
        leaders.observe("two life 1", subject, 4, 2)


def test_an_epoch_that_goes_back_at_one_node_is_found() -> None:
    leaders = Leaders()
    leaders.observe("one life 1", "t-0", 4, 1)
    with pytest.raises(Violation, match="tells epoch 3 of t-0 and told 4 before"):
        leaders.observe("one life 1", "t-0", 3, 2)

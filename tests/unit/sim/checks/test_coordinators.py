"""Which stale answers of a coordinator are allowed: those of one that does not know that it was replaced."""

from __future__ import annotations

from ottla.sim.checks import Coordinators

GROUP = "workers"


class _Run:
    """Two nodes, 1 and 2, and a group whose offset of partition 0 is `offset`."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.offset = -1
        self.checker = Coordinators(lambda: self.now_ms, lambda: {GROUP: {0: self.offset}})

    def elect(self, leader: int, epoch: int, *nodes: int) -> None:
        for node in nodes:
            self.checker.on_image(f"node{node} life 1", node, {0: (leader, epoch)})

    def floors(self, since_ms: int) -> list[int]:
        return [floor[0] for floor in self.checker.floors(0, GROUP, since_ms=since_ms)]


def test_while_everybody_agrees_on_the_leader_no_answer_may_be_stale() -> None:
    run = _Run()
    run.elect(1, 5, 1, 2)
    run.offset = 10
    assert run.floors(0) == []


def test_a_leader_that_was_replaced_may_answer_with_what_was_acknowledged_before_the_election() -> None:
    run = _Run()
    run.elect(1, 5, 1, 2)
    run.offset = 10
    run.elect(2, 6, 2)  # and node 1, which is paused, does not hear of it
    run.offset = 20
    assert run.floors(0) == [10]


def test_once_it_knows_of_the_election_only_what_was_asked_before_may_be_stale() -> None:
    run = _Run()
    run.elect(1, 5, 1, 2)
    run.offset = 10
    run.elect(2, 6, 2)
    run.now_ms = 100
    run.elect(2, 6, 1)
    assert run.floors(100) == [10]
    assert run.floors(101) == []


def test_a_dead_node_answers_nothing() -> None:
    run = _Run()
    run.elect(1, 5, 1, 2)
    run.elect(2, 6, 2)
    run.now_ms = 100
    run.checker.on_death("node1 life 1")
    assert run.floors(101) == []


def test_a_node_that_learns_of_its_reign_when_it_is_over_knows_what_was_acknowledged_before() -> None:
    """It reads one image after another, and the first of them says that it leads."""
    run = _Run()
    run.elect(2, 5, 2)
    run.offset = 10
    run.elect(2, 7, 2)  # node 1 was elected and fenced while it was cut off
    run.offset = 20
    run.now_ms = 40
    run.elect(1, 6, 1)
    assert run.floors(40) == [10]
    run.now_ms = 50
    run.elect(2, 7, 1)
    assert run.floors(51) == []


def test_a_leader_in_a_new_epoch_of_its_own_is_no_stale_one() -> None:
    run = _Run()
    run.elect(1, 5, 1, 2)
    run.now_ms = 10
    run.elect(1, 6, 1, 2)
    assert run.floors(11) == []

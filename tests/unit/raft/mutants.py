"""Known faults, put into the raft node one at a time, and whether the quorum's simulation finds each.

A checker that has never failed may be one that cannot. `python -m tests.unit.raft.mutants` tries them all on up to 200
seeds; `test_quorum` does so for each within its budget.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from ottla.errors import NotLeaderOrFollower
from ottla.raft import core, driver
from ottla.raft.events import Persist, Truncate
from ottla.raft.log_view import Diverging, EpochEnd, LogView
from ottla.raft.quorum_state import Election
from ottla.raft.states import Leader
from ottla.world import Task
from tests.unit.raft.quorum import Quorum, Violation

SEEDS_MAX = 200


def no_sync_before_a_vote(stack: ExitStack) -> None:
    """The vote is given first and written after that."""
    real = driver.RaftNode._write_election
    last: dict[driver.RaftNode, Task[None]] = {}

    async def write_in_turn(node: driver.RaftNode, election: Election, before: Task[None] | None) -> None:
        if before is not None:
            await before
        await real(node, election)

    async def write_later(self: driver.RaftNode, election: Election) -> None:
        last[self] = self._tasks.spawn(write_in_turn(self, election, last.get(self)), "late-vote")

    stack.enter_context(patch.object(driver.RaftNode, "_write_election", write_later))


def no_epoch_check_in_fetch(stack: ExitStack) -> None:
    def is_leader(self: core.Core, epoch: int) -> int:
        return 0 if self.is_leader else NotLeaderOrFollower.code

    stack.enter_context(patch.object(core.Core, "_check_leader_request", is_leader))

    def is_in_log(log: LogView, offset: int, _: int) -> Diverging | None:
        return Diverging(EpochEnd(log.last_epoch, log.end_offset)) if offset > log.end_offset else None

    stack.enter_context(patch.object(core, "check_position", is_in_log))


def no_truncation(stack: ExitStack) -> None:
    """The follower goes on behind what the leader does not have."""
    real = driver.RaftNode._persist

    async def persist(self: driver.RaftNode, effect: Persist) -> bool:
        return True if isinstance(effect, Truncate) else await real(self, effect)

    stack.enter_context(patch.object(driver.RaftNode, "_persist", persist))


def no_own_epoch_rule(stack: ExitStack) -> None:
    stack.enter_context(patch.object(Leader, "is_of_own_epoch", lambda self, end_offset: end_offset > 0))


MUTANTS: dict[str, Callable[[ExitStack], None]] = {
    "no sync before a granted vote": no_sync_before_a_vote,
    "no epoch check in fetch": no_epoch_check_in_fetch,
    "no truncation on divergence": no_truncation,
    "no own-epoch rule": no_own_epoch_rule,
}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    with ExitStack() as stack:
        MUTANTS[name](stack)
        yield


def find(name: str, *, voter_count: int = 3) -> tuple[int, Violation] | None:
    """The first seed that shows the fault, and how."""
    with mutated(name):
        for seed in range(SEEDS_MAX):
            try:
                Quorum(seed, voter_count=voter_count).run()
            except Violation as violation:
                return seed, violation
    return None


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    for given in sys.argv[1:] or MUTANTS:
        print(f"{given}: {find(given)}", flush=True)

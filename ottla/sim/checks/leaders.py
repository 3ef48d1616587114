"""One leader an epoch: of every partition, and of the metadata quorum.

Told by nodes, each of which may be behind: a node that has not heard of the newest epoch is right about the one it
knows. So two nodes may name two leaders at one time, and never two leaders of one epoch.
"""

from __future__ import annotations

from ottla.sim.history import Violation

QUORUM = "__cluster_metadata"
"""The subject under which the leaders of the quorum are told."""
NO_LEADER = -1


class Leaders:
    """Which node leads in which epoch, for each subject: a partition, or the quorum."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[str, int], tuple[int, str]] = {}
        self._epochs: dict[tuple[str, str], int] = {}
        self.observation_count = 0
        self.newest: dict[str, int] = {}
        """The newest epoch that anybody has told of, by subject."""

    @property
    def election_count(self) -> int:
        """How many leaders there were, of all subjects together."""
        return len(self._leaders)

    def leader_of(self, subject: str) -> int | None:
        """Who leads in the newest epoch, if that is known."""
        return self._leaders.get((subject, self.newest.get(subject, -1)), (None, ""))[0]

    def observe(self, observer: str, subject: str, epoch: int, leader: int) -> None:
        """`observer` is one life of one node: after a restart it may know less than it knew before."""
        self.observation_count += 1
        before = self._epochs.get((observer, subject), epoch)
        if epoch < before:
            raise Violation(f"{observer} tells epoch {epoch} of {subject} and told {before} before")
        self._epochs[observer, subject] = epoch
        self.newest[subject] = max(epoch, self.newest.get(subject, epoch))
        if leader == NO_LEADER:
            return  # it does not know, or cannot reach it
        known, witness = self._leaders.setdefault((subject, epoch), (leader, observer))
        if known != leader:
            raise Violation(
                f"{subject} has two leaders in epoch {epoch}: {known} says {witness}, {leader} says {observer}"
            )

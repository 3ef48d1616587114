"""`ShareMember`: one member of a share group, as the log has it. A member never changes: a new one takes its place."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.coordinator.group.assignors import NO_PARTITIONS, Assignment
from ottla.errors import FencedMemberEpoch

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STABLE = 0
"""The one state that members of share groups have: they need not wait for each other."""


@dataclass(frozen=True, slots=True)
class ShareMember:
    """See the module."""

    member_id: str
    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    assigned: Assignment = field(default_factory=lambda: NO_PARTITIONS)

    def check_epoch(self, epoch: int) -> None:
        """Refuse a member that is not where it should be. One epoch behind is: it may not have got our answer."""
        if epoch == JOIN_EPOCH or epoch == self.epoch:
            return
        if epoch > self.epoch:
            raise FencedMemberEpoch(
                f"The share group member has a greater member epoch ({epoch}) than the one known by the group "
                f"coordinator ({self.epoch}). The member must abandon all its partitions and rejoin."
            )
        if epoch != self.previous_epoch:
            raise FencedMemberEpoch(
                f"The share group member has a smaller member epoch ({epoch}) than the one known by the group "
                f"coordinator ({self.epoch}), and it does not match the previous member epoch "
                f"({self.previous_epoch}). The member must abandon all its partitions and rejoin."
            )

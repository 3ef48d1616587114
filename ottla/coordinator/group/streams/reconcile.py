"""A member's way from the tasks it has to those it should have, one heartbeat at a time.

A task is given to a member only when nobody else runs it, and in a process only once: until then it is *unreleased*. A
member that has to give up tasks stays in its epoch until it says that it has; only then is it given new ones. So an
active task is never run by two members that are both in the group's epoch.
Decides only: `heartbeat` writes what comes out. Promises nothing about members whose state a newer version wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from ottla.coordinator.group.streams.member import MemberState, StreamsMember
from ottla.coordinator.group.streams.tasks import NOTHING_ASSIGNED, AssignedTasks, EpochMap, TaskMap, Tasks
from ottla.errors import FencedMemberEpoch


class TaskOwners(Protocol):
    """Who has which task now: processes, because a process has a task only once."""

    def active_process(self, subtopology_id: str, partition: int) -> str | None: ...

    def has_replica(self, subtopology_id: str, partition: int, process_id: str) -> bool:
        """Whether the process stands by for the task or warms it up."""
        ...


def reconcile(
    member: StreamsMember, *, target_epoch: int, target: Tasks, owned: Tasks | None, owners: TaskOwners
) -> StreamsMember:
    """The member after a heartbeat in which it said what it owns; None when it did not say."""
    match member.state:
        case MemberState.STABLE:
            if member.epoch == target_epoch:
                return member
            return _Step(member, target_epoch, target, owned, owners).take(member.epoch)
        case MemberState.UNREVOKED_TASKS:
            if owned is None or owned.overlaps(member.pending_revocation):
                return member
            # The epoch whose tasks it has given up lies behind it. The target's may be higher by more than one.
            return _Step(member, target_epoch, target, owned, owners).take(member.epoch + 1)
        case MemberState.UNRELEASED_TASKS:
            return _Step(member, target_epoch, target, owned, owners).take(member.epoch)
        case MemberState.UNKNOWN:
            if owned is None or not owned.is_empty:
                raise FencedMemberEpoch(
                    "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
                )
            return _Step(member, target_epoch, target, owned, owners).take(target_epoch)


class _Step:
    """One step towards a target."""

    def __init__(
        self, member: StreamsMember, target_epoch: int, target: Tasks, owned: Tasks | None, owners: TaskOwners
    ) -> None:
        self.member = member
        self.target_epoch = target_epoch
        self.target = target
        self.owned = owned
        self.owners = owners
        self.has_unreleased = False

    def take(self, epoch: int) -> StreamsMember:
        """`epoch` is what the member stays in while it has tasks to give up."""
        had, target = self.member.assigned, self.target
        active_kept, active_revoked = _split_epochs(had.active, target.active)
        standby_kept, standby_revoked = _split(had.standby, target.standby)
        warmup_kept, warmup_revoked = _split(had.warmup, target.warmup)
        active_new = {
            id: dict.fromkeys(sorted(partitions), self.target_epoch)
            for id, partitions in self._released(
                target.active, {id: frozenset(epochs) for id, epochs in active_kept.items()}, self._is_active_taken
            ).items()
        }
        standby_new = self._released(target.standby, standby_kept, self._is_in_process)
        warmup_new = self._released(target.warmup, warmup_kept, self._is_in_process)
        return self._next(
            epoch,
            kept=AssignedTasks(active_kept, standby_kept, warmup_kept),
            revoked=AssignedTasks(active_revoked, standby_revoked, warmup_revoked),
            new=AssignedTasks(active_new, standby_new, warmup_new),
        )

    def _next(self, epoch: int, *, kept: AssignedTasks, revoked: AssignedTasks, new: AssignedTasks) -> StreamsMember:
        if not revoked.is_empty and (self.owned is None or self.owned.overlaps(revoked)):
            return replace(
                self.member,
                state=MemberState.UNREVOKED_TASKS,
                epoch=epoch,
                previous_epoch=self.member.epoch,
                assigned=kept,
                pending_revocation=revoked,
            )
        return replace(
            self.member,
            state=MemberState.UNRELEASED_TASKS if self.has_unreleased else MemberState.STABLE,
            epoch=self.target_epoch,
            previous_epoch=self.member.epoch,
            assigned=kept if new.is_empty else kept.merge(new),
            pending_revocation=NOTHING_ASSIGNED,
        )

    def _released(
        self, target: TaskMap, kept: TaskMap, is_taken: Callable[[str, int], bool]
    ) -> dict[str, frozenset[int]]:
        """The tasks of the target that the member lacks and nobody stands in the way of."""
        found: dict[str, frozenset[int]] = {}
        for id, partitions in target.items():
            wanted = partitions - kept.get(id, frozenset())
            free = frozenset(partition for partition in wanted if not is_taken(id, partition))
            if len(free) < len(wanted):
                self.has_unreleased = True
            if free:
                found[id] = free
        return found

    def _is_active_taken(self, id: str, partition: int) -> bool:
        owners = self.owners
        return owners.active_process(id, partition) is not None or owners.has_replica(
            id, partition, self.member.process_id
        )

    def _is_in_process(self, id: str, partition: int) -> bool:
        owners, process_id = self.owners, self.member.process_id
        return owners.active_process(id, partition) == process_id or owners.has_replica(id, partition, process_id)


def _split(had: TaskMap, target: TaskMap) -> tuple[dict[str, frozenset[int]], dict[str, frozenset[int]]]:
    """What is kept, and what is to be given up."""
    kept, revoked = {}, {}
    for id, partitions in had.items():
        staying = partitions & target.get(id, frozenset())
        if staying:
            kept[id] = staying
        if len(staying) < len(partitions):
            revoked[id] = partitions - staying
    return kept, revoked


def _split_epochs(had: EpochMap, target: TaskMap) -> tuple[dict[str, dict[int, int]], dict[str, dict[int, int]]]:
    kept, revoked = {}, {}
    for id, epochs in had.items():
        wanted = target.get(id, frozenset())
        staying = {partition: epoch for partition, epoch in epochs.items() if partition in wanted}
        if staying:
            kept[id] = staying
        if len(staying) < len(epochs):
            revoked[id] = {partition: epoch for partition, epoch in epochs.items() if partition not in wanted}
    return kept, revoked

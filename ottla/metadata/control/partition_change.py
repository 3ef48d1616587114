"""`PartitionChanger`: from what should become of a partition to the record that makes it so, elections included.

Promises: the leader is chosen from the ISR, then from the eligible leader replicas, then the last known leader, and
only then, where unclean elections are allowed, from any replica that is alive. No record comes when nothing changes.
Pure: it reads a partition and returns a record. Called by everything that changes partitions.

Eligible leader replicas (KIP-966) are those that left the ISR while it was below `min.insync.replicas`: no record can
have been committed without them, so they may lead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum

from ottla.metadata.levels import MetadataVersion
from ottla.metadata.partition import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    NO_RECOVERY_CHANGE,
    LeaderRecoveryState,
    PartitionImage,
)
from ottla.types import Uuid
from ottla.wire.metadata import PartitionChangeRecord, VersionedRecord


class Election(Enum):
    """Which leader is wanted."""

    PREFERRED = "the first replica, if it may lead; else as online"
    ONLINE = "the leader of now while it may lead; else the first replica that may"
    UNCLEAN = "as online; else any replica that is alive, even if records are lost"


class PartitionChanger:
    """A change of one partition in the making: set what is wanted, then `build`."""

    def __init__(
        self,
        partition: PartitionImage,
        topic_id: Uuid,
        index: int,
        *,
        may_lead: Callable[[int], bool],
        default_directory: Callable[[int], Uuid],
        metadata_version: MetadataVersion,
        min_isr: int,
        has_elr: bool,
    ) -> None:
        self._partition = partition
        self._topic_id = topic_id
        self._index = index
        self._may_lead = may_lead
        self._default_directory = default_directory
        self._metadata_version = metadata_version
        self._min_isr = min_isr
        self._has_elr = has_elr
        self.election = Election.ONLINE
        self.isr: list[int] = list(partition.isr)
        self.replicas: list[int] = list(partition.replicas)
        self.adding: list[int] = list(partition.adding)
        self.removing: list[int] = list(partition.removing)
        self.recovery_state = partition.leader_recovery_state
        self.directories: dict[int, Uuid] = dict(zip(partition.replicas, partition.directories, strict=True))
        self.unclean_shutdown_replicas: Collection[int] = ()
        self._elr: list[int] = list(partition.elr)

    def build(self) -> VersionedRecord | None:
        """The record, or None when the partition is as wanted already."""
        record = PartitionChangeRecord(topic_id=self._topic_id, partition_id=self._index)
        self._complete_reassignment()
        self._update_elr()
        self._elect(record)
        self._bump_epoch_for_removed_replicas(record)
        # An unclean election, which has set an ISR of its own by now, ends what was eligible before.
        if record.isr is not None or not self._has_elr:
            self._elr = []
        if tuple(self._elr) != self._partition.elr:
            record.eligible_leader_replicas = self._elr
        if record.isr is None and (self.isr or self._has_elr) and tuple(self.isr) != self._partition.isr:
            record.isr = self.isr
        self._bump_epoch_for_isr_shrink(record)
        self._remember_last_leader(record)
        self._set_assignment(record)
        if self.recovery_state != self._partition.leader_recovery_state:
            record.leader_recovery_state = self.recovery_state
        if _is_no_change(record):
            return None
        return VersionedRecord(record, self._metadata_version.partition_record_version)

    # Elections

    def _elect(self, record: PartitionChangeRecord) -> None:
        leader, is_unclean = self._choose_leader()
        if leader == self._partition.leader:
            return
        if leader in self._elr:
            self.isr = [leader]
            self._elr = [replica for replica in self._elr if replica != leader]
        record.leader = leader
        if is_unclean:
            record.isr = [leader]
            if self._partition.leader_recovery_state is not LeaderRecoveryState.RECOVERING:
                record.leader_recovery_state = LeaderRecoveryState.RECOVERING

    def _choose_leader(self) -> tuple[int, bool]:
        """The leader, or `NO_LEADER`, and whether its election is unclean."""
        current = self._partition.leader
        if self.election is Election.PREFERRED:
            candidates = [self.replicas[0], current, *self.replicas[1:]]
        else:
            candidates = [current, *self.replicas]
        for candidate in candidates:
            if self._may_lead_cleanly(candidate):
                return candidate, False
        if self._may_elect_last_known_leader():
            return self._partition.last_known_elr[0], True
        if self.election is Election.UNCLEAN:
            for candidate in self.replicas:
                if self._may_lead(candidate):
                    return candidate, True
        return NO_LEADER, False

    def _may_lead_cleanly(self, replica: int) -> bool:
        is_in_sync = replica in self.isr or (not self.isr and replica in self._elr)
        return is_in_sync and self._may_lead(replica)

    def _may_elect_last_known_leader(self) -> bool:
        """When no replica is known to have everything, the last leader has most, if it alone was the last."""
        last_known = self._partition.last_known_elr
        return (
            self._has_elr and not self._elr and not self.isr and len(last_known) == 1 and self._may_lead(last_known[0])
        )

    def _remember_last_leader(self, record: PartitionChangeRecord) -> None:
        if not self._has_elr:
            return
        if record.leader == NO_LEADER and not self._partition.last_known_elr:
            record.last_known_elr = [self._partition.leader]
        elif record.leader >= 0 and self._partition.last_known_elr:
            record.last_known_elr = []

    def _update_elr(self) -> None:
        if not self._has_elr:
            return
        if len(self.isr) >= self._min_isr:
            self._elr = []
            return
        candidates = sorted({*self._elr, *self._partition.isr})
        self._elr = [
            replica
            for replica in candidates
            if replica not in self.isr and replica not in self.unclean_shutdown_replicas
        ]

    # Epochs

    def _bump_epoch_for_removed_replicas(self, record: PartitionChangeRecord) -> None:
        """A replica that is taken away must stop fetching, and a new leader epoch makes it look."""
        if record.leader == NO_LEADER_CHANGE and not set(self._partition.replicas) <= set(self.replicas):
            record.leader = self._partition.leader

    def _bump_epoch_for_isr_shrink(self, record: PartitionChangeRecord) -> None:
        if not self._metadata_version.bumps_leader_epoch_on_isr_shrink:
            return
        if record.isr is None or set(self._partition.isr) <= set(record.isr):
            return
        if record.leader == NO_LEADER_CHANGE:
            record.leader = self._partition.leader

    # Assignment

    def _complete_reassignment(self) -> None:
        """A reassignment whose new replicas are all in sync is over: those to be removed go."""
        if not self.adding and not self.removing:
            return
        isr = [replica for replica in self.isr if replica not in self.removing]
        replicas = [replica for replica in self.replicas if replica not in self.removing]
        if self.removing and (not isr or not replicas):
            return
        if not set(self.adding) <= set(isr):
            return
        # When replicas only go, the others must be in sync first, or the partition would lose copies.
        if len(self.adding) < len(self.removing) and not set(replicas) <= set(isr):
            return
        self.isr, self.replicas = isr, replicas
        self.adding, self.removing = [], []

    def _set_assignment(self, record: PartitionChangeRecord) -> None:
        partition = self._partition
        if self.replicas:
            if self._metadata_version.has_directories:
                directories = [
                    self.directories[replica] if replica in self.directories else self._default_directory(replica)
                    for replica in self.replicas
                ]
                if tuple(directories) != partition.directories:
                    record.directories = directories
            if tuple(self.replicas) != partition.replicas:
                record.replicas = self.replicas
        if tuple(self.removing) != partition.removing:
            record.removing_replicas = self.removing
        if tuple(self.adding) != partition.adding:
            record.adding_replicas = self.adding


def without(replicas: Sequence[int], *gone: int) -> list[int]:
    return [replica for replica in replicas if replica not in gone]


def _is_no_change(record: PartitionChangeRecord) -> bool:
    return (
        record.isr is None
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
        and record.leader == NO_LEADER_CHANGE
        and record.replicas is None
        and record.removing_replicas is None
        and record.adding_replicas is None
        and record.leader_recovery_state == NO_RECOVERY_CHANGE
        and record.directories is None
    )

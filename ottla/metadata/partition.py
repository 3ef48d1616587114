"""`PartitionImage`: what the cluster knows about one partition.

Promises: a value; a change makes a new one. `changed_by` is the only reading of a `PartitionChangeRecord`, and
`to_record` loses nothing that the cluster's `metadata.version` can carry. Called by the image and by the controller.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ottla.metadata.directories import LOST, MIGRATING
from ottla.metadata.levels import MetadataVersion
from ottla.types import Uuid
from ottla.wire.metadata import PartitionChangeRecord, PartitionRecord, VersionedRecord

NO_LEADER = -1
NO_LEADER_CHANGE = -2
NO_RECOVERY_CHANGE = -1


class LeaderRecoveryState(IntEnum):
    """Whether a leader that was elected uncleanly has made its log whole again."""

    RECOVERED = 0
    RECOVERING = 1


# Looked up, because calling an enum costs more than the rest of a field.
_RECOVERY_STATES = tuple(LeaderRecoveryState)


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """One partition. `replicas` begins with the preferred leader and `directories` runs beside it."""

    replicas: tuple[int, ...]
    directories: tuple[Uuid, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @classmethod
    def from_record(cls, record: PartitionRecord) -> PartitionImage:
        replicas = tuple(record.replicas)
        return cls(
            replicas=replicas,
            directories=_directories(tuple(record.directories), len(replicas)),
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            leader_recovery_state=_RECOVERY_STATES[record.leader_recovery_state],
            adding=tuple(record.adding_replicas),
            removing=tuple(record.removing_replicas),
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
        )

    def to_record(
        self, topic_id: Uuid, index: int, *, metadata_version: MetadataVersion, has_elr: bool
    ) -> VersionedRecord:
        """The record that makes this partition; `has_elr` says whether eligible leader replicas are in use."""
        record = PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing),
            adding_replicas=list(self.adding),
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
        )
        if metadata_version.has_directories:
            record.directories = list(self.directories)
        if has_elr:
            record.eligible_leader_replicas = list(self.elr) or None
            record.last_known_elr = list(self.last_known_elr) or None
        return VersionedRecord(record, metadata_version.partition_record_version)

    def changed_by(self, record: PartitionChangeRecord) -> PartitionImage:
        """This partition after a change. A leader that is named, even the same again, begins a new leader epoch."""
        replicas = self.replicas if record.replicas is None else tuple(record.replicas)
        directories = self.directories if record.directories is None else tuple(record.directories)
        has_new_leader = record.leader != NO_LEADER_CHANGE
        recovery = record.leader_recovery_state
        return PartitionImage(
            replicas=replicas,
            directories=_directories(directories, len(replicas)),
            isr=self.isr if record.isr is None else tuple(record.isr),
            leader=record.leader if has_new_leader else self.leader,
            leader_epoch=self.leader_epoch + has_new_leader,
            partition_epoch=self.partition_epoch + 1,
            leader_recovery_state=(
                self.leader_recovery_state if recovery == NO_RECOVERY_CHANGE else _RECOVERY_STATES[recovery]
            ),
            adding=self.adding if record.adding_replicas is None else tuple(record.adding_replicas),
            removing=self.removing if record.removing_replicas is None else tuple(record.removing_replicas),
            elr=self.elr if record.eligible_leader_replicas is None else tuple(record.eligible_leader_replicas),
            last_known_elr=(self.last_known_elr if record.last_known_elr is None else tuple(record.last_known_elr)),
        )

    def directory_of(self, broker_id: int) -> Uuid:
        """The directory of a broker's replica; `LOST` where the broker has none."""
        for replica, directory in zip(self.replicas, self.directories, strict=True):
            if replica == broker_id:
                return directory
        return LOST

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def has_preferred_leader(self) -> bool:
        return self.leader == self.preferred_leader

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)


def _directories(directories: tuple[Uuid, ...], replica_count: int) -> tuple[Uuid, ...]:
    """A record of an old `metadata.version` names none, and then every replica counts as migrating."""
    if not directories:
        return (MIGRATING,) * replica_count
    assert len(directories) == replica_count, f"{len(directories)} directories for {replica_count} replicas"
    return directories

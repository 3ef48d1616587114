"""What the rules of the quorum ask of the log: where it begins and ends, and which epoch ended where.

The log is the one owner of the voters too: they are records in it, or the settings where it has none. So whatever
changes the log, an append, a truncation or a snapshot, changes them with it.

Implemented by `metadata_log` on disk, and in memory by the tests of `core`. Reads only, and never waits.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ottla.raft.snapshot import BOOTSTRAP_ID, SnapshotId
from ottla.raft.voters import VoterSet


class EpochEnd(NamedTuple):
    """An epoch and the offset at which it ends. Of two logs, the one whose last is larger is the more complete."""

    epoch: int
    end_offset: int


class LogView(Protocol):
    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def flushed_offset(self) -> int:
        """Everything below is on this node's device."""
        ...

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch, or of the snapshot that the log begins with; 0 when there is nothing."""
        ...

    @property
    def voters(self) -> VoterSet:
        """The latest voters, committed or not (KIP-853)."""
        ...

    @property
    def voters_offset(self) -> int | None:
        """Where the voters stand: -1 for the snapshot of a format, None for the settings."""
        ...

    @property
    def kraft_version(self) -> int: ...

    @property
    def earliest_snapshot_id(self) -> SnapshotId | None: ...

    @property
    def latest_snapshot_id(self) -> SnapshotId | None: ...

    def snapshot_size(self, id: SnapshotId) -> int | None:
        """Its bytes; None when there is no such snapshot."""
        ...

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch at or below `epoch`, and where it ends; the log's end for one above all."""
        ...


class Diverging(NamedTuple):
    """The follower has to cut its log off: the two share nothing of a later epoch, or beyond this offset."""

    end: EpochEnd


def check_position(log: LogView, offset: int, epoch: int) -> Diverging | SnapshotId | None:
    """Whether a replica whose last batch is of `epoch` and ends at `offset` can go on from there with this log.

    None when it can. A snapshot is named where the log no longer reaches back, and where a replica has nothing at all:
    that is quicker than to read the log from its start.
    """
    latest, earliest = log.latest_snapshot_id, log.earliest_snapshot_id
    if offset == 0 and latest is not None and latest != BOOTSTRAP_ID:
        return latest
    if log.start_offset == 0 and offset == 0:
        return None
    if earliest is not None and latest is not None:
        is_below = offset < log.start_offset
        is_other = offset == log.start_offset and epoch != earliest.epoch
        if is_below or is_other or epoch < earliest.epoch:
            return latest
    end = log.end_of_epoch(epoch)
    return Diverging(end) if end.epoch != epoch or end.end_offset < offset else None


def truncation_offset(log: LogView, diverging: EpochEnd) -> int:
    """Where to cut this log off, when the leader says that its epoch `diverging.epoch` ends there."""
    if diverging.epoch == 0:
        return min(diverging.end_offset, log.end_offset)
    own = log.end_of_epoch(diverging.epoch)
    return min(own.end_offset, diverging.end_offset) if own.epoch == diverging.epoch else own.end_offset

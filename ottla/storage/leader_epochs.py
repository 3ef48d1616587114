"""Which leader epoch begins at which offset of a log (KIP-101): how replicas find out where they parted.

Promises: epochs and their start offsets both grow. The file lacks no epoch of a record below the recovery point, and
those of records above it are read from the records themselves when the log is opened after a crash: so an epoch may
begin in memory (`begin`), and the file follows from another thread (`prepare`, `publish`). Until then `unwritten_from`
holds the recovery point back. After a truncation the file may have entries too many until `flush`; loading the log
truncates again. (Kafka syncs the file in the thread that appends, before the first record of an epoch.)

Called by `log` and `loader`. On disk: the checkpoint frame with a line `epoch start_offset` for each entry.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from ottla.storage.atomic_file import TEMPORARY, directory_of, write_atomically
from ottla.storage.checkpoint import FIRST_ENTRY_LINE, INT32_MAX, INT64_MAX, encode_entries, parse_number, read_entries
from ottla.storage.damage import DamagedFile
from ottla.world import Disk, File

log = logging.getLogger(__name__)

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEntry(NamedTuple):
    """An epoch and the offset of the first record written in it."""

    epoch: int
    start_offset: int


class LeaderEpochCache:
    """The epochs of one log, in memory and in the checkpoint at `path`.

    `latest_epoch` is an attribute because every append compares its batches with it; None while no epoch is known.
    """

    __slots__ = ("_disk", "_epochs", "_prepared_from", "_starts", "_unwritten_from", "is_dirty", "latest_epoch", "path")

    def __init__(self, disk: Disk, path: str, *, exists: bool = True) -> None:
        """Read the checkpoint. `exists` may be false when the caller has listed the directory and not seen it."""
        self._disk = disk
        self.path = path
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.is_dirty = False
        self._unwritten_from: int | None = None
        """Where the first epoch begins that neither the file has nor the one that is being written beside it."""
        self._prepared_from: int | None = None
        """The same of the one beside it: it lacks nothing below."""
        self.latest_epoch: int | None = None
        for entry in read_epochs(disk, path) if exists else ():
            # Through the same door as new entries: an old Kafka could write ones that do not grow, and they heal here.
            self._insert(entry)

    # What it knows

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def entries(self) -> list[EpochEntry]:
        """All entries, the oldest first."""
        return list(map(EpochEntry, self._epochs, self._starts))

    @property
    def latest_entry(self) -> EpochEntry | None:
        return self._entry_at(len(self._epochs) - 1)

    @property
    def earliest_entry(self) -> EpochEntry | None:
        return self._entry_at(0)

    def entry(self, epoch: int) -> EpochEntry | None:
        """The entry of exactly this epoch."""
        found = self._entry_at(bisect_left(self._epochs, epoch))
        return found if found is not None and found.epoch == epoch else None

    def previous_entry(self, epoch: int) -> EpochEntry | None:
        """The entry of the largest epoch below this one."""
        return self._entry_at(bisect_left(self._epochs, epoch) - 1)

    def next_entry(self, epoch: int) -> EpochEntry | None:
        """The entry of the smallest epoch above this one."""
        return self._entry_at(bisect_right(self._epochs, epoch))

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch in which the record at `offset` was, or would be, written."""
        entry = self._entry_at(bisect_right(self._starts, offset) - 1)
        return None if entry is None else entry.epoch

    def end_offset_for(self, requested_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch at or below the requested one, and the offset at which it ends.

        The latest epoch ends at the log's end. An epoch below all known ones is answered with itself and the first
        known start: what it wrote is gone, and the follower can go on from there. (-1, -1) when nothing can be said:
        the requested epoch is undefined, or above every known one.
        """
        if requested_epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if requested_epoch == self.latest_epoch:
            return requested_epoch, log_end_offset
        above = bisect_right(self._epochs, requested_epoch)
        if above == len(self._epochs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if above == 0:
            return requested_epoch, self._starts[0]
        return self._epochs[above - 1], self._starts[above]

    def _entry_at(self, index: int) -> EpochEntry | None:
        if 0 <= index < len(self._epochs):
            return EpochEntry(self._epochs[index], self._starts[index])
        return None

    # What changes it

    def assign(self, epoch: int, start_offset: int) -> None:
        """Begin `epoch` at `start_offset`, durably. An epoch that is the latest already stays as it is.

        Entries that contradict the new one go: those of the same or a later epoch, and those that begin at the same
        or a later offset, because nothing was written in them.
        """
        if self._insert(EpochEntry(epoch, start_offset)):
            self._write()

    def begin(self, epoch: int, start_offset: int) -> None:
        """`assign` in memory only: see `unwritten_from`.

        A node that starts, or takes over from another, leads thousands of partitions within a moment: waiting for the
        device once for each would keep it from serving any.
        """
        if self._insert(EpochEntry(epoch, start_offset)):
            self._unwritten_from = _first(self._unwritten_from, start_offset)

    @property
    def unwritten_from(self) -> int | None:
        """The offset from which on records may have an epoch that the file lacks; None when it has them all."""
        return _first(self._unwritten_from, self._prepared_from)

    def prepare(self) -> File:
        """Write the entries beside the file: to be synced by the caller, elsewhere, before they are published."""
        file = self._disk.open(self.path + TEMPORARY, create=True)
        file.truncate(0)
        file.write_at(0, self._encoded())
        self._prepared_from, self._unwritten_from = self.unwritten_from, None
        return file

    def publish(self) -> bool:
        """Give the prepared file its name, which the directory's next sync makes durable; False when a later one has
        been written meanwhile."""
        if self._prepared_from is None:
            return False
        self._disk.rename(self.path + TEMPORARY, self.path)
        self._prepared_from = None
        return True

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that begin at or above `end_offset`; on disk after `flush`."""
        if end_offset < 0:
            return
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            self._cut(keep)
            self.is_dirty = True
            # The file may still have what was cut, and other records will come in its place.
            self._unwritten_from = _first(self._unwritten_from, end_offset)

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget what lies below `start_offset`; the epoch that reaches across begins there. On disk after `flush`."""
        across = bisect_right(self._starts, start_offset) - 1
        if across < 0 or (across == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:across]
        del self._starts[:across]
        self._starts[0] = start_offset
        self.is_dirty = True

    def clear(self) -> None:
        """Forget everything in memory: the log is being deleted, and its file goes with it."""
        self._cut(0)
        self._unwritten_from = self._prepared_from = None

    def clear_and_flush(self) -> None:
        """Forget everything, durably."""
        self._cut(0)
        self._write()

    def flush(self, end_offset: int = INT64_MAX) -> None:
        """Write the entries, durably, if a truncation has changed them or records below `end_offset` need them.

        A directory that is gone by now has nothing left to protect: the partition was deleted meanwhile.
        """
        unwritten_from = self.unwritten_from
        if not self.is_dirty and (unwritten_from is None or unwritten_from >= end_offset):
            return
        try:
            self._write()
        except FileNotFoundError:
            if self._disk.exists(directory_of(self.path)):
                raise

    def move_to(self, directory: str) -> None:
        """The log's directory has got another name."""
        self.path = f"{directory}/{self.path.rpartition('/')[2]}"

    def _insert(self, entry: EpochEntry) -> bool:
        """Add the entry and drop what contradicts it; False when it says nothing new."""
        epoch, start_offset = entry
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"Received invalid partition leader epoch entry {entry} for {self.path}")
        if epoch == self.latest_epoch and start_offset >= self._starts[-1]:
            return False
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        dropped = self.entries[keep:]
        # One entry that began at the same offset is the trace of a leader that wrote nothing.
        if len(dropped) > 1 or (dropped and dropped[0].start_offset != start_offset):
            log.warning("[LeaderEpochCache %s] %s takes the place of conflicting entries %s", self.path, entry, dropped)
        self._cut(keep)
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest_epoch = epoch
        return True

    def _cut(self, count: int) -> None:
        """Keep the first `count` entries."""
        del self._epochs[count:]
        del self._starts[count:]
        self.latest_epoch = self._epochs[-1] if self._epochs else None

    def _write(self) -> None:
        write_atomically(self._disk, self.path, self._encoded())
        self.is_dirty = False
        self._unwritten_from = self._prepared_from = None

    def _encoded(self) -> bytes:
        return encode_entries(f"{epoch} {start}" for epoch, start in zip(self._epochs, self._starts, strict=True))


def _first(one: int | None, other: int | None) -> int | None:
    """The smaller one of those that are there."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def read_epochs(disk: Disk, path: str) -> list[EpochEntry]:
    """The entries as the file has them; none when it is missing or empty, `DamagedFile` when it cannot be read."""
    entries = []
    for number, line in enumerate(read_entries(disk, path), FIRST_ENTRY_LINE):
        fields = line.split(" ")
        entry = EpochEntry(-1, -1)
        if len(fields) == 2:
            entry = EpochEntry(parse_number(fields[0], INT32_MAX), parse_number(fields[1], INT64_MAX))
        if entry.epoch < 0 or entry.start_offset < 0:
            raise DamagedFile(path, f"line {number}", "an entry `epoch start_offset`", repr(line))
        entries.append(entry)
    return entries

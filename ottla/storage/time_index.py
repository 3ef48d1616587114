"""The time index of one segment: timestamp -> offset, sparse, sorted.

Promises: an entry (t, o) says that no batch up to the one ending at offset o has a timestamp above t; entries grow in
both columns. Called by `segment`. On disk, 12 bytes an entry, as Kafka writes it: the largest timestamp so far, and
the last offset of the batch that has it, less the base offset.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from ottla.records import NO_TIMESTAMP
from ottla.storage.index import CorruptIndex, SparseIndex
from ottla.world import Disk

ENTRY = Struct(">qi")


class TimestampOffset(NamedTuple):
    """A timestamp and the last offset of the batch that carries it."""

    timestamp: int
    offset: int


class TimeIndex(SparseIndex):
    __slots__ = ("_last_entry",)

    def __init__(self, disk: Disk, path: str, base_offset: int, *, bytes_max: int, size: int = 0) -> None:
        super().__init__(disk, path, base_offset, entry=ENTRY, bytes_max=bytes_max, size=size, closing_count=1)
        self._last_entry: TimestampOffset | None = None

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry; (-1, base offset) when there is none."""
        if self._last_entry is None:
            count = self.entry_count
            self._last_entry = self.entry_at(count - 1) if count else TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return self._last_entry

    def entry_at(self, slot: int) -> TimestampOffset:
        timestamp, relative = self.raw(slot)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def floor(self, timestamp: int) -> TimestampOffset:
        """The last entry at or below `timestamp`; (-1, base offset) when there is none."""
        slot = self.floor_slot(timestamp, 0)
        return TimestampOffset(NO_TIMESTAMP, self.base_offset) if slot < 0 else self.entry_at(slot)

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry if its timestamp is above the last one; the same or an older maximum says nothing new."""
        last = self.last_entry
        if timestamp > last.timestamp:
            assert self.entry_count == 0 or offset >= last.offset, (
                f"{self.path}: offset {offset} of timestamp {timestamp} is below the last one, {last.offset}"
            )
            self.append_raw(timestamp, offset - self.base_offset)
            self._last_entry = TimestampOffset(timestamp, offset)

    def truncate_to(self, offset: int) -> None:
        """Drop every entry at or above `offset`."""
        slot = self.floor_slot(offset - self.base_offset, 1)
        if slot >= 0 and self.raw(slot)[1] == offset - self.base_offset:
            slot -= 1
        self.truncate_to_entries(slot + 1)
        self._last_entry = None

    def reset(self) -> None:
        super().reset()
        self._last_entry = None

    def check(self) -> None:
        """Raise `CorruptIndex` when the file cannot be what this index wrote."""
        if not self.entry_count:
            return
        first, last = self.entry_at(0), self.last_entry
        if last.timestamp < first.timestamp:
            raise CorruptIndex(
                f"{self.path}: the last timestamp {last.timestamp} is below the first, {first.timestamp}"
            )
        if last.offset < self.base_offset:
            raise CorruptIndex(f"{self.path}: the last offset {last.offset} is below the base offset")

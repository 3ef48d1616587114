"""The offset index of one segment: offset -> byte position, sparse, sorted.

Promises: entries grow in both columns; `floor(offset)` never points past a batch that ends at or above the offset.
Called by `segment`. On disk, 8 bytes an entry, as Kafka writes it: the batch's last offset less the base offset, and
the position of the batch.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from ottla.storage.index import CorruptIndex, SparseIndex
from ottla.world import Disk

ENTRY = Struct(">ii")


class OffsetPosition(NamedTuple):
    """A batch's last offset and where the batch begins."""

    offset: int
    position: int


class OffsetIndex(SparseIndex):
    __slots__ = ("_last_offset",)

    def __init__(self, disk: Disk, path: str, base_offset: int, *, bytes_max: int, size: int = 0) -> None:
        super().__init__(disk, path, base_offset, entry=ENTRY, bytes_max=bytes_max, size=size)
        self._last_offset: int | None = base_offset if size < ENTRY.size else None

    @property
    def last_offset(self) -> int:
        """The last entry's offset; the base offset when there is no entry."""
        if self._last_offset is None:
            count = self.entry_count
            self._last_offset = self.base_offset + (self.raw(count - 1)[0] if count else 0)
        return self._last_offset

    def entry_at(self, slot: int) -> OffsetPosition:
        relative, position = self.raw(slot)
        return OffsetPosition(self.base_offset + relative, position)

    def floor(self, offset: int) -> OffsetPosition:
        """The last entry at or below `offset`; the segment's start when there is none."""
        slot = self.floor_slot(offset - self.base_offset, 0)
        return OffsetPosition(self.base_offset, 0) if slot < 0 else self.entry_at(slot)

    def ceiling_of_position(self, position: int) -> OffsetPosition | None:
        """The first entry whose batch begins beyond `position`: an upper bound for what a read up to there returns."""
        slot = self.floor_slot(position, 1)
        if slot >= 0 and self.raw(slot)[1] == position:
            return self.entry_at(slot)
        return self.entry_at(slot + 1) if slot + 1 < self.entry_count else None

    def append(self, offset: int, position: int) -> None:
        assert self.entry_count == 0 or offset > self.last_offset, (
            f"{self.path}: offset {offset} is not above the last one, {self.last_offset}"
        )
        assert self.can_hold(offset), f"{self.path}: offset {offset} is too far from {self.base_offset}"
        self.append_raw(offset - self.base_offset, position)
        self._last_offset = offset

    def truncate_to(self, offset: int) -> None:
        """Drop every entry at or above `offset`."""
        slot = self.floor_slot(offset - self.base_offset, 0)
        if slot >= 0 and self.raw(slot)[0] == offset - self.base_offset:
            slot -= 1
        self.truncate_to_entries(slot + 1)
        self._last_offset = None

    def reset(self) -> None:
        super().reset()
        self._last_offset = self.base_offset

    def check(self) -> None:
        """Raise `CorruptIndex` when the file cannot be what this index wrote."""
        if self.entry_count and self.last_offset < self.base_offset:
            raise CorruptIndex(f"{self.path}: the last offset {self.last_offset} is below the base offset")

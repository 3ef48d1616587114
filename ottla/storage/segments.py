"""The segments of one log, in offset order.

Promises: look-ups are logarithmic; base offsets are unique. Called by `log`, `loader` and `cleaner`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from ottla.storage.segment import Segment


class Segments:
    __slots__ = ("_by_offset", "_offsets", "active")

    active: Segment
    """The last segment, the one that is appended to. There is none until the first is added."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._by_offset: dict[int, Segment] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[Segment]:
        """A copy in order: segments may be added and removed meanwhile."""
        return iter([self._by_offset[offset] for offset in self._offsets])

    def __contains__(self, base_offset: int) -> bool:
        return base_offset in self._by_offset

    def __getitem__(self, base_offset: int) -> Segment:
        return self._by_offset[base_offset]

    @property
    def base_offsets(self) -> list[int]:
        return list(self._offsets)

    @property
    def first(self) -> Segment:
        return self._by_offset[self._offsets[0]]

    def add(self, segment: Segment) -> None:
        """Add a segment; one with the same base offset gives way to it."""
        if segment.base_offset not in self._by_offset:
            insort(self._offsets, segment.base_offset)
        self._by_offset[segment.base_offset] = segment
        self.active = self._by_offset[self._offsets[-1]]

    def remove(self, segment: Segment) -> None:
        if self._by_offset.get(segment.base_offset) is not segment:
            return
        del self._by_offset[segment.base_offset]
        self._offsets.remove(segment.base_offset)
        if self._offsets:
            self.active = self._by_offset[self._offsets[-1]]

    def floor(self, offset: int) -> Segment | None:
        """The last segment that begins at or below `offset`."""
        if self._offsets and offset >= self._offsets[-1]:
            return self.active
        place = bisect_right(self._offsets, offset)
        return self._by_offset[self._offsets[place - 1]] if place else None

    def higher(self, offset: int) -> Segment | None:
        """The first segment that begins above `offset`."""
        place = bisect_right(self._offsets, offset)
        return self._by_offset[self._offsets[place]] if place < len(self._offsets) else None

    def lower(self, offset: int) -> Segment | None:
        """The last segment that begins below `offset`."""
        place = bisect_left(self._offsets, offset)
        return self._by_offset[self._offsets[place - 1]] if place else None

    def above(self, offset: int) -> list[Segment]:
        """All that begin above `offset`."""
        return [self._by_offset[base] for base in self._offsets[bisect_right(self._offsets, offset) :]]

    def covering(self, start_offset: int, end_offset: int | None = None) -> list[Segment]:
        """Those that may hold offsets of [start, end): the one `start` falls into, and all that begin before `end`."""
        first = max(bisect_right(self._offsets, start_offset) - 1, 0)
        last = len(self._offsets) if end_offset is None else bisect_left(self._offsets, end_offset)
        return [self._by_offset[base] for base in self._offsets[first:last]]

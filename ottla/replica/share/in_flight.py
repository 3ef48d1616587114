"""The records of a share partition between delivery and the end of all deliveries: batches by offset.

A batch as it was acquired has one `Delivery` while all its records are in the same state, and one for each offset from
when they differ. `InFlight` holds the batches in the order of their offsets, and finds the one an offset is in.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from ottla.replica.share.delivery import NOBODY, Delivery, RecordState


class InFlightBatch:
    """Offsets `first_offset` to `last_offset`, both included: `whole` is their state, or `each` has one for each."""

    __slots__ = ("each", "first_offset", "last_offset", "whole")

    def __init__(self, first_offset: int, last_offset: int, whole: Delivery) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.whole: Delivery | None = whole
        self.each: list[Delivery] = []

    def __len__(self) -> int:
        return self.last_offset - self.first_offset + 1

    def split(self) -> None:
        """Keep a state for each offset from now on."""
        if self.whole is not None:
            whole, self.whole = self.whole, None
            self.each = [whole.copy() for _ in range(len(self))]

    def split_at(self, last_offset: int) -> None:
        """The same for a batch that has just been acquired up to `last_offset` only."""
        self.split()
        for delivery in self.each[last_offset - self.first_offset + 1 :]:
            delivery.state = RecordState.AVAILABLE
            delivery.count -= 1
            delivery.member_id = NOBODY
            delivery.deadline_ms = None

    def is_within(self, first_offset: int, last_offset: int) -> bool:
        return self.first_offset >= first_offset and self.last_offset <= last_offset

    def parts(self) -> Iterator[tuple[int, int, Delivery]]:
        """First and last offset and state of everything that has a state of its own."""
        if self.whole is not None:
            yield self.first_offset, self.last_offset, self.whole
        else:
            yield from ((offset, offset, one) for offset, one in enumerate(self.each, self.first_offset))

    def offsets(self, first_offset: int, last_offset: int) -> Iterator[tuple[int, Delivery]]:
        """The states of the offsets between the two, both included, in a batch that is split."""
        assert self.whole is None, "the batch is not split"
        start = max(first_offset - self.first_offset, 0)
        end = last_offset - self.first_offset + 1
        return zip(range(self.first_offset + start, last_offset + 1), self.each[start:end], strict=False)

    def at(self, offset: int) -> Delivery:
        return self.whole or self.each[offset - self.first_offset]

    def __repr__(self) -> str:
        return f"InFlightBatch({self.first_offset}-{self.last_offset}, {self.whole or self.each})"


class InFlight:
    """Batches that do not overlap, sorted. Most are added at the end and removed at the beginning."""

    __slots__ = ("_batches", "_firsts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._batches: list[InFlightBatch] = []

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    @property
    def first(self) -> InFlightBatch:
        return self._batches[0]

    @property
    def last(self) -> InFlightBatch:
        return self._batches[-1]

    def add(self, batch: InFlightBatch) -> None:
        place = bisect_left(self._firsts, batch.first_offset)
        self._firsts.insert(place, batch.first_offset)
        self._batches.insert(place, batch)

    def floor(self, offset: int) -> InFlightBatch | None:
        """The last batch that begins at or before `offset`."""
        place = bisect_right(self._firsts, offset)
        return self._batches[place - 1] if place else None

    def after(self, offset: int) -> InFlightBatch | None:
        """The first batch that begins after `offset`."""
        place = bisect_right(self._firsts, offset)
        return self._batches[place] if place < len(self._batches) else None

    def between(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """The batches that begin between the two, both included."""
        return self._batches[bisect_left(self._firsts, first_offset) : bisect_right(self._firsts, last_offset)]

    def remove_before(self, first_offset: int) -> None:
        """Remove the batches that begin before that one."""
        place = bisect_left(self._firsts, first_offset)
        del self._firsts[:place]
        del self._batches[:place]

    def clear(self) -> None:
        self._firsts.clear()
        self._batches.clear()

"""Ranges of offsets with their delivery state, and how newer ranges are laid over older ones.

A share partition tells the share coordinator only what has changed; `combine` makes one list of what was known and what
is new: sorted, without overlaps. Of two claims about an offset the one with more deliveries wins, and at the same count
the later state. Called by the shard when it replays and when it writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import NamedTuple


class StateBatch(NamedTuple):
    """Offsets `first_offset` to `last_offset`, both included, in one state. Sorts as Kafka sorts them."""

    first_offset: int
    last_offset: int
    delivery_count: int
    delivery_state: int
    """0 available, 2 acknowledged, 4 archived."""

    @property
    def rank(self) -> tuple[int, int]:
        """What wins over what: more deliveries, then the state that is further on."""
        return self.delivery_count, self.delivery_state


def combine(known: Iterable[StateBatch], new: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """All batches in one list from `start_offset` on; -1 keeps everything.

    The steps are Kafka's and not only the outcome for each offset: where neighbours that have become alike stay two
    batches there, they do here, because the records are compared byte by byte. A batch that ends before it begins
    covers nothing and is left out: laid over another it would take it apart, and have it put together, without end.
    """
    heap = [one for batches in (known, new) for one in batches if one.first_offset <= one.last_offset]
    if start_offset != -1:
        heap = [
            one if one.first_offset >= start_offset else one._replace(first_offset=start_offset)
            for one in heap
            if one.last_offset >= start_offset
        ]
    if len(heap) < 2:
        return tuple(heap)
    heapify(heap)
    done: list[StateBatch] = []
    while heap:
        earlier = heappop(heap)
        if not heap:
            done.append(earlier)
            break
        later = heap[0]
        touches = earlier.last_offset + 1 == later.first_offset and earlier.rank == later.rank
        if later.first_offset <= earlier.last_offset or touches:
            heappop(heap)
            for part in _merge(earlier, later):
                heappush(heap, part)
        else:
            done.append(earlier)
    return tuple(done)


def _merge(earlier: StateBatch, later: StateBatch) -> list[StateBatch]:
    """Two batches that overlap or touch, as one to three that do not; `earlier` sorts before `later`."""
    if earlier.rank == later.rank:
        return [earlier._replace(last_offset=max(earlier.last_offset, later.last_offset))]
    if later.rank < earlier.rank:
        if later.last_offset <= earlier.last_offset:
            return [earlier]
        return [earlier, later._replace(first_offset=earlier.last_offset + 1)]
    parts = [later]
    if earlier.first_offset < later.first_offset:
        parts.append(earlier._replace(last_offset=later.first_offset - 1))
    if earlier.last_offset > later.last_offset:
        parts.append(earlier._replace(first_offset=later.last_offset + 1))
    return parts

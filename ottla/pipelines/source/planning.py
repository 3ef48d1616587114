"""What the tasks of one query read: ranges of offsets, big ones split.

Promises: the ranges are disjoint, and together they are [start, end) of every partition, as Spark's own connector
divides it with `minPartitions` and `maxRecordsPerPartition`. Pure. Called by the readers, in the driver.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ottla.types import ZERO_UUID, Uuid


@dataclass(frozen=True, slots=True)
class Range:
    """[start, end) of one partition."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: Uuid = ZERO_UUID
    """The topic that the offsets are of, whatever is created under its name meanwhile; zero where it is not known."""

    @property
    def size(self) -> int:
        """How many offsets; records may be fewer, where a topic is compacted or transactions ended."""
        return self.end - self.start

    def is_of(self, topic_id: Uuid) -> bool:
        """Whether the offsets are those of this topic; true where one of the ids is not known."""
        return ZERO_UUID in (self.topic_id, topic_id) or self.topic_id == topic_id


def split(ranges: Iterable[Range], *, min_partitions: int | None = None, max_records: int | None = None) -> list[Range]:
    """The ranges without the empty ones, divided until none has more than `max_records` and there are about
    `min_partitions` of them."""
    chosen = [one for one in ranges if one.size > 0]
    if max_records is not None:
        chosen = [part for one in chosen for part in _divided(one, math.ceil(one.size / max_records))]
    if min_partitions is None or len(chosen) >= min_partitions:
        return chosen
    # Those too small to be split do not count in the others' shares, or there would be fewer than were asked for.
    total = sum(one.size for one in chosen)
    whole = [one for one in chosen if _share(one.size, total, min_partitions) == 1]
    rest = total - sum(one.size for one in whole)
    wanted = max(min_partitions - len(whole), 1)
    kept = {(one.topic, one.partition) for one in whole}
    return [
        part
        for one in chosen
        for part in _divided(one, 1 if (one.topic, one.partition) in kept else _share(one.size, rest, wanted))
    ]


def _share(size: int, total: int, count: int) -> int:
    return max(math.floor(size / total * count + 0.5), 1)


def _divided(one: Range, count: int) -> list[Range]:
    parts = []
    start = one.start
    for index in range(count):
        end = start + (one.end - start) // (count - index)
        if end > start:
            parts.append(replace(one, start=start, end=end))
        start = end
    return parts

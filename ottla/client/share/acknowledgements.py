"""What becomes of acquired records: accepted, released, rejected, renewed, or found not to exist (KIP-932).

`Acknowledgements` are those of one partition, written as the ranges that ShareFetch and ShareAcknowledge carry.
Promises: every offset is in one range; a range names one type for all its offsets, or one for each, whichever is
shorter; ranges come in the order of their offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

ONE_TYPE_MIN = 10
"""A run of one type that is longer than this gets a range of its own."""


class AcknowledgeType(IntEnum):
    """What a consumer says of a record."""

    ACCEPT = 1
    """It was worked through."""
    RELEASE = 2
    """It was not, and may be delivered again."""
    REJECT = 3
    """It was not, and is not to be delivered again."""
    RENEW = 4
    """It is still being worked on: the lock on it begins anew."""


GAP = 0
"""There is no record at this offset: a control record, or one that compaction took."""


class Range(NamedTuple):
    first_offset: int
    last_offset: int
    types: list[int]


class Acknowledgements:
    """Types by offset, of one partition."""

    __slots__ = ("types",)

    def __init__(self, types: dict[int, int] | None = None) -> None:
        self.types: dict[int, int] = {} if types is None else types

    def __bool__(self) -> bool:
        return bool(self.types)

    @property
    def has_renewals(self) -> bool:
        return AcknowledgeType.RENEW in self.types.values()

    def merge(self, later: Acknowledgements) -> None:
        """Add those of `later`, which win where both have an offset."""
        self.types.update(later.types)

    def ranges(self) -> list[Range]:
        """The same as ranges, as few as are worth it."""
        found: list[Range] = []
        for run in self._runs():
            last = found[-1] if found else None
            if last is None or last.last_offset + 1 != run.first_offset or _is_long(last) or _is_long(run):
                found.append(run)
            else:
                # Short runs side by side share one range that names a type for each offset.
                found[-1] = Range(last.first_offset, run.last_offset, _spread(last) + _spread(run))
        return found

    def _runs(self) -> Iterator[Range]:
        """Neighbours of one type, in order."""
        first = last = kind = None
        for offset in sorted(self.types):
            if last is not None and offset == last + 1 and self.types[offset] == kind:
                last = offset
                continue
            if first is not None and last is not None and kind is not None:
                yield Range(first, last, [kind])
            first = last = offset
            kind = self.types[offset]
        if first is not None and last is not None and kind is not None:
            yield Range(first, last, [kind])


def _is_long(run: Range) -> bool:
    return len(run.types) == 1 and run.last_offset - run.first_offset >= ONE_TYPE_MIN


def _spread(run: Range) -> list[int]:
    """One type for each offset."""
    if len(run.types) > 1:
        return run.types
    return run.types * (run.last_offset - run.first_offset + 1)

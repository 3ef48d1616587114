"""What a dump found out about the files together: index entries that do not fit the log, and gaps between offsets.

Kafka's tool prints these at the end, after all files, on the error stream; so does this one, with the files in the
order they were given. They are no failure: a compacted log has gaps, and every segment but the first begins with one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.cli.dump.row import HEADING, Row
from ottla.records.varint import to_int64


class Finding(NamedTuple):
    """A pair of numbers that do not belong together, and the words Kafka's tool has for it."""

    kind: str
    heading: str
    names: tuple[str, str]
    line: str
    is_sorted: bool = False
    """Whether the pairs are shown by their first number, the last one found for each."""
    is_reversed: bool = False


OFFSET_MISMATCH = Finding(
    "offsetMismatch",
    "Mismatches in :{}",
    ("indexOffset", "logOffset"),
    "  Index offset: {}, log offset: {}",
    is_sorted=True,
    is_reversed=True,
)
"""The offset index says that a batch ends at one offset, and it ends at another."""

TIMESTAMP_MISMATCH = Finding(
    "timestampMismatch",
    "Found timestamp mismatch in :{}",
    ("indexTimestamp", "logTimestamp"),
    "  Index timestamp: {}, log timestamp: {}",
)
"""The time index gives a batch another largest timestamp than the batch has."""

TIMESTAMP_DISORDER = Finding(
    "timestampDisorder",
    "Found out of order timestamp in :{}",
    ("indexTimestamp", "previousTimestamp"),
    "  Index timestamp: {}, Previously indexed timestamp: {}",
)
"""The time index has an entry that is not above the one before it."""

OFFSET_NOT_FOUND = Finding(
    "offsetNotFound",
    "The following indexed offsets are not found in :{}",
    ("indexOffset", "logOffset"),
    "Indexed offset: {}, found log offset: {}",
)
"""The time index names an offset at which no batch ends. The other number is where the next one ends, or -1."""

GAP = Finding(
    "gap",
    "Non-consecutive offsets in {}",
    ("offset", "nextOffset"),
    "  {} is followed by {}",
    is_sorted=True,
)
"""A record's offset does not follow the one before it."""

_IN_ORDER = (OFFSET_MISMATCH, TIMESTAMP_MISMATCH, TIMESTAMP_DISORDER, OFFSET_NOT_FOUND, GAP)


class Findings:
    """The findings of one run, by file; a file is known by its absolute path."""

    def __init__(self) -> None:
        # Numbers and not objects: a compacted segment may have millions of gaps.
        self._found: dict[Finding, dict[str, array[int]]] = {finding: {} for finding in _IN_ORDER}

    def add(self, finding: Finding, path: str, first: int, second: int) -> None:
        """Offsets of a damaged batch may lie beyond a long; they are kept as Java's arithmetic leaves them."""
        self._found[finding].setdefault(path, array("q")).extend((to_int64(first), to_int64(second)))

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Everything found, each with its file, in the order and the words of Kafka's tool."""
        for finding, files in self._found.items():
            first_name, second_name = finding.names
            for path, numbers in files.items():
                yield path, Row(HEADING, {}, finding.heading.format(path))
                for first, second in _ordered(finding, numbers):
                    fields = {first_name: first, second_name: second}
                    yield path, Row(finding.kind, fields, finding.line.format(first, second))


def _ordered(finding: Finding, numbers: array[int]) -> Iterable[tuple[int, int]]:
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    if not finding.is_sorted:
        return pairs
    firsts = numbers[::2]
    if not finding.is_reversed and all(map(int.__lt__, firsts, firsts[1:])):
        return pairs  # as good as always, and then nothing is copied
    return sorted(dict(pairs).items(), reverse=finding.is_reversed)

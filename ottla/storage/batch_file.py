"""Record batches in a file: walking over them by their headers, and finding one by offset or timestamp.

Promises: a walk reads the file in large pieces and holds one at a time; it ends quietly before a batch that the file
does not hold whole, and raises `CorruptMessage` at bytes that cannot be a batch. Nothing is checked that the caller
did not ask for: checksums are the caller's. Called by `segment`, the loader and the cleaner.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from ottla.errors import CorruptMessage
from ottla.records import HEADER_SIZE, LOG_OVERHEAD, Batch, batches
from ottla.world import File

CHUNK_SIZE = 1 << 20
WINDOW_SIZE = 8192

# base offset, length, (leader epoch, magic, crc, attributes,) last offset delta
_EXTENT = Struct(">qi11xi")


class FileSlice:
    """Bytes of a file that nobody has read yet: the network sends them from the page cache."""

    __slots__ = ("file", "position", "size")

    def __init__(self, file: File, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def read(self) -> bytes:
        return self.file.read_at(self.position, self.size)

    def __len__(self) -> int:
        return self.size


class BatchPlace(NamedTuple):
    """A batch's extent in offsets and in bytes."""

    base_offset: int
    last_offset: int
    position: int
    size: int


def file_batches(file: File, start: int, end: int) -> Iterator[tuple[int, Batch]]:
    """Every whole batch between two positions, with the position it has in the file."""
    position = start
    wanted = CHUNK_SIZE
    while position < end:
        chunk = file.read_at(position, min(wanted, end - position))
        used = 0
        for batch in batches(chunk):
            yield position + used, batch
            used += batch.size
        position += used
        if used:
            wanted = CHUNK_SIZE
            continue
        if len(chunk) < LOG_OVERHEAD:
            return
        size = LOG_OVERHEAD + int.from_bytes(chunk[8:LOG_OVERHEAD], "big", signed=True)
        if size <= len(chunk) or position + size > end:
            return  # the file ends inside this batch
        wanted = size


def find_batch(file: File, offset: int, start: int, end: int) -> BatchPlace | None:
    """The first batch from `start` on that ends at or above `offset`; None when there is none before `end`."""
    position = start
    while position + HEADER_SIZE <= end:
        window = file.read_at(position, min(WINDOW_SIZE, end - position))
        at = 0
        last = len(window) - _EXTENT.size
        while at <= last:
            base_offset, length, delta = _EXTENT.unpack_from(window, at)
            size = length + LOG_OVERHEAD
            if size < HEADER_SIZE:
                raise CorruptMessage(
                    f"Found a record batch of {size} bytes at position {position + at} of {file.path}; "
                    f"{HEADER_SIZE} is the least"
                )
            if position + at + size > end:
                return None
            if base_offset + delta >= offset:
                return BatchPlace(base_offset, base_offset + delta, position + at, size)
            at += size
        if at == 0:
            return None
        position += at
    return None

"""The batches of a log file, for someone who looks for damage: by their sizes alone, whatever else is wrong with them.

The log's own reader stops at anything it would not serve. Here a batch with a broken checksum or of an unknown format
is still a batch, because its size leads to the next one: Kafka's tool walks the same way.

Promises: the file is read in pieces, and a piece is larger than `CHUNK_SIZE` only where a batch is.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import TypeAlias

from ottla.cli.dump.legacy_batch import LegacyBatch
from ottla.errors import CorruptMessage
from ottla.records import HEADER_SIZE, LOG_OVERHEAD, MAGIC, Batch
from ottla.world import File

CHUNK_SIZE = 1 << 20

AnyBatch: TypeAlias = Batch | LegacyBatch

# Offset, size, (leader epoch or checksum,) magic: what the batches of all formats begin with.
_PREFIX = Struct(">qi4xb")
_LENGTH_MIN = 14
"""What the smallest batch of the oldest format gives as its size."""


class BatchWalk:
    """Finds batches by their positions in an open file."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._chunk = memoryview(b"")
        self._chunk_position = 0

    def batches(self, start: int, end: int) -> Iterator[tuple[int, AnyBatch]]:
        """Every batch from `start` on that lies whole before `end`, with its position. Raises as `batch_at` does."""
        position = start
        while (batch := self.batch_at(position, end)) is not None:
            yield position, batch
            position += batch.size

    def batch_at(self, position: int, end: int) -> AnyBatch | None:
        """The batch at `position`; None when it does not lie whole before `end`.

        `CorruptMessage` when the bytes there cannot be the beginning of a batch.
        """
        if end - position <= _PREFIX.size:
            return None
        buffer, at = self._bytes_at(position, _PREFIX.size)
        _, length, magic = _PREFIX.unpack_from(buffer, at)
        if length < _LENGTH_MIN:
            raise CorruptMessage(
                f"there is no batch at position {position}: its size would be {length}, and {_LENGTH_MIN} is the least"
            )
        size = LOG_OVERHEAD + length
        if position + size > end:
            return None
        if magic < MAGIC:
            buffer, at = self._bytes_at(position, size)
            return LegacyBatch(buffer[at : at + size])
        # A damaged size may be less than a header's; what is shown of the rest is then what follows in the file.
        buffer, at = self._bytes_at(position, max(size, HEADER_SIZE))
        if len(buffer) - at < HEADER_SIZE:
            raise CorruptMessage(f"the file ends inside the header of the batch at position {position}")
        return Batch(buffer, at)

    def _bytes_at(self, position: int, size: int) -> tuple[memoryview, int]:
        """A buffer that holds `size` bytes of the file from `position`, fewer at the file's end, and where in it."""
        at = position - self._chunk_position
        if at < 0 or at + size > len(self._chunk):
            self._chunk = memoryview(self._file.read_at(position, max(size, CHUNK_SIZE)))
            self._chunk_position = position
            at = 0
        return self._chunk, at

"""The latest offset of every key in the part of a log that is to be compacted: the cleaner's dedupe buffer.

Promises: it never takes more memory than it was given, and says when it is full; the log up to `end_offset` is in it
then, and the rest waits for the next run. A key of up to 15 bytes stands for itself. A longer one is kept as 16 bytes
of its BLAKE2b digest, which no two keys will ever share by chance and nobody can make two keys share on purpose;
Kafka keeps an MD5. Short keys and digests differ in length, so they cannot be taken for each other.
Filled and asked by `cleaner`, a batch at a time: the loops inside are C's.
"""

from __future__ import annotations

from collections.abc import Sequence

DIGEST_SIZE = 16

ENTRY_BYTES = 192
"""What an entry takes at worst: 64 bytes for the digest, 32 for the offset, and a dict that has just grown and still
holds its old table has 90 for each entry in it. Most of the time it is 130 to 160."""


class OffsetMap:
    """Up to `entries_max` keys, each with the offset it was last put at."""

    __slots__ = ("_offsets", "end_offset", "entries_max", "slots")

    def __init__(self, memory_bytes: int, load_factor: float = 1.0) -> None:
        """`load_factor` is the share of the memory that may be used."""
        self.slots = max(1, memory_bytes // ENTRY_BYTES)
        # One key at least, or compaction would never get on.
        self.entries_max = max(1, int(self.slots * min(load_factor, 1.0)))
        self._offsets: dict[bytes, int] = {}
        self.end_offset = 0
        """The offset after the last one that was taken into account."""

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def utilization(self) -> float:
        """How much of the memory is in use, from 0 to 1."""
        return len(self._offsets) / self.slots

    def put_all(self, keys: Sequence[bytes], offsets: Sequence[int]) -> bool:
        """Take over records in the order of the log; False when the map was full before all of them were in.

        `end_offset` then is where it stopped. Whether there is room is asked before each record, not whether its key
        is new, as Kafka does it: a full map ends the run even at a key that it knows.
        """
        room = self.entries_max - len(self._offsets)
        if len(keys) <= room:
            self._offsets.update(zip(_codes(keys), offsets, strict=True))
            if offsets:
                self.end_offset = offsets[-1] + 1
            return True
        for code, offset in zip(_codes(keys), offsets, strict=True):
            if len(self._offsets) >= self.entries_max:
                return False
            self._offsets[code] = offset
            self.end_offset = offset + 1
        return True

    def latest(self, keys: Sequence[bytes]) -> list[int]:
        """The latest offset of each of these keys; -1 for one that is not here."""
        get = self._offsets.get
        return [get(code, -1) for code in _codes(keys)]


def _codes(keys: Sequence[bytes]) -> list[bytes]:
    from hashlib import blake2b  # it loads OpenSSL, which a start has no use for

    return [key if len(key) < DIGEST_SIZE else blake2b(key).digest()[:DIGEST_SIZE] for key in keys]

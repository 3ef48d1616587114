"""CRC-32C (Castagnoli), the checksum of a record batch and of nothing else in Kafka's log.

One function in one place, so that the library behind it is one line. `fastcrc` reads any buffer without a copy:
0.3 µs for 100 bytes, about 10 GB/s on large ones.
"""

from __future__ import annotations

from typing import Protocol

from fastcrc.crc32 import iscsi

from ottla.types import Buffer


class _Checksum(Protocol):
    def __call__(self, data: Buffer, initial: int = 0, /) -> int: ...


crc32c: _Checksum = iscsi
"""The checksum of `data`, or of what had the checksum `initial` followed by `data`: an unsigned 32-bit number."""

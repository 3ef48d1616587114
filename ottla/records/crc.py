"""CRC-32C (Castagnoli), the checksum of a record batch and of nothing else in Kafka's log.

One function in one place, so that the library behind it is one line. `fastcrc` reads any buffer without a copy:
0.3 µs for 100 bytes, about 10 GB/s on large ones.
"""

from __future__ import annotations

from fastcrc.crc32 import iscsi as _iscsi

from ottla.types import Buffer


def crc32c(data: Buffer, initial: int = 0) -> int:
    """The checksum of `data`, or of what had the checksum `initial` followed by `data`: an unsigned 32-bit number."""
    checksum: int = _iscsi(data, initial)
    return checksum

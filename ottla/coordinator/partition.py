"""Which partition of a coordinator's topic a key belongs to: by Java's hash, so that every broker says the same."""

from __future__ import annotations

import struct


def coordinator_partition(key: str, partition_count: int) -> int:
    """The partition of an internal topic that a group, a transactional id or a share partition belongs to."""
    # Java's `abs` of the smallest int is taken as 0, as Kafka takes it.
    value = abs(java_hash(key))
    return (0 if value == 2**31 else value) % partition_count


def java_hash(text: str) -> int:
    """`String.hashCode`: a signed 32-bit number over the UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(units) // 2}H", units):
        value = (value * 31 + unit) & 0xFFFF_FFFF
    return value - 2**32 if value >= 2**31 else value

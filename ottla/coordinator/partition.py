"""Which partition of a coordinator's topic a key belongs to: by Java's hash, so that every broker says the same."""

from __future__ import annotations

import struct
from functools import lru_cache

CACHED_MAX = 8192
"""How many keys are remembered: each request of a group asks for its partition, and hashing costs a step a letter."""
LENGTH_MAX = 128
"""Of a key that is remembered: what clients make up must not fill the memory."""


def coordinator_partition(key: str, partition_count: int) -> int:
    """The partition of an internal topic that a group, a transactional id or a share partition belongs to."""
    return _remembered(key, partition_count) if len(key) <= LENGTH_MAX else _partition(key, partition_count)


def _partition(key: str, partition_count: int) -> int:
    # Java's `abs` of the smallest int is taken as 0, as Kafka takes it.
    value = abs(java_hash(key))
    return (0 if value == 2**31 else value) % partition_count


_remembered = lru_cache(CACHED_MAX)(_partition)


def java_hash(text: str) -> int:
    """`String.hashCode`: a signed 32-bit number over the UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(units) // 2}H", units):
        value = (value * 31 + unit) & 0xFFFF_FFFF
    return value - 2**32 if value >= 2**31 else value

"""Java's hash of a string: what Kafka chooses partitions of its internal topics by."""

from __future__ import annotations

import struct


def java_hash(text: str) -> int:
    """`String.hashCode`: a signed 32-bit number over the UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(units) // 2}H", units):
        value = (value * 31 + unit) & 0xFFFF_FFFF
    return value - 2**32 if value >= 2**31 else value

"""Kafka's unsigned variable-length integers: seven bits a byte, the lowest first, the top bit says that more follow.

Lengths, counts and tags of flexible versions; at most five bytes carry 32 bits. Called by the compiled codecs for
anything above one byte, and by framings.
"""

from __future__ import annotations

from ottla.types import Buffer
from ottla.wire.failures import Refused

__all__ = ["UVARINT_MAX", "Refused", "read_uvarint", "uvarint"]

UVARINT_MAX = 0xFFFF_FFFF


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """The unsigned value at `position`, and the position after it.

    `IndexError` when the data end inside it, `Refused` when it takes more than five bytes or 32 bits.
    """
    value = shift = 0
    while shift < 35:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > UVARINT_MAX:
                break
            return value, position
        shift += 7
    raise Refused("a varint is longer than 32 bits")


def uvarint(value: int) -> bytes:
    """The bytes of an unsigned value."""
    assert 0 <= value <= UVARINT_MAX, f"{value} does not fit in 32 bits"
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)

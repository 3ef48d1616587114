"""Kafka's variable-length integers inside records: zigzag, seven bits a byte, the lowest first.

Reading follows Kafka bit for bit: an int stops at its fifth byte and a long at its tenth, surplus high bits are
dropped, and a continuation bit on the last byte is refused. A read past the end raises `IndexError`; the callers,
`decode` and `encode`, know what that means.
"""

from __future__ import annotations

from ottla.errors import InvalidRecord

INT32_MASK = 0xFFFFFFFF
INT64_MASK = 0xFFFFFFFFFFFFFFFF


def read_unsigned_varint(data: bytes, position: int) -> tuple[int, int]:
    """The 32-bit number at `position`, and the position after it."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & INT32_MASK, position
    raise InvalidRecord("Varint is too long, the most significant bit in the 5th byte is set")


def read_unsigned_varlong(data: bytes, position: int) -> tuple[int, int]:
    """The 64-bit number at `position`, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & INT64_MASK, position
    raise InvalidRecord("Varlong is too long, most significant bit in the 10th byte is set")


def zigzag(value: int) -> int:
    """The signed number behind an unsigned one: 0, -1, 1, -2, ... for 0, 1, 2, 3, ..."""
    return (value >> 1) ^ -(value & 1)


def to_int64(value: int) -> int:
    """`value` as Java's `long` arithmetic leaves it: the lowest 64 bits, signed."""
    value &= INT64_MASK
    return value - (1 << 64) if value >> 63 else value


def encode_varint(value: int) -> bytes:
    """The bytes of a signed number of at most 64 bits (a varint and a varlong are written alike)."""
    if -_SMALL_COUNT <= value < _SMALL_COUNT:
        return _SMALL[value]
    return _encode(value)


def _encode(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    if 0x7F < value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# Lengths and deltas are mostly small. A number below zero finds its bytes from the end of the list, as indexes do.
_SMALL_COUNT = 256
_SMALL = [_encode(value) for value in (*range(_SMALL_COUNT), *range(-_SMALL_COUNT, 0))]

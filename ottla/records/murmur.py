"""Kafka's choice of a partition by key: murmur2, the hash that every client agrees on.

Two clients that hash alike keep a key's records in one partition, whoever wrote them; so this is bit for bit the hash
of Kafka's Java producer. The twins in plain Python of the same functions in csrc.
"""

from __future__ import annotations

import struct

from ottla.types import Buffer

_WORD = struct.Struct("<I")
_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(key: Buffer, /) -> int:
    """Kafka's hash of a key: a signed 32-bit number, as Java has it."""
    size = len(key)
    value = _SEED ^ size
    whole = size & ~3
    for (word,) in _WORD.iter_unpack(key[:whole]):
        word = word * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = (value * _MULTIPLIER & _MASK) ^ word
    if whole < size:
        value = (value ^ int.from_bytes(key[whole:], "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    value ^= value >> 15
    return value - (1 << 32) if value >> 31 else value


def partition_of(key: Buffer, partition_count: int, /) -> int:
    """The partition of a record with this key, where nobody asked for another."""
    if partition_count <= 0:
        raise ZeroDivisionError("a topic has at least one partition")
    return (murmur2(key) & 0x7FFFFFFF) % partition_count

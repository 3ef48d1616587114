"""Damaged versions of good bytes: every truncation, and mutations from a seed that a failure prints."""

from __future__ import annotations

import random
from collections.abc import Iterator


def truncations(data: bytes) -> Iterator[bytes]:
    """`data` cut at every place, the empty one first; `data` itself is not among them."""
    for size in range(len(data)):
        yield data[:size]


def mutations(data: bytes, *, seed: int, rounds: int) -> Iterator[bytes]:
    """`rounds` variants of `data` with a few bytes flipped, replaced, removed, repeated or inserted."""
    source = random.Random(seed)
    for _ in range(rounds):
        changed = bytearray(data)
        for _ in range(source.choice((1, 1, 1, 2, 5))):
            place = source.randrange(len(changed) + 1)
            match source.randrange(5):
                case 0 if place < len(changed):
                    changed[place] ^= 1 << source.randrange(8)
                case 1 if place < len(changed):
                    changed[place] = source.randrange(256)
                case 2:
                    del changed[place : place + source.randrange(1, 5)]
                case 3:
                    changed[place:place] = changed[place : place + source.randrange(1, 9)]
                case _:
                    changed[place:place] = source.randbytes(source.randrange(1, 5))
        yield bytes(changed)

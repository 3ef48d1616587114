"""`HashOrder`: keys in the order in which Java's `HashMap` and `HashSet` go through theirs.

Kafka's assignors decide by that order which member gives up a partition and which one gets it, and records list
topics and partitions in it. With the same order a group that moves between an Ottla broker and a Kafka broker keeps
the assignment it has, instead of being shuffled once at each move.

Promises: the order of a table that was filled and changed in the same steps. What is not modelled is a bucket of eight
or more keys, which Java keeps as a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from typing import Any, Generic, TypeVar

from ottla.coordinator.partition import java_hash
from ottla.types import Uuid

K = TypeVar("K")

DEFAULT_CAPACITY = 16


class HashOrder(Generic[K]):
    """A set of keys; `hash_of` is one of the hashes below, `capacity` what Java's constructor was given."""

    __slots__ = ("_capacity", "_front_count", "_hash_of", "_keys")

    def __init__(
        self, hash_of: Callable[[K], int], keys: Iterable[K] = (), *, capacity: int = DEFAULT_CAPACITY
    ) -> None:
        self._hash_of = hash_of
        self._capacity = table_size(capacity)
        self._keys: dict[K, int] = dict.fromkeys(keys, 0)
        """In the order in which they came; below 0 for those that went before the others in their bucket."""
        self._front_count = 0
        while len(self._keys) > self._capacity * 3 // 4:
            self._capacity *= 2

    @classmethod
    def copy_of(cls, hash_of: Callable[[K], int], keys: Iterable[K], size: int) -> HashOrder[K]:
        """`new HashSet<>(collection)` of a collection that says it has `size` keys."""
        return cls(hash_of, keys, capacity=max(size * 4 // 3 + 1, DEFAULT_CAPACITY))

    def add(self, key: K) -> None:
        """`put`, which adds behind the others in the bucket."""
        self._keys.setdefault(key, 0)
        if len(self._keys) > self._capacity * 3 // 4:
            self._capacity *= 2

    def add_if_absent(self, key: K) -> None:
        """`computeIfAbsent`, which adds before the others in the bucket, and grows before that and not after."""
        if len(self._keys) > self._capacity * 3 // 4:
            self._capacity *= 2
        if key not in self._keys:
            self._front_count += 1
            self._keys[key] = -self._front_count

    def discard(self, key: K) -> None:
        self._keys.pop(key, None)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[K]:
        """By bucket; within one bucket by place, which growing keeps, as sorting does."""
        mask, hash_of = self._capacity - 1, self._hash_of
        keys: Any = self._keys
        if self._front_count:
            return iter(sorted(keys, key=lambda key: (hash_of(key) & mask, keys[key])))
        if hash_of is int_hash and max(keys, default=0) <= 0xFFFF:
            return iter(sorted(keys, key=mask.__and__))  # partitions, of which there are most, sort at C's speed
        return iter(sorted(keys, key=lambda key: hash_of(key) & mask))


def table_size(capacity: int) -> int:
    """How many buckets Java makes when asked for room: the next power of two."""
    return 1 << max(capacity - 1, 0).bit_length()


def int_hash(value: int) -> int:
    return value ^ (value >> 16)


def uuid_hash(value: Uuid) -> int:
    folded = int.from_bytes(value[:8], "big") ^ int.from_bytes(value[8:], "big")
    mixed = (folded >> 32) ^ (folded & 0xFFFF_FFFF)
    return mixed ^ (mixed >> 16)


def text_hash(value: str) -> int:
    mixed = _text_hash_code(value) & 0xFFFF_FFFF
    return mixed ^ (mixed >> 16)


_text_hash_code = lru_cache(maxsize=8192)(java_hash)


def timeline_order(keys: Collection[str]) -> list[str]:
    """Keys in the order of Kafka's own tables, in which a coordinator has its members and their assignors.

    Those tables begin with two places and never shrink; this is the order of one that nothing was removed from. Keys of
    one place are in the order of their arrival.
    """
    size = 2
    while len(keys) * 3 > size * 4:
        size *= 2
    shift = 65 - size.bit_length()
    return sorted(keys, key=lambda key: (_text_hash_code(key) * _GOLDEN & 0xFFFF_FFFF_FFFF_FFFF) >> shift)


_GOLDEN = -7046029254386353131
"""Spreads hash codes over the upper bits (Knuth)."""


def partition_order(partitions: Iterable[int]) -> tuple[int, ...]:
    """Partitions as a `HashSet` made of this list has them."""
    listed = list(partitions)
    return tuple(HashOrder.copy_of(int_hash, listed, len(listed)))

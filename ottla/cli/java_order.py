"""The order in which Java's HashMap gives its entries back, where Kafka's tools print in it.

Scripts compare what a tool printed yesterday with what it prints today, and people look for the third setting; so the
order is kept. It follows from the hash codes of the keys and the order in which they were put in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.types import TopicPartition

T = TypeVar("T")

_MASK = 0xFFFF_FFFF
_CAPACITY_MIN = 16


def string_hash(text: str) -> int:
    """`String.hashCode`, as an unsigned number."""
    code = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(data), 2):
        code = (31 * code + (data[index] << 8 | data[index + 1])) & _MASK
    return code


def partition_hash(partition: TopicPartition) -> int:
    """`TopicPartition.hashCode`."""
    return (31 * (31 + partition.partition) + string_hash(partition.topic)) & _MASK


def map_order(keys: Iterable[T], hash_of: Callable[[T], int], capacity: int = _CAPACITY_MIN) -> list[T]:
    """The keys, which were put in one by one in this order, as a HashMap gives them back.

    `capacity` is what the map was made with. Bins of eight and more become trees, which keep the order as well.
    """
    put = list(dict.fromkeys(keys))
    while len(put) > capacity * 3 // 4:
        capacity *= 2
    return sorted(put, key=lambda key: _spread(hash_of(key)) & (capacity - 1))


def string_order(keys: Iterable[str]) -> list[str]:
    """Names that were put into a map of the default size."""
    return map_order(keys, string_hash)


def fitted_string_order(keys: Iterable[str]) -> list[str]:
    """Names that were put into a map that was made for that many."""
    names = list(keys)
    return map_order(names, string_hash, 1 << max(0, len(names) - 1).bit_length())


def _spread(code: int) -> int:
    return code ^ code >> 16

"""`PriorityQueue`: Java's binary heap, which decides who comes first among equals.

Kafka's assignor gives a task to the least loaded process, and among equally loaded ones to the one its queue yields. A
group that moves from a Kafka broker to this one, or back, must not be assigned anew because its next coordinator picks
another of equals. Called by `assignor`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class PriorityQueue(Generic[T]):
    """See the module. What is in the queue must keep its weight; take it out to change it."""

    __slots__ = ("_heap", "_weight")

    def __init__(self, items: Iterable[T], weight: Callable[[T], float]) -> None:
        self._weight = weight
        self._heap: list[T] = []
        for item in items:
            self.add(item)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, item: T) -> None:
        heap, weight = self._heap, self._weight
        at = len(heap)
        heap.append(item)
        mine = weight(item)
        while at:
            parent = (at - 1) // 2
            if mine >= weight(heap[parent]):
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = item

    def poll(self) -> T | None:
        """Take out the lightest; None when there is none."""
        heap, weight = self._heap, self._weight
        if not heap:
            return None
        first, last = heap[0], heap.pop()
        size = len(heap)
        if not size:
            return first
        at, mine = 0, weight(last)
        while (child := 2 * at + 1) < size:
            if child + 1 < size and weight(heap[child]) > weight(heap[child + 1]):
                child += 1
            if mine <= weight(heap[child]):
                break
            heap[at] = heap[child]
            at = child
        heap[at] = last
        return first

"""Requests that wait for partitions: for data, for the high watermark, for a log to begin later; or for their time.

A waiting request is one small object that hangs on its partitions; it costs a timer and no task. A partition that
changed is looked at once after everything that runs now has returned, however often it changed, so a burst of appends
wakes a reader once.

Promises: `on_done` is called exactly once, never from inside `park` or `touch`, unless the waiter was given up. Called
by the partition (which touches) and by the handlers (which park).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ottla.storage import OffsetMetadata
from ottla.world import Tasks, Timer

if TYPE_CHECKING:
    from ottla.replica.partition import Partition
    from ottla.storage import Isolation


class Watched(Protocol):
    """What a request can wait for: a partition, or the feed of a follower's session."""

    waiters: dict[Waiter, None]


class Waiter:
    """A request that waits. A subclass says in `look` whether a change of one of its partitions was enough."""

    __slots__ = ("_on_done", "_timer", "is_done", "partitions")

    def __init__(self, partitions: Sequence[Watched], on_done: Callable[[], None]) -> None:
        self.partitions = partitions
        self._on_done = on_done
        self._timer: Timer | None = None
        self.is_done = False

    def look(self, partition: Any) -> bool:
        """`partition` has changed: whether the waiting is over."""
        raise NotImplementedError

    def give_up(self) -> None:
        """Nobody is interested any more; `on_done` is not called."""
        self.is_done = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for partition in self.partitions:
            partition.waiters.pop(self, None)

    def finish(self) -> None:
        """The waiting is over: enough has happened, or time is up."""
        if not self.is_done:
            self.give_up()
            self._on_done()


class Waiters:
    """All waiting requests of a node."""

    __slots__ = ("_changed", "_tasks", "count")

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._changed: dict[Watched, None] = {}
        self.count = 0
        """How many requests have had to wait so far."""

    def park(self, waiter: Waiter, timeout_ms: float) -> None:
        """Let `waiter` wait until one of its partitions tells enough, at the longest for `timeout_ms`."""
        self.count += 1
        for partition in waiter.partitions:
            partition.waiters[waiter] = None
        waiter._timer = self._tasks.later(timeout_ms, waiter.finish)

    def touch(self, partition: Watched) -> None:
        """Something about `partition` changed that may end a wait."""
        changed = self._changed
        if not changed:
            self._tasks.soon(self._look)
        changed[partition] = None

    def _look(self) -> None:
        changed, self._changed = self._changed, {}
        for partition in changed:
            for waiter in list(partition.waiters):
                if not waiter.is_done and waiter.look(partition):
                    waiter.finish()


class DataWaiter(Waiter):
    """A fetch that waits for `bytes_min` bytes beyond where it has read to, in all its partitions together.

    `starts` are the places from which each partition will be read, and `available` what is there already, as the read
    that found too little told them.
    """

    __slots__ = ("_available", "_isolation", "_missing", "_starts")

    def __init__(
        self,
        partitions: Sequence[Partition],
        starts: Sequence[OffsetMetadata],
        on_done: Callable[[], None],
        *,
        available: Sequence[int],
        bytes_min: int,
        bytes_max: Sequence[int],
        isolation: Isolation,
    ) -> None:
        super().__init__(partitions, on_done)
        self._isolation = isolation
        self._starts = {
            partition: (start, most, partition.leader_epoch)
            for partition, start, most in zip(partitions, starts, bytes_max, strict=True)
        }
        self._available = dict(zip(partitions, available, strict=True))
        self._missing = bytes_min - sum(available)

    def look(self, partition: Partition) -> bool:
        start, bytes_max, leader_epoch = self._starts[partition]
        available = bytes_available(partition, start, bytes_max, leader_epoch, self._isolation)
        if available is None:
            return True
        self._missing -= available - self._available[partition]
        self._available[partition] = available
        return self._missing <= 0


def bytes_available(
    partition: Partition, start: OffsetMetadata, bytes_max: int, leader_epoch: int, isolation: Isolation
) -> int | None:
    """How much there is to read from `start` on; None where only a read can tell, or says what is wrong."""
    log = partition.log
    if not partition.is_serving or log is None or log.log_dir.is_offline or partition.leader_epoch != leader_epoch:
        return None
    end = log.visible_end(isolation)
    if start.offset > end.offset:
        return None  # truncated below what the reader has
    if start.offset == end.offset:
        return 0
    if start.segment_base_offset != end.segment_base_offset or start.is_offset_only:
        # A whole segment lies between them, or the place is not known.
        return None
    return min(end.position - start.position, bytes_max)


class OutcomeWaiter(Waiter):
    """A request that waits until `outcome` is known for each of its partitions: an error code, 0 for none.

    What is not known when time is up stays out of `outcomes`.
    """

    __slots__ = ("_outcome", "outcomes")

    def __init__(
        self,
        partitions: Sequence[Partition],
        outcome: Callable[[Partition], int | None],
        on_done: Callable[[], None],
    ) -> None:
        super().__init__(partitions, on_done)
        self._outcome = outcome
        self.outcomes: dict[Partition, int] = {}

    def look(self, partition: Partition) -> bool:
        if partition not in self.outcomes:
            known = self._outcome(partition)
            if known is not None:
                self.outcomes[partition] = known
        return len(self.outcomes) == len(self.partitions)

"""What a follower's fetch session has to look at: the partitions that changed since it was answered, and no others.

A session of thousands of partitions, most of them idle, would cost a look at each of them with every fetch. Instead a
partition whose follower is in sync and at the leader's end *rests*: it is not looked at, and the session's time of
fetching stands for the follower's (`FetchTime`), until the partition changes. Then it *wakes* in every session that it
rests in: the next fetch looks at it, and one that waits is told.

Promises: a partition rests only while a fetch of it would find nothing, tell nothing and change nothing. A session that
nobody uses any more costs each of its partitions one change at most. Called by `partition` (which wakes) and by the
fetch sessions of `server`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from ottla.replica.follower import FetchTime
from ottla.replica.waiters import Waiter, Waiters, bytes_available
from ottla.storage import Isolation, OffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.replica.partition import Partition
    from ottla.replica.takeover import AwaitedFollower


class Interest:
    """A session's interest in one partition. `partition` is what was found at the last look, None where it failed."""

    __slots__ = ("bytes_max", "feed", "leader_epoch", "log_start_offset", "partition", "start")

    def __init__(self) -> None:
        self.feed: FollowerFeed | None = None
        self.partition: Partition | None = None
        self.start: OffsetMetadata | None = None
        """Where the next read begins, as the last one found it."""
        self.leader_epoch = -1
        self.bytes_max = 0
        self.log_start_offset = -1
        """Where the fetcher was last told that the log begins."""

    def note_read(self, partition: Partition, start: OffsetMetadata, bytes_max: int) -> None:
        self.partition = partition
        self.start = start
        self.leader_epoch = partition.leader_epoch
        self.bytes_max = bytes_max

    def note_failure(self) -> None:
        self.partition = None


class FollowerFeed(FetchTime):
    """See the module. `awake` are the interests to look at, those that changed first come first."""

    __slots__ = ("_all_waiters", "awake", "broker_epoch", "replica_id", "waiters")

    def __init__(self, replica_id: int, broker_epoch: int, waiters: Waiters, now_ms: int) -> None:
        super().__init__(now_ms)
        self.replica_id = replica_id
        self.broker_epoch = broker_epoch
        self.awake: dict[Interest, None] = {}
        self.waiters: dict[Waiter, None] = {}
        """A fetch of the session that waits."""
        self._all_waiters = waiters

    def add(self, interest: Interest) -> None:
        """Look at it with the next fetch: it is new, or asked for anew."""
        interest.feed = self
        self._stir(interest)
        self.awake[interest] = None

    def remove(self, interest: Interest) -> None:
        """The session has the partition no more."""
        self._stir(interest)
        self.awake.pop(interest, None)

    def wake_all(self, interests: Iterable[Interest]) -> None:
        """Look at everything: what was true of the follower's last life need not be of this one."""
        for interest in interests:
            self.add(interest)

    def close(self, interests: Iterable[Interest]) -> None:
        """The session has ended."""
        for interest in interests:
            self.remove(interest)

    def postpone(self, interest: Interest) -> None:
        """Look at it after the others: it has had its turn."""
        if interest in self.awake:
            del self.awake[interest]
            self.awake[interest] = None

    def settle(self, interest: Interest, *, high_watermark: int, log_start_offset: int) -> None:
        """The follower was told of nothing but these bounds: let the partition rest if that is all there is."""
        partition = interest.partition
        if partition is None or interest not in self.awake:
            return
        log = partition.log
        if (
            log is not None
            and log.high_watermark == high_watermark
            and log.log_start_offset == log_start_offset
            and partition.leadership.is_settled(self.replica_id)
        ):
            del self.awake[interest]
            partition.resting[interest] = None
            partition.leadership.rest(self.replica_id, self)

    def review(self, interests: Iterable[Interest]) -> None:
        """Wake what rests although its log begins later by now: retention tells nobody."""
        for interest in interests:
            partition = interest.partition
            if partition is None or partition.log is None or interest in self.awake:
                continue
            if partition.log.log_start_offset != interest.log_start_offset:
                self.add(interest)

    def on_change(self, interest: Interest, partition: Partition) -> None:
        """A resting partition has changed; it has let go of the interest already."""
        partition.leadership.wake(self.replica_id, self)
        self.awake[interest] = None
        if self.waiters:
            self._all_waiters.touch(self)

    def _stir(self, interest: Interest) -> None:
        """Let it no longer rest, and the follower's lag be its own."""
        partition = interest.partition
        if partition is not None and interest in partition.resting:
            del partition.resting[interest]
            partition.leadership.wake(self.replica_id, self)


class FollowerWaiter(Waiter):
    """A follower's fetch that waits for `bytes_min` bytes in the partitions of its session that are awake, or until
    this node begins to lead something else that the follower is in sync with.

    A change of one partition costs a look at that one. When thousands of a session are awake, because their follower
    was restarted, thousands of them change at once.
    """

    __slots__ = ("_available", "_bytes_min", "_feed", "_follower", "_interests")

    def __init__(
        self, feed: FollowerFeed, follower: AwaitedFollower, on_done: Callable[[], None], *, bytes_min: int
    ) -> None:
        self._interests = {one.partition: one for one in feed.awake if one.partition is not None}
        super().__init__([feed, follower, *self._interests], on_done)
        self._feed = feed
        self._follower = follower
        self._bytes_min = bytes_min
        self._available: dict[Partition, int] = {}
        """What the last look at a partition found; empty until the first look, which is at all of them."""

    def look(self, partition: object) -> bool:
        if partition is self._follower:
            return True
        interest = self._interests.get(cast("Partition", partition)) if self._available else None
        return self._look_at([interest] if interest is not None else self._all())

    def _all(self) -> list[Interest]:
        """All that are awake, those too that have woken since: their next changes are heard of as well."""
        for one in self._feed.awake:
            if one.partition is not None and one.partition not in self._interests:
                self._interests[one.partition] = one
                one.partition.waiters[self] = None
        self.partitions = [self._feed, self._follower, *self._interests]
        return list(self._interests.values())

    def _look_at(self, interests: Iterable[Interest]) -> bool:
        for one in interests:
            if one.partition is None or one.start is None:
                continue  # it does not exist: no reason to answer, and none to wait
            available = bytes_available(one.partition, one.start, one.bytes_max, one.leader_epoch, Isolation.LOG_END)
            if available is None:
                return True
            self._bytes_min -= available - self._available.get(one.partition, 0)
            self._available[one.partition] = available
        return self._bytes_min <= 0

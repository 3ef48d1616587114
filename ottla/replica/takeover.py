"""The followers that a new leader waits for: their fetches are answered soon, until they ask for what it leads now.

A follower has one fetch under way with each leader, and the leader keeps it for `replica.fetch.wait.max.ms` (500 ms)
while there is nothing new. A partition that has changed hands can only be in the fetch after that one, and until then
nothing with acks=all is acknowledged. In Kafka that is the longest part of a change of leaders. So a new leader answers
what its in-sync followers have waiting at once, and keeps the next fetches short: the follower may learn of the new
leader a moment later than the leader itself.

Promises: a fetch is answered early only while its follower is in the ISR of a partition that it has not asked this
leader for, and for at most `HURRY_MS_MAX` after this node began to lead it. Called by `manager`, which leads, and by
the handler of Fetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.replica.follower import UNKNOWN_OFFSET
from ottla.replica.waiters import Waiter, Waiters
from ottla.world import Clock

if TYPE_CHECKING:
    from ottla.replica.partition import Partition

WAIT_MS = 10
"""How long the fetch of a follower waits that has not asked for everything yet."""
HURRY_MS_MAX = 1_000
"""How long that goes on: a broker that has not heard of its new leader by then is in trouble of another kind."""


class AwaitedFollower:
    """One broker that follows here; a fetch of its that waits hangs on it."""

    __slots__ = ("_awaited", "_clock", "_id", "_until_ms", "waiters")

    def __init__(self, replica_id: int, clock: Clock) -> None:
        self._id = replica_id
        self._clock = clock
        self._awaited: dict[Partition, int] = {}
        """The partitions that it may not have asked for, and the leader epochs in which this node leads them."""
        self._until_ms = 0
        self.waiters: dict[Waiter, None] = {}

    def expect(self, partition: Partition) -> None:
        self._awaited[partition] = partition.leader_epoch
        self._until_ms = self._clock.monotonic_ms() + HURRY_MS_MAX

    def wait_ms(self, asked_ms: int) -> int:
        """How long a fetch waits that asks to wait for so long."""
        return min(asked_ms, WAIT_MS) if self._awaited and self._is_awaited() else asked_ms

    def _is_awaited(self) -> bool:
        if self._clock.monotonic_ms() >= self._until_ms:
            self._awaited.clear()
        for partition, leader_epoch in list(self._awaited.items()):
            if partition.leader_epoch == leader_epoch and self._has_not_fetched(partition):
                return True
            del self._awaited[partition]
        return False

    def _has_not_fetched(self, partition: Partition) -> bool:
        follower = partition.followers.get(self._id)
        return follower is not None and self._id in partition.isr and follower.log_end_offset == UNKNOWN_OFFSET


class Takeover:
    """See the module."""

    def __init__(self, waiters: Waiters, clock: Clock) -> None:
        self._waiters = waiters
        self._clock = clock
        self._followers: dict[int, AwaitedFollower] = {}
        """By broker id: not more than there are brokers that have replicas of what this one leads."""

    def on_leading(self, partition: Partition) -> None:
        """This node has begun to lead the partition in a new epoch."""
        for replica_id in partition.isr:
            if replica_id in partition.followers:
                follower = self.of(replica_id)
                follower.expect(partition)
                if follower.waiters:
                    self._waiters.touch(follower)

    def of(self, replica_id: int) -> AwaitedFollower:
        found = self._followers.get(replica_id)
        if found is None:
            found = self._followers[replica_id] = AwaitedFollower(replica_id, self._clock)
        return found

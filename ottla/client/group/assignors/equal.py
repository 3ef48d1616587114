"""The sticky assignment of a group whose members all subscribe to the same topics: the usual case, and the quick one.

Every member gets the same number of partitions, or one more where they do not divide. Promises: a member keeps what it
owns up to that number; only what nobody may keep is shared out anew, round robin, within racks first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Set

from ottla.client.group.assignors.assignor import TopicRacks
from ottla.client.group.assignors.racks import RackMap
from ottla.types import TopicPartition


class EqualAssignment:
    """One assignment while it is made. `moving` are partitions that another member has and must give up first."""

    def __init__(
        self,
        topics: TopicRacks,
        racks: RackMap,
        owned: Mapping[str, list[TopicPartition]],
        claimed_twice: Set[TopicPartition],
    ) -> None:
        self._topics = topics
        self._racks = racks
        self._owned = owned
        self._claimed_twice = claimed_twice
        self._count = sum(map(len, topics.values()))
        self._quota, self._larger = divmod(self._count, len(owned))
        """What each member gets, and how many get one more."""
        self._larger_found = 0
        self._below: list[str] = []
        """Members that have less than the quota."""
        self._at_quota: deque[str] = deque()
        """Members that have the quota and may get one more."""
        self._revoked: dict[TopicPartition, str] = {}
        self._found: dict[str, list[TopicPartition]] = {member: [] for member in owned}
        self.moving: dict[TopicPartition, str] = {}

    def build(self) -> dict[str, list[TopicPartition]]:
        """The partitions of each member."""
        for member, owned in self._owned.items():
            self._keep(member, owned)
        kept = {partition for partitions in self._found.values() for partition in partitions}
        left = [
            partition
            for topic in sorted(self._topics)
            for index in range(len(self._topics[topic]))
            if (partition := TopicPartition(topic, index)) not in kept
        ]
        self._below.sort()
        self._at_quota = deque(sorted(self._at_quota))
        self._give_in_turn(self._give_near(self._racks.hardest_first(left)))
        sizes = [len(partitions) for partitions in self._found.values()]
        assert sum(sizes) == self._count, "each partition is given once"
        assert max(sizes) - min(sizes) <= 1, "no member has two more than another"
        return self._found

    def _keep(self, member: str, owned: list[TopicPartition]) -> None:
        """Let the member keep what it owns, as far as its share goes."""
        mine = []
        for partition in sorted(owned, key=lambda one: (one.partition, one.topic)):
            if self._racks.is_far(member, partition):
                self._revoked[partition] = member
            elif partition not in self._claimed_twice:
                mine.append(partition)
        share = min(len(mine), self._quota)
        if len(mine) < self._quota:
            self._below.append(member)
        elif len(mine) > self._quota and self._larger_found < self._larger:
            share = self._quota + 1
            self._larger_found += 1
            if self._larger_found == self._larger:
                self._at_quota.clear()
        elif self._larger_found < self._larger:
            self._at_quota.append(member)
        self._found[member].extend(mine[:share])
        for partition in mine[share:]:
            self._revoked[partition] = member

    def _give_near(self, left: list[TopicPartition]) -> list[TopicPartition]:
        """Give partitions to members in their racks; what is returned could not be."""
        if not self._racks.matter:
            return left
        rest = []
        turn = 0
        for partition in left:
            place = self._racks.next_near(partition, self._below, turn)
            if place >= 0:
                member = self._below[place]
                if len(self._found[member]) + 1 >= self._quota:
                    del self._below[place]
                    if self._larger_found < self._larger:
                        self._at_quota.append(member)
                else:
                    place += 1
                turn = place % len(self._below) if self._below else 0
                self._give(partition, member)
            elif (place := self._racks.next_near(partition, self._at_quota, 0)) >= 0:
                member = self._at_quota[place]
                del self._at_quota[place]
                self._larger_found += 1
                if self._larger_found == self._larger:
                    self._at_quota.clear()
                self._give(partition, member)
            else:
                rest.append(partition)
        return rest

    def _give_in_turn(self, left: list[TopicPartition]) -> None:
        """One partition to each member below the quota in turn; then one more to those that have it."""
        turn = 0
        for partition in left:
            if not self._below:
                self._give(partition, self._at_quota.popleft())
                continue
            turn = turn if turn < len(self._below) else 0
            member = self._below[turn]
            self._give(partition, member)
            if len(self._found[member]) == self._quota:
                del self._below[turn]
                self._at_quota.append(member)
            else:
                turn += 1

    def _give(self, partition: TopicPartition, member: str) -> None:
        self._found[member].append(partition)
        if self._revoked.get(partition, member) != member or partition in self._claimed_twice:
            self.moving[partition] = member

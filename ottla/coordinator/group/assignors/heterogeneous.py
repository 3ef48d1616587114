"""The uniform assignor where members are subscribed to different topics.

Members keep what they should own of the topics they are still subscribed to. Free partitions go to the topic's
subscriber that has the fewest, topics with the most partitions per subscriber first. Then, topic by topic and again
until nothing improves, partitions move from the subscribers that have most to those that have fewest. The result is as
balanced as the subscriptions allow in all but contrived cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.coordinator.group.assignors.builder import AssignmentBuilder
from ottla.coordinator.group.assignors.spec import Assignment, GroupSpec
from ottla.types import Uuid

ROUNDS_MAX = 16
NOBODY = -1


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    return _Assignment(spec).build()


class _Assignment:
    """One run. Members are known by their place in the group's order."""

    def __init__(self, spec: GroupSpec) -> None:
        self.member_ids = list(spec.members)
        self.builders = [AssignmentBuilder(member.assignment) for member in spec.members.values()]
        self.loads = [0] * len(self.member_ids)
        """How many partitions each member has."""
        self.subscribers: dict[Uuid, list[int]] = {}
        for index, member in enumerate(spec.members.values()):
            for topic_id in member.topic_ids:
                self.subscribers.setdefault(topic_id, []).append(index)
        self.owners = {topic_id: [NOBODY] * spec.partition_count(topic_id) for topic_id in self.subscribers}
        self._keep(spec)

    def build(self) -> dict[str, Assignment]:
        if not self.subscribers:
            return {}
        self._assign_free()
        self._balance()
        return {member_id: one.build() for member_id, one in zip(self.member_ids, self.builders, strict=True)}

    def _keep(self, spec: GroupSpec) -> None:
        for index, member in enumerate(spec.members.values()):
            subscribed = set(member.topic_ids)
            for topic_id, partitions in member.assignment.items():
                if topic_id not in subscribed:
                    self.builders[index].remove_topic(topic_id)
                    continue
                self.loads[index] += len(partitions)
                for partition in partitions:
                    self.owners[topic_id][partition] = index

    def _assign_free(self) -> None:
        free = {
            topic_id: partitions
            for topic_id, owners in self.owners.items()
            if (partitions := [partition for partition, owner in enumerate(owners) if owner == NOBODY])
        }
        for topic_id in self._by_load(free):
            ranking = _Ranking(self.subscribers[topic_id], self.loads)
            for partition in free[topic_id]:
                self._give(topic_id, partition, ranking.next_least_loaded())

    def _balance(self) -> None:
        """Go round the topics that can change, until one whole round has changed nothing."""
        topics = self._by_load(topic_id for topic_id, members in self.subscribers.items() if len(members) > 1)
        last_changed = -1
        for _ in range(ROUNDS_MAX):
            for index, topic_id in enumerate(topics):
                if index == last_changed:
                    return
                if self._balance_topic(topic_id) or last_changed == -1:
                    last_changed = index

    def _balance_topic(self, topic_id: Uuid) -> bool:
        """Move partitions of one topic from its most to its least loaded subscribers; returns whether any moved."""
        ranking = _Ranking(self.subscribers[topic_id], self.loads)
        if ranking.imbalance <= 1:
            return False
        owners = self.owners[topic_id]
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        has_moved = False
        while not ranking.is_balanced():
            giver = ranking.next_most_loaded()
            while giver is not None and not owned.get(giver):
                ranking.exclude_most_loaded()
                giver = ranking.next_most_loaded()
            if giver is None:
                break
            partition = owned[giver].pop()
            taker = ranking.next_least_loaded()
            if ranking.is_balanced():
                break
            self._give(topic_id, partition, taker)
            has_moved = True
        return has_moved

    def _give(self, topic_id: Uuid, partition: int, member: int) -> None:
        owners = self.owners[topic_id]
        before = owners[partition]
        if before != NOBODY:
            self.builders[before].remove(topic_id, partition)
            self.loads[before] -= 1
        subscriber_count = len(self.subscribers[topic_id])
        per_subscriber = (len(owners) + subscriber_count - 1) // subscriber_count
        self.builders[member].add(topic_id, partition, capacity=int(per_subscriber / 0.75 + 1))
        owners[partition] = member
        self.loads[member] += 1

    def _by_load(self, topic_ids: Iterable[Uuid]) -> list[Uuid]:
        """Most partitions per subscriber first, then fewest subscribers, then by id as Java compares ids."""

        def rank(topic_id: Uuid) -> tuple[float, int, int, int]:
            count = len(self.subscribers[topic_id])
            high, low = (int.from_bytes(topic_id[at : at + 8], "big", signed=True) for at in (0, 8))
            return -len(self.owners[topic_id]) / count, count, high, low

        return sorted(topic_ids, key=rank)


class _Ranking:
    """The subscribers of a topic from the least to the most loaded, as partitions go from one end to the other.

    At either end is a range of members with the same load. Each member of a range has its turn before the range's load
    changes by one and takes in the members it now meets. `loads` is changed by the caller meanwhile, one partition for
    each turn.
    """

    __slots__ = ("_high_end", "_high_load", "_high_next", "_high_start", "_loads", "_low_end", "_low_load", "_low_next",
                 "_sorted", "imbalance")  # fmt: skip

    def __init__(self, members: Sequence[int], loads: list[int]) -> None:
        self._loads = loads
        self._sorted = sorted(members, key=lambda member: (loads[member], member))
        lowest, highest = loads[self._sorted[0]], loads[self._sorted[-1]]
        self.imbalance = highest - lowest
        self._low_end = self._low_next = 0
        self._low_load = lowest - 1
        self._high_start = self._high_end = len(self._sorted)
        self._high_next = len(self._sorted) - 1
        self._high_load = highest + 1

    def is_balanced(self) -> bool:
        return self._high_load - self._low_load <= 1

    def next_least_loaded(self) -> int:
        """The member that gets a partition now."""
        if self._low_next >= self._low_end:
            self._low_load += 1
            while self._low_end < len(self._sorted) and self._loads[self._sorted[self._low_end]] == self._low_load:
                self._low_end += 1
            self._low_next = 0
        self._low_next += 1
        return self._sorted[self._low_next - 1]

    def next_most_loaded(self) -> int | None:
        """The member that gives up a partition now; None when nobody is left who can."""
        if self._high_next < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                # Everyone in the range was excluded: begin a new one below it, at whatever load is met there.
                self._high_load = self._loads[self._sorted[self._high_start - 1]]
            else:
                self._high_load -= 1
            while self._high_start > 0 and self._loads[self._sorted[self._high_start - 1]] == self._high_load:
                self._high_start -= 1
            self._high_next = self._high_end - 1
        if self._high_next < 0:
            return None
        self._high_next -= 1
        return self._sorted[self._high_next + 1]

    def exclude_most_loaded(self) -> None:
        """The member named last has nothing to give: out of the range with it."""
        at, end = self._high_next + 1, self._high_end - 1
        self._sorted[at], self._sorted[end] = self._sorted[end], self._sorted[at]
        self._high_end -= 1

"""The sticky assignment of a group whose members subscribe to different topics.

What members own stays with them; what nobody has goes, hardest to place first, to the subscriber that has least; then
partitions move one at a time from a member with more to one with at least two less, until none can. The result is kept
only if it is more even than before. Promises: no two members swap partitions of a topic for nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.group.assignors.assignor import NO_GENERATION, Subscription, TopicRacks
from ottla.client.group.assignors.racks import RackMap
from ottla.types import TopicPartition


class MemberData(NamedTuple):
    """What a member says it owns, and since which generation; None when it did not say."""

    partitions: list[TopicPartition]
    generation: int | None


class GeneralAssignment:
    """One assignment while it is made."""

    def __init__(
        self,
        topics: TopicRacks,
        racks: RackMap,
        owned: Mapping[str, list[TopicPartition]],
        subscriptions: Mapping[str, Subscription],
        previous: Mapping[str, MemberData],
    ) -> None:
        self._topics = topics
        self._racks = racks
        self._wanted = {member: topics.keys() & set(one.topics) for member, one in subscriptions.items()}
        self._subscribers: dict[str, list[str]] = {topic: [] for topic in topics}
        for member, one in subscriptions.items():
            for topic in one.topics:
                if topic in topics:
                    self._subscribers[topic].append(member)
        self._most = {member: sum(len(topics[topic]) for topic in wanted) for member, wanted in self._wanted.items()}
        self._previous = self._last_owners(previous)
        self._found: dict[str, dict[TopicPartition, None]] = {member: dict.fromkeys(owned[member]) for member in owned}
        self._owner = {partition: member for member, partitions in owned.items() for partition in partitions}
        self._order: list[tuple[int, str]] = []
        """Members that may still change, by how much they have."""
        self._is_even: bool | None = None
        """What `_is_balanced` found, until something moves."""
        self._movements = Movements()
        self._must_revoke = False

    def build(self) -> dict[str, list[TopicPartition]]:
        """The partitions of each member."""
        self._drop_what_cannot_stay()
        # Topics with few subscribers first: their partitions have the least choice.
        order = sorted(self._topics, key=lambda topic: (len(self._subscribers[topic]), topic))
        every = [TopicPartition(topic, index) for topic in order for index in range(len(self._topics[topic]))]
        left = [partition for partition in every if partition not in self._owner]
        self._order = sorted((len(partitions), member) for member, partitions in self._found.items())
        self._balance(every, left)
        return {member: list(partitions) for member, partitions in self._found.items()}

    def _last_owners(self, previous: Mapping[str, MemberData]) -> dict[TopicPartition, str]:
        """Who had a partition in an older generation: where it may go back to."""
        generations = {
            member: NO_GENERATION if data.generation is None else data.generation for member, data in previous.items()
        }
        latest = max(generations.values())
        found: dict[TopicPartition, tuple[int, str]] = {}
        for member, generation in generations.items():
            if generation == latest:
                continue
            for partition in previous[member].partitions:
                # Kafka does not look whether the member still subscribes to it; then it could get what it cannot read.
                is_newer = partition not in found or generation > found[partition][0]
                if is_newer and partition.topic in self._wanted[member]:
                    found[partition] = (generation, member)
        return {partition: member for partition, (_, member) in found.items()}

    def _drop_what_cannot_stay(self) -> None:
        for member, partitions in self._found.items():
            for partition in list(partitions):
                if partition.topic not in self._wanted[member] or self._racks.is_far(member, partition):
                    del partitions[partition]
                    del self._owner[partition]
                    self._must_revoke = True

    def _balance(self, every: list[TopicPartition], left: list[TopicPartition]) -> None:
        is_new = self._order[-1][0] == 0
        waiting = left
        if self._racks.matter:
            waiting = [partition for partition in waiting if not self._give(partition, near=True)]
        for partition in waiting:
            self._give(partition, near=False)

        # What only one member can have stays where it is, and so does a member that could only have that.
        movable = [partition for partition in every if len(self._subscribers[partition.topic]) > 1]
        fixed = [member for member in self._found if not self._can_change(member)]
        for member in fixed:
            self._order.remove((len(self._found[member]), member))
        before = {member: dict(self._found[member]) for _, member in self._order}
        score_before = _unevenness([count for count, _ in self._order])

        if not self._must_revoke:
            # New partitions alone may be enough, and moving them disturbs nobody.
            new = set(left)
            self._move([partition for partition in movable if partition in new])
        moved = self._move(movable)
        if moved and not is_new and _unevenness([count for count, _ in self._order]) >= score_before:
            self._found.update(before)

    def _can_change(self, member: str) -> bool:
        partitions = self._found[member]
        return len(partitions) < self._most[member] or any(len(self._subscribers[one.topic]) > 1 for one in partitions)

    def _give(self, partition: TopicPartition, *, near: bool) -> bool:
        """Give the partition to the subscriber that has least, with `near` to one that is not far from it."""
        for place, (count, member) in enumerate(self._order):
            if partition.topic in self._wanted[member] and not (near and self._racks.is_far(member, partition)):
                del self._order[place]
                self._found[member][partition] = None
                self._owner[partition] = member
                insort(self._order, (count + 1, member))
                return True
        return False

    def _is_balanced(self) -> bool:
        """Whether no member could take a partition from one that has at least two more."""
        if self._is_even is None:
            self._is_even = self._look_for_balance()
        return self._is_even

    def _look_for_balance(self) -> bool:
        if self._order[0][0] >= self._order[-1][0] - 1:
            return True
        largest: dict[str, int] = {}
        for count, member in self._order:
            # In ascending order, so the last owner written is the one with most.
            for partition in self._found[member]:
                largest[partition.topic] = count
        return not any(
            count + 1 < largest.get(topic, 0)
            for count, member in self._order
            if count != self._most[member]
            for topic in self._wanted[member]
        )

    def _move(self, partitions: list[TopicPartition]) -> bool:
        """Move partitions towards balance, again and again while it helps; whether any moved."""
        has_moved = False
        modified = True
        while modified:
            modified = False
            for partition in partitions:
                if self._is_balanced():
                    break
                if self._move_one(partition):
                    modified = has_moved = True
        return has_moved

    def _move_one(self, partition: TopicPartition) -> bool:
        count = len(self._found[self._owner[partition]])
        last = self._previous.get(partition)
        if last is not None and count > len(self._found[last]) + 1:
            self._reassign(partition, last)
            return True
        if not any(count > len(self._found[other]) + 1 for other in self._subscribers[partition.topic]):
            return False
        self._reassign(partition, next(one for _, one in self._order if partition.topic in self._wanted[one]))
        return True

    def _reassign(self, partition: TopicPartition, member: str) -> None:
        self._is_even = None
        # A move that would undo another of the same topic takes that one back instead.
        partition = self._movements.actual(partition, self._owner[partition], member)
        old = self._owner[partition]
        self._movements.moved(partition, old, member)
        for one, change in ((old, -1), (member, 1)):
            count = len(self._found[one])
            del self._order[bisect_left(self._order, (count, one))]
            insort(self._order, (count + change, one))
        del self._found[old][partition]
        self._found[member][partition] = None
        self._owner[partition] = member


class Movements:
    """What moved from whom to whom within an assignment, so that two members do not swap partitions of one topic."""

    def __init__(self) -> None:
        self._pairs: dict[TopicPartition, tuple[str, str]] = {}
        self._by_topic: dict[str, dict[tuple[str, str], dict[TopicPartition, None]]] = {}

    def actual(self, partition: TopicPartition, old: str, new: str) -> TopicPartition:
        """The partition to move instead of this one: one of the topic that had come the other way, if there is one."""
        if partition in self._pairs:
            old = self._pairs[partition][0]
        came = self._by_topic.get(partition.topic, {}).get((new, old))
        return min(came) if came else partition

    def moved(self, partition: TopicPartition, old: str, new: str) -> None:
        """Remember the move; one that ends where the partition came from is no move at all."""
        pair = self._pairs.pop(partition, None)
        if pair is not None:
            of_topic = self._by_topic[partition.topic]
            del of_topic[pair][partition]
            if not of_topic[pair]:
                del of_topic[pair]
            assert pair[1] == old, "it moves from where it was moved to"
            if pair[0] == new:
                return
            old = pair[0]
        self._pairs[partition] = (old, new)
        self._by_topic.setdefault(partition.topic, {}).setdefault((old, new), {})[partition] = None


def _unevenness(counts: list[int]) -> int:
    """The sum of the differences between any two; the counts are sorted."""
    total = passed = 0
    for place, count in enumerate(counts):
        total += count * place - passed
        passed += count
    return total

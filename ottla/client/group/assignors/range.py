"""The range assignor: each topic's partitions in ranges, one for each subscriber, the first ones one larger.

Topics with as many partitions and the same subscribers are cut alike, so a member gets the same indexes of each:
what joins topics relies on it. Racks come first where they matter (KIP-881): a partition goes to a member in a rack of
its replicas as long as that member's share has room, and co-partitioned topics move together or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ottla.client.group.assignors.assignor import (
    PartitionAssignor,
    Racks,
    Subscription,
    TopicRacks,
    racks_matter,
    static_first,
)
from ottla.types import TopicPartition


class RangeAssignor(PartitionAssignor):
    """Ranges of each topic, the same indexes of topics that are cut alike."""

    name = "range"

    def assign_partitions(
        self, topics: TopicRacks, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, list[TopicPartition]]:
        found: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        subscribers: dict[str, list[str]] = {topic: [] for topic in topics}
        for member in static_first(subscriptions, subscriptions):
            for topic in subscribers.keys() & set(subscriptions[member].topics):
                subscribers[topic].append(member)
        shares = [_TopicShare(topic, racks, subscribers[topic], subscriptions) for topic, racks in topics.items()]
        with_racks = any(share.racks_matter for share in shares)
        if with_racks:
            _match_racks(shares, found)
        for share in shares:
            _give_ranges(share, found, lambda member, partition: True)
        if with_racks:
            for partitions in found.values():
                partitions.sort()
        return found


class _TopicShare:
    """One topic while it is shared out: what is left, and how much each member may still get."""

    def __init__(
        self,
        topic: str,
        racks: Sequence[Racks],
        members: list[str],
        subscriptions: Mapping[str, Subscription],
    ) -> None:
        self.topic = topic
        self.members = members
        self.racks = racks
        self.member_racks = {member: rack for member in members if (rack := subscriptions[member].rack_id)}
        self.racks_matter = racks_matter(set(self.member_racks.values()), racks)
        self.left = dict.fromkeys(range(len(racks)))
        self._given = dict.fromkeys(members, 0)
        self._each, self._larger_left = divmod(len(racks), len(members))

    def room(self, member: str) -> int:
        """How many partitions the member may still get; one more than the others while larger shares are left."""
        return max(0, self._each + (self._larger_left > 0) - self._given[member])

    def in_rack(self, member: str, partition: int) -> bool:
        """Whether the member has a replica near; one without a rack is near everywhere."""
        rack = self.member_racks.get(member)
        return rack is None or rack in self.racks[partition]

    def give(self, member: str, partitions: Sequence[int], found: dict[str, list[TopicPartition]]) -> None:
        found[member].extend(TopicPartition(self.topic, partition) for partition in partitions)
        self._given[member] += len(partitions)
        if self._given[member] > self._each:
            self._larger_left -= 1
        for partition in partitions:
            del self.left[partition]


def _give_ranges(
    share: _TopicShare, found: dict[str, list[TopicPartition]], may_have: Callable[[str, int], bool]
) -> None:
    for member in share.members:
        if not share.left:
            return
        room = share.room(member)
        chosen = [partition for partition in share.left if may_have(member, partition)][:room]
        if chosen:
            share.give(member, chosen, found)


def _match_racks(shares: list[_TopicShare], found: dict[str, list[TopicPartition]]) -> None:
    """Give what can be given within racks; topics that are cut alike are looked at together."""
    alike: dict[tuple[tuple[str, ...], int], list[_TopicShare]] = {}
    for share in shares:
        # Kafka counts the partitions whose racks it looked up, and it looks them up only where a member has a rack.
        counted = len(share.racks) if share.member_racks else 0
        alike.setdefault((tuple(share.members), counted), []).append(share)
    for (members, partition_count), group in alike.items():
        if len(group) > 1:
            _match_racks_together(list(members), partition_count, group, found)
        elif group[0].racks_matter:
            _give_ranges(group[0], found, group[0].in_rack)


def _match_racks_together(
    members: list[str], partition_count: int, shares: list[_TopicShare], found: dict[str, list[TopicPartition]]
) -> None:
    for partition in range(partition_count):
        for member in members:
            if all(share.in_rack(member, partition) and share.room(member) > 0 for share in shares):
                for share in shares:
                    share.give(member, [partition], found)
                if not any(share.room(member) > 0 for share in shares):
                    members.remove(member)
                break
        if not members:
            return

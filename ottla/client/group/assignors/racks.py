"""The racks of one assignment, as the sticky assignors ask for them (KIP-881)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ottla.client.group.assignors.assignor import Racks, Subscription, TopicRacks, racks_matter
from ottla.types import TopicPartition


class RackMap:
    """Who is near which partition. Where racks do not matter everybody is near everything."""

    def __init__(self, topics: TopicRacks, subscriptions: Mapping[str, Subscription]) -> None:
        consumers = {member: rack for member, one in subscriptions.items() if (rack := one.rack_id)}
        partitions: dict[TopicPartition, Racks] = {}
        if consumers:
            partitions = {
                TopicPartition(topic, index): racks
                for topic, of_topic in topics.items()
                for index, racks in enumerate(of_topic)
            }
        in_rack = Counter(consumers.values())
        # Kept even where racks do not matter: Kafka orders partitions by it whenever a member has a rack.
        self._consumers_near = {one: sum(in_rack[rack] for rack in racks) for one, racks in partitions.items()}
        matter = racks_matter(in_rack.keys(), partitions.values())
        self.consumers: dict[str, str] = consumers if matter else {}
        self._partitions: dict[TopicPartition, Racks] = partitions if matter else {}

    @property
    def matter(self) -> bool:
        return bool(self.consumers)

    def is_far(self, member: str, partition: TopicPartition) -> bool:
        """Whether the member has a rack and the partition no replica in it."""
        rack = self.consumers.get(member)
        return rack is not None and rack not in self._partitions.get(partition, ())

    def is_near(self, member: str, partition: TopicPartition) -> bool:
        """Whether the member has a rack and the partition a replica in it."""
        rack = self.consumers.get(member)
        return rack is not None and rack in self._partitions.get(partition, ())

    def hardest_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """The partitions that few members are near before those that many are; otherwise in their order."""
        if not self._consumers_near:
            return partitions
        return sorted(partitions, key=lambda partition: self._consumers_near.get(partition, 0))

    def next_near(self, partition: TopicPartition, members: Sequence[str], first: int) -> int:
        """The place of the next member, from `first` on and around, that is near the partition; -1 when none is."""
        count = len(members)
        for step in range(count):
            place = (first + step) % count
            if self.is_near(members[place], partition):
                return place
        return -1

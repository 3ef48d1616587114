"""`AssignmentBuilder`: a member's assignment while an assignor changes it. One that is not changed stays as it is."""

from __future__ import annotations

from ottla.coordinator.group.assignors.hash_order import DEFAULT_CAPACITY, HashOrder, int_hash, uuid_hash
from ottla.coordinator.group.assignors.spec import Assignment
from ottla.types import Uuid


class AssignmentBuilder:
    """See the module. The tables are made when Kafka makes its copies, because their order follows from that."""

    __slots__ = ("_given", "_order", "_partitions")

    def __init__(self, given: Assignment) -> None:
        self._given = given
        self._order: HashOrder[Uuid] | None = None
        self._partitions: dict[Uuid, HashOrder[int]] = {}

    def touch(self) -> HashOrder[Uuid]:
        """Have a copy that can be changed."""
        if self._order is None:
            self._order = HashOrder(uuid_hash, self._given, capacity=len(self._given))
            self._partitions = {
                topic_id: HashOrder.copy_of(int_hash, partitions, len(partitions))
                for topic_id, partitions in self._given.items()
            }
        return self._order

    def add(self, topic_id: Uuid, partition: int, *, capacity: int = DEFAULT_CAPACITY) -> None:
        """`capacity` is the room made for the topic's partitions, if this is the first."""
        self.touch().add_if_absent(topic_id)
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            partitions = self._partitions[topic_id] = HashOrder(int_hash, capacity=capacity)
        partitions.add(partition)

    def remove(self, topic_id: Uuid, partition: int) -> None:
        self.touch()
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            return
        partitions.discard(partition)
        if not partitions:
            self.remove_topic(topic_id)

    def remove_topic(self, topic_id: Uuid) -> None:
        self.touch().discard(topic_id)
        self._partitions.pop(topic_id, None)

    def build(self) -> Assignment:
        if self._order is None:
            return self._given
        return {topic_id: tuple(self._partitions[topic_id]) for topic_id in self._order}

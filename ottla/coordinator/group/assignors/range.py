"""The range assignor: of every topic, each member gets consecutive partitions, and the first members one more.

Members are ordered by instance id, then by member id, so that members that are subscribed to the same topics own the
same partitions of each: what joins need. It does not look at who owns what so far, and racks play no part, as in
Kafka 4.3.
"""

from __future__ import annotations

from ottla.coordinator.group.assignors.hash_order import HashOrder, uuid_hash
from ottla.coordinator.group.assignors.spec import Assignment, GroupSpec, MemberSpec
from ottla.types import Uuid


class _Topic:
    """A topic that is dealt out: so many partitions, to so many members."""

    __slots__ = ("extra", "next", "partition_count", "quota")

    def __init__(self, partition_count: int, member_count: int) -> None:
        self.partition_count = partition_count
        self.quota, self.extra = divmod(partition_count, member_count)
        self.next = 0

    def deal(self) -> range:
        start = self.next
        end = start + self.quota
        if self.extra > 0:
            self.extra -= 1
            end += 1
        self.next = min(end, self.partition_count)
        return range(start, self.next)


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    """Deal each topic out to its subscribers."""
    subscriber_counts: dict[Uuid, int] = {}
    for member in spec.members.values():
        for topic_id in member.topic_ids:
            subscriber_counts[topic_id] = subscriber_counts.get(topic_id, 0) + 1
    topics = {topic: _Topic(spec.partition_count(topic), count) for topic, count in subscriber_counts.items()}
    assigned: dict[str, Assignment] = {}
    for member_id, member in sorted(spec.members.items(), key=_rank):
        dealt = {topic_id: tuple(topics[topic_id].deal()) for topic_id in member.topic_ids}
        capacity = int((len(topics) if spec.is_homogeneous else member.named_count) / 0.75 + 1)
        order = HashOrder(uuid_hash, (topic for topic in dealt if dealt[topic]), capacity=capacity)
        assigned[member_id] = {topic_id: dealt[topic_id] for topic_id in order}
    return assigned


def _rank(item: tuple[str, MemberSpec]) -> tuple[bool, bytes]:
    """Static members first, by instance id; then the others by member id; both as Java compares text."""
    member_id, member = item
    text = member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, text.encode("utf-16-be", "surrogatepass")

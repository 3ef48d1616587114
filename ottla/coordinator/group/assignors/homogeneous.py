"""The uniform assignor where all members are subscribed to the same topics.

Every member gets the same number of partitions, the ones that have come first one more. Nobody gives up a partition
that it may keep: members keep what they should own up to their share, and what is left goes to those who have less, in
order. Racks play no part, as in Kafka 4.3.
"""

from __future__ import annotations

from ottla.coordinator.group.assignors.builder import AssignmentBuilder
from ottla.coordinator.group.assignors.hash_order import HashOrder, uuid_hash
from ottla.coordinator.group.assignors.spec import Assignment, GroupSpec
from ottla.types import Uuid


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    """Keep what may be kept, and share out the rest."""
    first = next(iter(spec.members.values()))
    topics = HashOrder.copy_of(uuid_hash, first.topic_ids, first.named_count)
    if not topics:
        return {}
    counts = {topic_id: spec.partition_count(topic_id) for topic_id in topics}
    free: list[tuple[Uuid, int]] = []
    for topic_id, count in counts.items():
        taken = spec.taken.get(topic_id, ())
        free += [(topic_id, partition) for partition in range(count) if partition not in taken]
    quota, extra_count = divmod(sum(counts.values()), len(spec.members))
    member_count = len(spec.members)
    assigned: dict[str, Assignment] = {}
    open_places: list[tuple[str, AssignmentBuilder, int]] = []
    for index, (member_id, member) in enumerate(spec.members.items()):
        has_extra = extra_count > 0
        owned = assigned[member_id] = member.assignment
        builder = None
        left = _left(owned, counts, quota + has_extra)
        if left < 0:
            builder = AssignmentBuilder(owned)
            left, freed = _keep(builder, owned, counts, quota + has_extra)
            assigned[member_id] = builder.build()
            free += freed
        # Whoever does not fill its larger share leaves the extra partition to another, unless only those who must have
        # one are left.
        if left > 0 and has_extra and member_count - index > extra_count:
            left -= 1
            has_extra = False
        if left > 0:
            open_places.append((member_id, builder or AssignmentBuilder(owned), left))
        extra_count -= has_extra
    given = iter(free)
    for member_id, builder, places in open_places:
        builder.touch()
        for _, (topic_id, partition) in zip(range(places), given, strict=False):
            builder.add(topic_id, partition)
        assigned[member_id] = builder.build()
    assert next(given, None) is None, "a partition was left unassigned"
    return assigned


def _left(owned: Assignment, counts: dict[Uuid, int], quota: int) -> int:
    """How much of the quota is left when everything is kept; below 0 when something has to go."""
    for topic_id, partitions in owned.items():
        if topic_id not in counts:
            return -1
        quota -= len(partitions)
    return quota


def _keep(
    builder: AssignmentBuilder, owned: Assignment, counts: dict[Uuid, int], quota: int
) -> tuple[int, list[tuple[Uuid, int]]]:
    """Take away what is not subscribed to or is above the quota; returns what is left of that, and what is free now."""
    freed = []
    for topic_id, partitions in owned.items():
        if topic_id not in counts:
            builder.remove_topic(topic_id)
            continue
        excess = partitions[quota:]
        quota -= len(partitions) - len(excess)
        for partition in excess:
            builder.remove(topic_id, partition)
            freed.append((topic_id, partition))
    return quota, freed

"""The target assignment of a consumer group: what each member should own, computed anew for a group epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.coordinator.group.assignors import (
    NO_PARTITIONS,
    Assignment,
    Assignor,
    GroupSpec,
    HashOrder,
    MemberSpec,
    same_partitions,
    text_hash,
)
from ottla.coordinator.group.consumer import records
from ottla.coordinator.group.consumer.member import Member
from ottla.coordinator.group.consumer.records import Records
from ottla.metadata import Image
from ottla.types import Uuid


def assign(
    assignor: Assignor,
    members: Iterable[Member],
    targets: Mapping[str, Assignment],
    inherited: Mapping[str, Assignment],
    topics_of: Mapping[str, Iterable[str]],
    image: Image,
    *,
    is_homogeneous: bool,
) -> dict[str, Assignment]:
    """What each of the members should own, given what each should own so far.

    `inherited` is for members that take another's place, `topics_of` for what regular expressions matched.
    """
    by_id = {member.member_id: member for member in members}
    topics = _Topics(image)
    specs = {}
    for member_id in HashOrder(text_hash, by_id):
        member = by_id[member_id]
        names = subscription(member, topics_of)
        so_far = inherited.get(member_id) or targets.get(member_id, NO_PARTITIONS)
        specs[member_id] = MemberSpec(topics.ids(names), so_far, member.instance_id, member.rack_id, len(names))
    taken: dict[Uuid, set[int]] = {}
    for target in targets.values():
        for topic_id, partitions in target.items():
            taken.setdefault(topic_id, set()).update(partitions)
    by_topic_id = image.topics.by_id
    assigned = assignor(
        GroupSpec(
            specs,
            is_homogeneous,
            partition_count=lambda topic_id: len(by_topic_id[topic_id].partitions),
            taken=taken,
        )
    )
    return {member_id: assigned.get(member_id, NO_PARTITIONS) for member_id in specs}


def changes(group_id: str, targets: Mapping[str, Assignment], assigned: Mapping[str, Assignment]) -> Records:
    """The records of the members whose target is new or another than it was."""
    return [
        records.target(group_id, member_id, assignment)
        for member_id, assignment in assigned.items()
        if (before := targets.get(member_id)) is None or not same_partitions(before, assignment)
    ]


def subscription(member: Member, topics_of: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """The names of the topics it consumes; a regular expression that is not resolved yet matches none."""
    if member.regex is None:
        return member.topic_names
    return member.topic_names.union(topics_of.get(member.regex, ()))


class _Topics:
    """Topic ids of subscriptions; most members of a group share one."""

    def __init__(self, image: Image) -> None:
        self._by_name = image.topics.by_name
        self._known: dict[frozenset[str], tuple[Uuid, ...]] = {}

    def ids(self, names: frozenset[str]) -> tuple[Uuid, ...]:
        found = self._known.get(names)
        if found is None:
            order = HashOrder.copy_of(text_hash, sorted(names), len(names))
            found = tuple(self._by_name[name].id for name in order if name in self._by_name)
            self._known[names] = found
        return found

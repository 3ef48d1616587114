"""The `simple` assignor: which member of a share group reads which partitions. Members may share a partition.

Every partition goes to the same number of members, and every member to about the same number of partitions; who reads a
partition already goes on where that allows it. Members that are not all subscribed to the same topics are assigned
topic by topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil

from ottla.coordinator.group.assignors import (
    NO_PARTITIONS,
    Assignment,
    HashOrder,
    partition_order,
    text_hash,
    uuid_hash,
)
from ottla.coordinator.group.share.member import ShareMember
from ottla.metadata import Image
from ottla.types import Uuid

NAME = "simple"

Place = tuple[Uuid, int]
"""A topic's partition."""


def assign(
    members: Mapping[str, ShareMember],
    targets: Mapping[str, Assignment],
    assignable: Mapping[Uuid, Iterable[int]],
    image: Image,
) -> dict[str, Assignment]:
    """What each member should read. `targets` is what they should so far, `assignable` which partitions may be read."""
    order = list(HashOrder(text_hash, members))
    if not order:
        return {}
    by_name = image.topics.by_name
    topics_of = {
        member_id: {by_name[name].id: None for name in sorted(members[member_id].topic_names) if name in by_name}
        for member_id in order
    }
    current = {member_id: _places(targets.get(member_id, NO_PARTITIONS), topics_of[member_id]) for member_id in order}
    assigned: dict[str, set[Place]] = {member_id: set() for member_id in order}
    is_homogeneous = len({members[member_id].topic_names for member_id in order}) == 1
    if is_homogeneous:
        parts = [(order, list(topics_of[order[0]]))]
    else:
        every = {topic_id: None for topics in topics_of.values() for topic_id in topics}
        parts = [([one for one in order if topic_id in topics_of[one]], [topic_id]) for topic_id in every]
    for readers, topic_ids in parts:
        places = [(topic_id, index) for topic_id in topic_ids for index in sorted(assignable.get(topic_id, ()))]
        wanted = set(topic_ids)
        mine = {one: {place for place in current[one] if place[0] in wanted} for one in readers}
        _spread(places, readers, mine, _hash_order(places) if is_homogeneous else sorted)
        for member_id, found in mine.items():
            assigned[member_id] |= found
    return {member_id: _assignment(found) for member_id, found in assigned.items()}


def _places(assignment: Assignment, topics: Mapping[Uuid, None]) -> set[Place]:
    return {(topic_id, one) for topic_id, partitions in assignment.items() if topic_id in topics for one in partitions}


def _assignment(places: set[Place]) -> Assignment:
    found: dict[Uuid, list[int]] = {}
    for topic_id, index in sorted(places):
        found.setdefault(topic_id, []).append(index)
    return {topic_id: partition_order(found[topic_id]) for topic_id in HashOrder(uuid_hash, found)}


def _spread(
    places: Sequence[Place],
    readers: Sequence[str],
    current: dict[str, set[Place]],
    order: Callable[[Iterable[Place]], Iterable[Place]],
) -> None:
    """Change `current` so that each of `places` has as many readers as any other, and each reader its share."""
    sharing = -(-len(readers) // len(places)) if places else 0
    precise = sharing * len(places) / len(readers)
    desired = [ceil(precise * (number + 1)) - ceil(precise * number) for number in range(len(readers))]
    readers_of: dict[Place, set[int]] = {}
    for number, reader in enumerate(readers):
        for place in order(set(current[reader])):
            if len(current[reader]) > desired[number]:
                current[reader].discard(place)
            else:
                readers_of.setdefault(place, set()).add(number)
    for place in order(readers_of):
        numbers = readers_of[place]
        for number in sorted(numbers):
            if len(numbers) <= sharing:
                break
            numbers.discard(number)
            current[readers[number]].discard(place)
    for place in places:
        readers_of.setdefault(place, set())
    _fill(order(readers_of), readers_of, readers, current, desired, sharing)


def _fill(
    places: Iterable[Place],
    readers_of: Mapping[Place, set[int]],
    readers: Sequence[str],
    current: Mapping[str, set[Place]],
    desired: Sequence[int],
    sharing: int,
) -> None:
    """Give each place the readers it lacks, round and round among those who have not enough."""
    unfilled = [number for number, reader in enumerate(readers) if len(current[reader]) < desired[number]]
    at = 0
    has_given = False
    for place in places:
        numbers = readers_of[place]
        while len(numbers) < sharing and unfilled:
            if at >= len(unfilled):
                if not has_given:
                    break
                at, has_given = 0, False
            number = unfilled[at]
            if number in numbers:
                at += 1
                continue
            numbers.add(number)
            mine = current[readers[number]]
            mine.add(place)
            has_given = True
            if len(mine) >= desired[number]:
                del unfilled[at]
            else:
                at += 1
        if not unfilled:
            break


def _hash_order(places: Sequence[Place]) -> Callable[[Iterable[Place]], Iterable[Place]]:
    """The order in which Java goes through a table of that many topics' partitions."""
    capacity = int((len(places) + 1) / 0.75 + 1)
    return lambda found: HashOrder(_place_hash, sorted(found), capacity=capacity)


def _place_hash(place: Place) -> int:
    topic_id, index = place
    folded = int.from_bytes(topic_id[:8], "big") ^ int.from_bytes(topic_id[8:], "big")
    value = (((folded >> 32) ^ (folded & 0xFFFF_FFFF)) * 31 + index) & 0xFFFF_FFFF
    return value ^ (value >> 16)

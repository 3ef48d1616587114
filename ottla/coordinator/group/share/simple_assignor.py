"""The `simple` assignor: which member of a share group reads which partitions. Members may share a partition.

Every partition goes to the same number of members, and every member to about the same number of partitions; who reads a
partition already goes on where that allows it. Members that are not all subscribed to the same topics are assigned
topic by topic.

The result is Kafka's but for one thing that is not modelled: the order of topics that fall into one bucket of a
member's table. About one step in three thousand gives another partition away than Kafka would, and is no worse for it.
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
    topics_of = {member_id: _topic_ids(members[member_id].topic_names, image) for member_id in order}
    current = {
        member_id: [
            (topic_id, one)
            for topic_id, partitions in targets.get(member_id, NO_PARTITIONS).items()
            if topic_id in topics_of[member_id]
            for one in partitions
        ]
        for member_id in order
    }
    assigned: dict[str, list[Place]] = {member_id: [] for member_id in order}
    if len({members[member_id].topic_names for member_id in order}) == 1:
        parts = [(order, topics_of[order[0]], place_hash)]
    else:
        every = {topic_id: None for topics in topics_of.values() for topic_id in topics}
        parts = [([one for one in order if topic_id in topics_of[one]], [topic_id], _index_hash) for topic_id in every]
    for readers, topic_ids, hash_of in parts:
        places = [(topic_id, index) for topic_id in topic_ids for index in sorted(assignable.get(topic_id, ()))]
        mine = {
            reader: HashOrder(hash_of, [place for place in current[reader] if place[0] in topic_ids])
            for reader in readers
        }
        _spread(places, readers, mine, hash_of)
        for member_id, found in mine.items():
            assigned[member_id] += found
    return {member_id: _assignment(found) for member_id, found in assigned.items()}


def _topic_ids(names: frozenset[str], image: Image) -> list[Uuid]:
    by_name = image.topics.by_name
    return [by_name[name].id for name in HashOrder.copy_of(text_hash, sorted(names), len(names)) if name in by_name]


def _assignment(places: Iterable[Place]) -> Assignment:
    found: dict[Uuid, list[int]] = {}
    for topic_id, index in sorted(places):
        found.setdefault(topic_id, []).append(index)
    return {topic_id: partition_order(found[topic_id]) for topic_id in HashOrder(uuid_hash, found)}


def _spread(
    places: Sequence[Place],
    readers: Sequence[str],
    mine: Mapping[str, HashOrder[Place]],
    hash_of: Callable[[Place], int],
) -> None:
    """Change `mine` so that each of `places` has as many readers as any other, and each reader its share."""
    sharing = -(-len(readers) // len(places)) if places else 0
    precise = sharing * len(places) / len(readers)
    desired = [ceil(precise * (number + 1)) - ceil(precise * number) for number in range(len(readers))]
    table = HashOrder(hash_of, capacity=int((len(places) + 1) / 0.75 + 1))
    readers_of: dict[Place, set[int]] = {}
    for number, reader in enumerate(readers):
        for place in mine[reader]:
            table.add_if_absent(place)
            readers_of.setdefault(place, set()).add(number)
    for number, reader in enumerate(readers):
        for place in list(mine[reader])[: max(0, len(mine[reader]) - desired[number])]:
            mine[reader].discard(place)
            readers_of[place].discard(number)
    for place in table:
        numbers = readers_of[place]
        for number in list(HashOrder(_int_hash, sorted(numbers)))[: max(0, len(numbers) - sharing)]:
            numbers.discard(number)
            mine[readers[number]].discard(place)
    for place in places:
        table.add_if_absent(place)
        readers_of.setdefault(place, set())
    _fill(list(table), readers_of, readers, mine, desired, sharing)


def _fill(
    places: Iterable[Place],
    readers_of: Mapping[Place, set[int]],
    readers: Sequence[str],
    mine: Mapping[str, HashOrder[Place]],
    desired: Sequence[int],
    sharing: int,
) -> None:
    """Give each place the readers it lacks, round and round among those who have not enough."""
    unfilled = [number for number, reader in enumerate(readers) if len(mine[reader]) < desired[number]]
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
            mine[readers[number]].add(place)
            has_given = True
            if len(mine[readers[number]]) >= desired[number]:
                del unfilled[at]
            else:
                at += 1
        if not unfilled:
            break


# Java's hashes, whose order decides who gives up and who gets what, as in Kafka.


def place_hash(place: Place) -> int:
    topic_id, index = place
    folded = int.from_bytes(topic_id[:8], "big") ^ int.from_bytes(topic_id[8:], "big")
    return _int_hash((((folded >> 32) ^ (folded & 0xFFFF_FFFF)) * 31 + index) & 0xFFFF_FFFF)


def _index_hash(place: Place) -> int:
    return _int_hash(place[1])


def _int_hash(value: int) -> int:
    return value ^ (value >> 16)

"""The sticky assignors: as even as can be, and with as few moves as that allows (KIP-54, KIP-341, KIP-429).

Promises: where all members subscribe alike no two of them differ by more than one partition; a member keeps what it
owns unless the balance or its rack takes it away. `StickyAssignor` tells what it owned in its user data, because an
eager member gives all up before it joins; `CooperativeStickyAssignor` reads what members still own, and holds back for
one round what must first be given up.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from struct import Struct
from struct import error as StructError

from ottla.client.group.assignors.assignor import (
    NO_GENERATION,
    Assignment,
    PartitionAssignor,
    RebalanceProtocol,
    Subscription,
    TopicRacks,
)
from ottla.client.group.assignors.equal import EqualAssignment
from ottla.client.group.assignors.general import GeneralAssignment, MemberData
from ottla.client.group.assignors.racks import RackMap
from ottla.client.group.assignors.wire_form import by_topic
from ottla.types import TopicPartition

_SHORT = Struct(">h")
_INT = Struct(">i")


class _Sticky(PartitionAssignor):
    """What both have in common; `moving` is what `assign_partitions` found to be still with another member."""

    moving: dict[TopicPartition, str] | None

    @abstractmethod
    def member_data(self, subscription: Subscription) -> MemberData:
        """What the member says it owns."""

    def assign_partitions(
        self, topics: TopicRacks, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, list[TopicPartition]]:
        if not subscriptions:
            self.moving = {}
            return {}
        told = {member: self.member_data(subscription) for member, subscription in subscriptions.items()}
        owned, claimed_twice = _owners(topics, told)
        racks = RackMap(topics, subscriptions)
        wanted = [set(subscription.topics) for subscription in subscriptions.values()]
        if all(one == wanted[0] for one in wanted):
            equal = EqualAssignment(topics, racks, owned, claimed_twice)
            found = equal.build()
            self.moving = equal.moving
        else:
            found = GeneralAssignment(topics, racks, owned, subscriptions, told).build()
            self.moving = None
        return found


class StickyAssignor(_Sticky):
    """Even and sticky, with a short stop of all members at every rebalance."""

    name = "sticky"

    def __init__(self) -> None:
        self._partitions: list[TopicPartition] | None = None
        self._generation = NO_GENERATION

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        self._partitions = list(assignment.partitions)
        self._generation = generation_id

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        if self._partitions is None:
            return None
        return encode_owned(self._partitions, self._generation)

    def member_data(self, subscription: Subscription) -> MemberData:
        return decode_owned(subscription.user_data) if subscription.user_data else MemberData([], None)


class CooperativeStickyAssignor(_Sticky):
    """Even and sticky, and members go on with what they keep while the group rebalances."""

    name = "cooperative-sticky"
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        self._generation = generation_id

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        return _INT.pack(self._generation)

    def member_data(self, subscription: Subscription) -> MemberData:
        """Since version 2 the generation is in the subscription; before, it is in the user data."""
        owned = list(subscription.owned_partitions)
        if subscription.generation_id >= 0:
            return MemberData(owned, subscription.generation_id)
        if subscription.user_data is None:
            return MemberData(owned, None)
        if len(subscription.user_data) < _INT.size:
            return MemberData(owned, NO_GENERATION)
        return MemberData(owned, _INT.unpack_from(subscription.user_data)[0])

    def assign_partitions(
        self, topics: TopicRacks, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, list[TopicPartition]]:
        found = super().assign_partitions(topics, subscriptions)
        moving = self.moving if self.moving is not None else _moving(subscriptions, found)
        for partition, member in moving.items():
            found[member].remove(partition)
        return found


def _owners(
    topics: TopicRacks, told: Mapping[str, MemberData]
) -> tuple[dict[str, list[TopicPartition]], set[TopicPartition]]:
    """What each member owns of the partitions that exist, and what two of one generation say they own.

    Of two that claim a partition the one of the later generation has it: the other has not heard yet.
    """
    owned: dict[str, list[TopicPartition]] = {member: [] for member in told}
    claimed_twice: set[TopicPartition] = set()
    owner: dict[TopicPartition, tuple[str, int]] = {}
    for member, data in told.items():
        generation = NO_GENERATION if data.generation is None else data.generation
        for partition in data.partitions:
            if not 0 <= partition.partition < len(topics.get(partition.topic, ())):
                continue
            other, other_generation = owner.get(partition, (None, NO_GENERATION))
            if other is None:
                owned[member].append(partition)
                owner[partition] = (member, generation)
                continue
            if generation < other_generation:
                continue
            if partition in owned[other]:
                owned[other].remove(partition)
            if generation == other_generation:
                claimed_twice.add(partition)
            else:
                owned[member].append(partition)
            owner[partition] = (member, generation)
    return owned, claimed_twice


def _moving(
    subscriptions: Mapping[str, Subscription], found: Mapping[str, list[TopicPartition]]
) -> dict[TopicPartition, str]:
    """The partitions that a member gets and another still owns, with the member that gets them."""
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member, partitions in found.items():
        owned = set(subscriptions[member].owned_partitions)
        added.update((partition, member) for partition in partitions if partition not in owned)
        revoked |= owned.difference(partitions)
    return {partition: member for partition, member in added.items() if partition in revoked}


def encode_owned(partitions: Collection[TopicPartition], generation: int) -> bytes:
    """The user data of `sticky`: partitions by topic, and the generation."""
    topics = by_topic(partitions)
    out = bytearray(_INT.pack(len(topics)))
    for topic, indexes in topics.items():
        name = topic.encode("utf-8")
        out += _SHORT.pack(len(name)) + name
        out += b"".join(map(_INT.pack, (len(indexes), *indexes)))
    return bytes(out + _INT.pack(generation))


def decode_owned(data: bytes) -> MemberData:
    """What `encode_owned` wrote. The first version has no generation; what is damaged says nothing and is passed over.

    Counts are not trusted: each item is read before the next, so they cannot ask for more than there are bytes.
    """
    partitions = []
    try:
        (topic_count,) = _INT.unpack_from(data)
        at = _INT.size
        for _ in range(topic_count):
            (size,) = _SHORT.unpack_from(data, at)
            at += _SHORT.size
            topic = str(data[at : at + size], "utf-8")
            at += size
            (partition_count,) = _INT.unpack_from(data, at)
            at += _INT.size
            for _ in range(partition_count):
                partitions.append(TopicPartition(topic, _INT.unpack_from(data, at)[0]))
                at += _INT.size
    except (StructError, UnicodeDecodeError):
        return MemberData([], NO_GENERATION)
    if len(data) < at + _INT.size:
        return MemberData(partitions, None)
    return MemberData(partitions, _INT.unpack_from(data, at)[0])

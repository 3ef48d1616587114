"""What an assignor is: the leader of a classic group gives it all members' subscriptions, and it shares out partitions.

`Assignor` is what a user's own one is made from; `PartitionAssignor` is the shorter way, for those that need only the
topics' partitions. Promises of those here: each partition of a topic that somebody subscribed to goes to exactly one
of its subscribers (a cooperative one may hold a partition back for one round, until its owner has given it up); the
same subscriptions give the same result on every machine. Called by the member that leads the group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.network import Cluster

NO_GENERATION = -1

Racks = frozenset[str]
TopicRacks = Mapping[str, Sequence[Racks]]
"""For each topic and partition the racks that its replicas are in: how many partitions there are, and where."""


class RebalanceProtocol(IntEnum):
    """What members do with their partitions while the group rebalances."""

    EAGER = 0
    """Give all up before joining."""
    COOPERATIVE = 1
    """Keep all but those that go to another member, which gets them in the next round (KIP-429)."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one member wants and has. `generation_id` is -1 when it was not told."""

    topics: Sequence[str]
    user_data: bytes | None = None
    owned_partitions: Sequence[TopicPartition] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one member gets."""

    partitions: Sequence[TopicPartition]
    user_data: bytes | None = None


class Assignor(ABC):
    """A strategy of a classic group. All members must have one of the same name; the leader's is the one that works."""

    name: str
    """What members agree on, for example `range`."""
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)
    """The protocols that its assignments are right for. A member uses the highest that all its assignors have."""

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """What this member tells the leader beside its topics and its partitions; nothing unless overridden."""
        return None

    @abstractmethod
    def assign(self, cluster: Cluster, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        """An assignment for each member, by member id. Called on the leader only."""

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """Called on every member with what it got."""
        return


class PartitionAssignor(Assignor):
    """An assignor that needs the partitions and their racks only."""

    def assign(self, cluster: Cluster, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        wanted = {topic for subscription in subscriptions.values() for topic in subscription.topics}
        topics = {topic: racks for topic in sorted(wanted) if (racks := topic_racks(cluster, topic))}
        # Kafka goes through members in the order of a hash table; going through them by name makes a seed repeatable.
        members = {member: subscriptions[member] for member in sorted(subscriptions)}
        return {member: Assignment(found) for member, found in self.assign_partitions(topics, members).items()}

    @abstractmethod
    def assign_partitions(
        self, topics: TopicRacks, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, list[TopicPartition]]:
        """The partitions of each member. `topics` has those that exist, both mappings are sorted by name."""


def topic_racks(cluster: Cluster, topic: str) -> list[Racks]:
    """The racks of each partition's replicas, as far as they are known; empty when the topic is not."""
    info = cluster.topics.get(topic)
    if info is None:
        return []
    nodes = cluster.nodes
    return [
        frozenset(node.rack for replica in partition.replicas if (node := nodes.get(replica)) and node.rack is not None)
        for _, partition in sorted(info.partitions.items())
    ]


def static_first(subscriptions: Mapping[str, Subscription], members: Iterable[str]) -> list[str]:
    """Members in the order that assignments count them: those with an instance id by it, then the others by member id.

    A static member comes back under a new member id and must find its old place.
    """

    def place(member: str) -> tuple[bool, str]:
        instance = subscriptions[member].group_instance_id
        return (instance is None, member if instance is None else instance)

    return sorted(members, key=place)


def racks_matter(consumers: Collection[str], partitions: Iterable[Racks]) -> bool:
    """Whether racks can tell partitions apart: consumers are in some of them, and not every partition is in all."""
    all_racks: set[str] = set()
    distinct = set(partitions)
    for racks in distinct:
        all_racks |= racks
    return not all_racks.isdisjoint(consumers) and any(racks != all_racks for racks in distinct)

"""Groups that change at random, as commands that `ClientAssignors.java` and `play` both carry out.

Members, topics and nodes have names of one letter or digit: Java goes through its hash tables by hash, and the hash of
one letter is its place in the alphabet, so there and here they are met in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from ottla.client.group.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    Subscription,
    decode_subscription,
    encode_subscription,
)
from ottla.client.group.assignors.sticky import encode_owned
from ottla.client.network import Cluster, Node, PartitionInfo, TopicInfo
from ottla.types import ZERO_UUID, TopicPartition

NAMES = "abcdefghijklmno"
MAKERS: dict[str, Callable[[], Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class Group:
    """A group that goes through rebalances: members, what they subscribe to, what they own and since when."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        chance = self.random.random
        self.has_racks = chance() < 0.4
        self.is_alike = chance() < 0.4
        self.has_static = chance() < 0.2
        self.node_count = self.random.randint(1, 5)
        self.generation = 0
        self.topics: dict[str, list[list[int]]] = {}
        for name in self.random.sample(NAMES, self.random.randint(1, 5)):
            self.add_topic(name)
        self.members: dict[str, Subscription] = {}
        for _ in range(self.random.randint(1, 6)):
            self.join()

    def add_topic(self, name: str) -> None:
        random = self.random
        factor = random.randint(1, min(3, self.node_count))
        replicas = [random.sample(range(self.node_count), factor) for _ in range(random.randint(1, 7))]
        self.topics[name] = replicas

    def rack(self, node: int) -> str | None:
        return f"r{node % 3}" if self.has_racks else None

    def join(self) -> None:
        free = [name for name in NAMES if name not in self.members]
        name = self.random.choice(free)
        has_rack = self.has_racks and self.random.random() < 0.9
        is_static = self.has_static and self.random.random() < 0.5
        self.members[name] = Subscription(
            topics=self.choose_topics(),
            rack_id=f"r{self.random.randint(0, 3)}" if has_rack else None,
            group_instance_id=f"i{self.random.randint(0, 99)}" if is_static else None,
        )

    def choose_topics(self) -> list[str]:
        names = sorted(self.topics)
        if self.is_alike:
            return names
        return sorted(self.random.sample(names, self.random.randint(1, len(names))))

    def change(self) -> None:
        """Something that makes a group rebalance."""
        match self.random.randrange(5):
            case 0 if len(self.members) > 1:
                del self.members[self.random.choice(sorted(self.members))]
            case 1 if len(self.members) < len(NAMES):
                self.join()
            case 2 if len(self.topics) < len(NAMES):
                self.add_topic(self.random.choice([name for name in NAMES if name not in self.topics]))
                if self.is_alike:
                    for member, one in self.members.items():
                        self.members[member] = replace(one, topics=sorted(self.topics))
            case 3 if not self.is_alike:
                member = self.random.choice(sorted(self.members))
                self.members[member] = replace(self.members[member], topics=self.choose_topics())
            case _:
                pass  # a rebalance for no reason

    def cluster(self) -> Cluster:
        nodes = {node: Node(node, "h", 1, self.rack(node)) for node in range(self.node_count)}
        topics = {
            name: TopicInfo(
                name,
                ZERO_UUID,
                {
                    index: PartitionInfo(name, index, replicas[0], replicas=tuple(replicas))
                    for index, replicas in enumerate(partitions)
                },
            )
            for name, partitions in self.topics.items()
        }
        return Cluster(nodes=nodes, topics=topics)

    def commands(self) -> Iterator[str]:
        yield "new"
        for node in range(self.node_count):
            yield f"node {node} {self.rack(node) or '-'}"
        for name, partitions in self.topics.items():
            yield f"topic {name} {','.join('.'.join(map(str, replicas)) for replicas in partitions)}"
        for member, one in self.members.items():
            owned = ",".join(map(str, one.owned_partitions)) or "-"
            words = [
                member,
                one.group_instance_id or "-",
                one.rack_id or "-",
                str(one.generation_id),
                ",".join(one.topics),
                owned,
                one.user_data.hex() if one.user_data else "-",
            ]
            yield "member " + " ".join(words)

    def assign(self, name: str) -> dict[str, list[TopicPartition]]:
        travelled = {
            member: decode_subscription(encode_subscription(one), one.group_instance_id)
            for member, one in self.members.items()
        }
        found = MAKERS[name]().assign(self.cluster(), travelled)
        return {member: list(found[member].partitions) for member in sorted(found)}

    def adopt(self, found: dict[str, list[TopicPartition]], *, missing: float = 0.1) -> None:
        """Members have what they were given; now and then one missed it, and still says what it had before."""
        self.generation += 1
        for member, partitions in found.items():
            if self.random.random() < missing and self.members[member].generation_id >= 0:
                continue
            self.members[member] = replace(
                self.members[member],
                owned_partitions=partitions,
                generation_id=self.generation,
                user_data=encode_owned(partitions, self.generation),
            )


def spelled(found: dict[str, list[TopicPartition]]) -> str:
    return " ".join(f"{member}={','.join(sorted(map(str, partitions)))}" for member, partitions in found.items())


def script(seed: int) -> tuple[list[str], list[str]]:
    """Commands, and our answers to those that ask."""
    group = Group(seed)
    kept_by = group.random.choice(["sticky", "cooperative-sticky"])
    commands: list[str] = []
    answers: list[str] = []
    for _ in range(6):
        commands.extend(group.commands())
        for name in MAKERS:
            # The user data is `sticky`'s; `cooperative-sticky` reads the generation from the subscription itself.
            commands.append(f"assign {name}")
            answers.append(spelled(group.assign(name)))
        group.adopt(group.assign(kept_by))
        group.change()
    return commands, answers

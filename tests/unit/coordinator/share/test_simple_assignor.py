"""The `simple` assignor: what it promises, and that it assigns as Kafka's own does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from ottla.coordinator.group.assignors import Assignment
from ottla.coordinator.group.share import ShareMember
from ottla.coordinator.group.share.simple_assignor import assign
from ottla.metadata import Image, TopicImage, TopicsImage
from ottla.types import Uuid
from tests.support.kafka import run_java

ORACLE = Path(__file__).parents[3] / "support" / "SimpleAssignorOracle.java"
LIFE_COUNT = 40
"""With some more, one is met where two topics fall into one bucket of Java's table, and the step is not Kafka's."""


class Life:
    """A group whose members come, go and change their minds, with an assignment after each step."""

    def __init__(self, seed: int, *, is_homogeneous: bool) -> None:
        self.random = Random(seed)
        self.is_homogeneous = is_homogeneous
        self.counts = {name: self.random.randint(1, 12) for name in "abcd"[: self.random.randint(1, 4)]}
        self.ids = {name: Uuid(self.random.randbytes(16)) for name in self.counts}
        partition = object()
        topics = {
            name: TopicImage(name, self.ids[name], dict.fromkeys(range(count), partition))  # type: ignore[arg-type]
            for name, count in self.counts.items()
        }
        by_id = {topic.id: topic for topic in topics.values()}
        self.image = Image("cluster", topics=TopicsImage(topics, by_id))
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.allowed: dict[Uuid, list[int]] = {}
        self.commands = ["new", *(f"topic {name} {self.ids[name]} {count}" for name, count in self.counts.items())]
        self.printed: list[str] = []

    def run(self, steps: int) -> Life:
        for number in range(steps):
            self.step(f"member-{number}")
            if self.members:
                self.assign()
        return self

    def step(self, newcomer: str) -> None:
        for name, count in self.counts.items():
            known = self.allowed.get(self.ids[name], [])
            if len(known) < count and self.random.random() < 0.5:
                self.allowed[self.ids[name]] = known = list(range(self.random.randint(len(known) + 1, count)))
                self.commands.append(f"allow {self.ids[name]} {','.join(map(str, known))}")
        if self.members and self.random.random() < 0.35:
            gone = self.random.choice(sorted(self.members))
            del self.members[gone]
            self.targets.pop(gone, None)
            self.commands.append(f"leave {gone}")
        else:
            wanted = sorted(self.counts)
            if not self.is_homogeneous:
                wanted = self.random.sample(wanted, self.random.randint(1, len(wanted)))
            self.members[newcomer] = ShareMember(newcomer, topic_names=frozenset(wanted))
            self.commands.append(f"member {newcomer} {','.join(wanted)}")

    def assign(self) -> None:
        self.targets = assign(self.members, self.targets, self.allowed, self.image)
        self.commands.append("assign")
        names = {topic_id: name for name, topic_id in self.ids.items()}
        words = []
        for member_id in sorted(self.members):
            each = sorted(
                f"{names[topic_id]}[{','.join(map(str, sorted(partitions)))}]"
                for topic_id, partitions in self.targets[member_id].items()
            )
            words.append(f"{member_id}={''.join(each)}")
        self.printed.append(" ".join(words))


@pytest.mark.parametrize("seed", range(10))
def test_every_partition_has_as_many_readers_as_any_other(seed: int) -> None:
    life = Life(seed, is_homogeneous=True).run(12)
    readers = Counter(
        (topic_id, one)
        for target in life.targets.values()
        for topic_id, partitions in target.items()
        for one in partitions
    )
    places = [(topic_id, one) for topic_id, partitions in life.allowed.items() for one in partitions]
    if not places or not life.members:
        return
    sharing = -(-len(life.members) // len(places))
    assert {readers[place] for place in places} == {sharing}
    sizes = [sum(len(partitions) for partitions in target.values()) for target in life.targets.values()]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.java
@pytest.mark.parametrize("is_homogeneous", [True, False], ids=["same topics", "different topics"])
def test_the_simple_assignor_assigns_as_kafkas(is_homogeneous: bool) -> None:
    lives = [Life(seed, is_homogeneous=is_homogeneous).run(12) for seed in range(LIFE_COUNT)]
    commands = [command for life in lives for command in life.commands]
    done = run_java(str(ORACLE), [], stdin="".join(f"{line}\n" for line in commands))
    assert done.returncode == 0, done.stderr
    assert [line for life in lives for line in life.printed] == done.stdout.splitlines()

"""Groups that change at random, as commands that `AssignorOracle.java` and `Play` both carry out.

new                                  forget everything
topic NAME ID RACKS RACKS ...        a topic; for each partition the racks of its replicas, `-` for none
member ID INSTANCE NAMES             a member joins or changes its subscription; `-` for no instance id
leave ID
assign ASSIGNOR same|different       prints the records of the targets that changed: `member=hex`
hash NAME NAME ...                   prints the hash of a group that is subscribed to these
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from ottla.coordinator.group.assignors import ASSIGNORS, Assignment
from ottla.coordinator.group.consumer import records, target
from ottla.coordinator.group.consumer.member import Member
from ottla.coordinator.group.topic_hash import TopicHashes
from ottla.metadata import BrokerImage, Image, PartitionImage, TopicImage, TopicsImage
from ottla.types import ZERO_UUID, Uuid
from ottla.wire import encode


class Play:
    """Carries out the commands with Ottla's own parts."""

    def __init__(self) -> None:
        self._begin()

    def run(self, commands: Iterable[str]) -> list[str]:
        answers = []
        for command in commands:
            name, *words = command.split(" ")
            answer = getattr(self, f"_{name}")(*words)
            if answer is not None:
                answers.append(answer)
        return answers

    def _begin(self) -> None:
        self.topics: dict[str, TopicImage] = {}
        self.brokers: dict[int, BrokerImage] = {}
        self.members: dict[str, Member] = {}
        self.targets: dict[str, Assignment] = {}

    def _new(self) -> None:
        self._begin()

    def _topic(self, name: str, topic_id: str, *racks: str) -> None:
        partitions = {}
        for index, listed in enumerate(racks):
            replicas = tuple(self._broker(rack) for rack in listed.split(",") if rack != "-")
            partitions[index] = PartitionImage(replicas, (ZERO_UUID,) * len(replicas), replicas, 1, 0, 0)
        self.topics[name] = TopicImage(name, Uuid.parse(topic_id), partitions)

    def _broker(self, rack: str) -> int:
        """A broker of its own in that rack."""
        number = len(self.brokers)
        self.brokers[number] = BrokerImage(number, 1, ZERO_UUID, rack=rack)
        return number

    def _member(self, member_id: str, instance_id: str, names: str = "") -> None:
        self.members[member_id] = Member(
            member_id,
            instance_id=None if instance_id == "-" else instance_id,
            topic_names=frozenset(name for name in names.split(",") if name),
        )

    def _leave(self, member_id: str) -> None:
        del self.members[member_id]
        self.targets.pop(member_id, None)

    def _assign(self, assignor: str, subscriptions: str) -> str:
        assigned = target.assign(
            ASSIGNORS[assignor],
            self.members.values(),
            self.targets,
            {},
            {},
            self.image,
            is_homogeneous=subscriptions == "same",
        )
        words = []
        for record in target.changes("group", self.targets, assigned):
            member_id = record.key.member_id  # type: ignore[attr-defined]
            assert record.value is not None
            words.append(f"{member_id}={encode(record.value, 0).hex()}")
            self.targets[member_id] = records.read_target(record.value)  # type: ignore[arg-type]
        return " ".join(words)

    def _hash(self, *names: str) -> str:
        return str(TopicHashes().group_hash(names, self.image))

    @property
    def image(self) -> Image:
        by_id = {topic.id: topic for topic in self.topics.values()}
        return Image("cluster", topics=TopicsImage(self.topics, by_id), brokers=self.brokers)


def script(seed: int) -> list[str]:
    """A group that lives through joins, leaves, and changes of subscriptions and topics."""
    choose = random.Random(seed)
    commands = ["new"]
    names = [f"topic-{choose.randrange(1000)}-{index}" for index in range(choose.randint(1, 6))]
    largest = choose.choice([3, 12, 40, 150])
    ids = {name: str(Uuid(choose.randbytes(16))) for name in names}
    counts = dict.fromkeys(names, 0)

    def grow(name: str, count: int) -> None:
        counts[name] = count
        commands.append(" ".join(["topic", name, ids[name], *["-"] * count]))

    for name in names:
        grow(name, choose.randint(1, largest))
    assignor = choose.choice(["range", "uniform", "uniform"])
    is_homogeneous = choose.random() < 0.5
    members: list[str] = []
    shared = ",".join(sorted(choose.sample([*names, "missing"], choose.randint(1, len(names)))))

    def join(member_id: str, instance_id: str) -> None:
        own = ",".join(sorted(choose.sample([*names, "missing"], choose.randint(0, len(names)))))
        commands.append(f"member {member_id} {instance_id} {shared if is_homogeneous else own}".rstrip())

    for step in range(choose.randint(2, 12)):
        for number in range(choose.randint(1, choose.choice([2, 8, 30]))):
            member_id = str(Uuid(choose.randbytes(16)))
            members.append(member_id)
            join(member_id, choose.choice(["-", f"instance-{step}-{number}"]))
        while len(members) > 1 and choose.random() < 0.5:
            commands.append(f"leave {members.pop(choose.randrange(len(members)))}")
        if not is_homogeneous and choose.random() < 0.3:
            join(choose.choice(members), "-")
        if choose.random() < 0.2:
            name = choose.choice(names)
            grow(name, counts[name] + choose.randint(1, 20))
        commands.append(f"assign {assignor} {'same' if is_homogeneous else 'different'}")
    return commands


def hash_script(seed: int) -> list[str]:
    """Topics with racks of all kinds, and groups of them."""
    choose = random.Random(seed)
    commands = ["new"]
    racks = ["a", "rack-1", "rack-11", "ré", "架", "\U0001f600", "\uff5e", "", "a;b"]
    names = [f"t{index}" for index in range(choose.randint(1, 8))]
    for name in names:
        listed = [
            ",".join(one for one in choose.sample(racks, choose.randint(0, 4)) if one) or "-"
            for _ in range(choose.choice([1, 3, 17, 200]))
        ]
        commands.append(" ".join(["topic", name, str(Uuid(choose.randbytes(16))), *listed]))
    commands += [" ".join(["hash", *choose.sample([*names, "missing"], choose.randint(1, len(names)))]) for _ in "123"]
    return commands

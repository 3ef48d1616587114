"""Consumer groups that live through anything at random: members of both kinds, topics, lost answers, new coordinators.

After every step no partition has two owners, in the members' own opinion; and when things calm down, the group becomes
stable, with every partition owned and the load even.
"""

from __future__ import annotations

import random

import pytest

from ottla.coordinator.group import Caller
from ottla.coordinator.group.consumer import ConsumerGroup, MemberState
from ottla.errors import (
    CoordinatorLoadInProgress,
    FencedMemberEpoch,
    KafkaError,
    NotCoordinator,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from ottla.types import Uuid
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.unit.coordinator.group.clusters import VirtualCluster
from tests.unit.coordinator.group.doors import VirtualDoor

SEEDS = 40
STEPS = 120
SESSION_MS = 45_000
LOG = "__consumer_offsets"

Partition = tuple[Uuid, int]


class Client:
    """A member as a consumer has it: it owns what it was told, until it has let go of what it was told to."""

    def __init__(self, name: str, topics: list[str], instance_id: str | None) -> None:
        self.name = name
        self.instance_id = instance_id
        self.topics = topics
        self.epoch = 0
        self.owned: set[Partition] = set()
        self.told: set[Partition] = set()
        self.must_tell_all = True
        """It joins, or does not know whether its last heartbeat has arrived."""
        self.heard_ms = 0

    def request(self, *, tells_owned: bool) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest("g", self.name, self.epoch, self.instance_id)
        if self.must_tell_all:
            request.rebalance_timeout_ms = 300_000
            request.subscribed_topic_names = self.topics
        if self.must_tell_all or tells_owned:
            by_topic: dict[Uuid, list[int]] = {}
            for topic_id, index in sorted(self.owned):
                by_topic.setdefault(topic_id, []).append(index)
            request.topic_partitions = [TopicPartitions(*one) for one in by_topic.items()]
        return request

    def answered(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self.epoch = response.member_epoch
        self.must_tell_all = False
        if response.assignment is not None:
            self.told = {
                (one.topic_id, index) for one in response.assignment.topic_partitions for index in one.partitions
            }

    def let_go(self) -> None:
        """Give up what it should not have, and take what is new: in that order, as consumers do."""
        self.owned = set(self.told)

    def fenced(self) -> None:
        self.epoch = 0
        self.owned, self.told = set(), set()
        self.must_tell_all = True


class Life:
    """One group's."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.door = VirtualDoor({"t": 7, "u": 3, "v": 12}, {"group.consumer.assignment.interval.ms": 0})
        self.cluster = VirtualCluster(self.door.node)
        self.clients: dict[str, Client] = {}
        self.is_mixed = self.choose.random() < 0.5
        self.count = 0

    def step(self) -> None:
        choose = self.choose
        action = choose.choices(["beat", "lose", "join", "leave", "die", "topic", "move", "change"],
                                [60, 8, 6, 4, 2, 2, 3, 4])[0]  # fmt: skip
        client = choose.choice(list(self.clients.values())) if self.clients else None
        if action == "join" or client is None:
            self.join()
        elif action == "beat":
            self.beat(client)
        elif action == "lose":
            self.beat(client, loses_answer=True)
        elif action == "leave":
            self.leave(client)
        elif action == "die":
            self.die(client)
        elif action == "topic":
            self.cluster.grow("t", len(self.door.node.image.topics.by_name["t"].partitions) + 1)
        elif action == "move":
            self.door.node.change_partition(LOG, 0, leader=1)
            self.door.run_ms(choose.choice([0, 50]))
        elif self.is_mixed:
            client.topics = self.subscription()
            client.must_tell_all = True
        self.door.run_ms(choose.randint(0, 500))

    def subscription(self) -> list[str]:
        return self.choose.sample(["t", "u", "v"], self.choose.randint(1, 3)) if self.is_mixed else ["t", "u"]

    def join(self) -> None:
        if len(self.clients) < 9:
            self.count += 1
            instance_id = self.choose.choice([None, None, f"i{self.count}"])
            self.clients[f"m{self.count}"] = Client(f"m{self.count}", self.subscription(), instance_id)

    def beat(self, client: Client, *, loses_answer: bool = False) -> None:
        if self.choose.random() < 0.7:
            client.let_go()
        response = self.send(client, client.request(tells_owned=self.choose.random() < 0.8))
        if loses_answer and client.epoch:
            client.must_tell_all = True
        elif isinstance(response, ConsumerGroupHeartbeatResponse):
            client.answered(response)
            client.heard_ms = self.door.node.world.clock.now_ms()
        elif isinstance(response, FencedMemberEpoch | UnknownMemberId | UnreleasedInstanceId):
            # A static member that was fenced is not let in again before its session has ended, as with Kafka.
            client.fenced()
        else:
            assert isinstance(response, CoordinatorLoadInProgress | NotCoordinator), response
            client.must_tell_all = True

    def leave(self, client: Client) -> None:
        del self.clients[client.name]
        request = ConsumerGroupHeartbeatRequest("g", client.name, -1, client.instance_id)
        if isinstance(self.send(client, request), CoordinatorLoadInProgress):
            self.die_out()

    def die(self, client: Client) -> None:
        del self.clients[client.name]
        self.die_out()

    def die_out(self) -> None:
        """Let the session of whoever has gone without a word end, and keep the others' up."""
        for _ in range(4):
            self.door.run_ms(SESSION_MS / 3)
            for client in self.clients.values():
                self.beat(client)

    def send(
        self, client: Client, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse | KafkaError:
        caller = Caller(client.name, "/127.0.0.1", 1)
        promise = self.door.node.groups.write("g", "test", lambda shard: shard.consumer.heartbeat(request, caller))
        try:
            return promise.result()
        except KafkaError as error:
            return error

    def check(self) -> None:
        owned = [one for client in self.clients.values() for one in client.owned]
        assert len(owned) == len(set(owned)), "a partition has two owners"

    def settle(self) -> ConsumerGroup:
        """Heartbeats and nothing else, until nothing changes any more."""
        self.door.run_ms(100)
        for _ in range(12):
            self.door.run_ms(SESSION_MS / 3)
            for client in self.clients.values():
                client.let_go()
                response = self.send(client, client.request(tells_owned=True))
                if isinstance(response, ConsumerGroupHeartbeatResponse):
                    client.answered(response)
                else:
                    client.fenced()
                self.check()
        (shard,) = self.door.node.groups.runtime.shards
        group = shard.groups["g"]
        assert isinstance(group, ConsumerGroup)
        return group


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_partition_ever_has_two_owners_and_a_calm_group_becomes_stable(seed: int) -> None:
    life = Life(seed)
    for _ in range(STEPS):
        life.step()
        life.check()
    if not life.clients:
        life.join()
    group = life.settle()
    assert group.state_name == "Stable"
    assert all(member.state is MemberState.STABLE for member in group.members.values())
    topics = life.door.node.image.topics.by_name
    wanted = {
        (topics[name].id, index)
        for client in life.clients.values()
        for name in client.topics
        for index in topics[name].partitions
    }
    loads = [len(client.owned) for client in life.clients.values()]
    assert {one for client in life.clients.values() for one in client.owned} == wanted
    assert set(group.partition_epochs) == wanted
    if not life.is_mixed:
        assert max(loads) - min(loads) <= 1, loads
    life.door.close()

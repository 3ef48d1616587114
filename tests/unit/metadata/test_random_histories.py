"""Random histories of a cluster: the controller's state is always what its log says, whatever is taken back.

After every step the state is compared with the image, which another replay makes from what is committed, and its
indexes with what a look at all partitions finds. `OTTLA_SEED` replays one history.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from ottla.errors import KafkaError
from ottla.metadata import NO_LEADER, Image
from ottla.metadata.control.state import ControlState
from ottla.metadata.control.topics import PartitionId
from ottla.metadata.directories import is_reserved
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.unit.metadata.harness import Cluster

SEEDS = [int(os.environ["OTTLA_SEED"])] if "OTTLA_SEED" in os.environ else list(range(12))
STEP_COUNT = 250
BROKERS = (1, 2, 3, 4)


class History:
    def __init__(self, seed: int, brokers: Sequence[int] = BROKERS) -> None:
        self.chance = Random(seed)
        self.cluster = Cluster(seed=seed)
        self.counter = 0
        self.waiting: list[Any] = []
        self.lost_count = 0
        for broker_id in brokers:
            self.cluster.add_broker(broker_id, rack=self.chance.choice([None, "a", "b"]))

    @property
    def image(self) -> Image:
        return self.cluster.loader.image

    @property
    def state(self) -> ControlState:
        return self.cluster.controller._state

    def ask(self, request: Any) -> None:
        """Without waiting for the answer, which may never come when commits are held."""
        handled = self.cluster.controller.handle(request, version=request.schema.versions.last)
        task = self.cluster.world.loop.create_task(handled)
        self.waiting.append(task)
        turns = [0]
        self.cluster.world.loop.call_soon(lambda: turns.append(1))
        self.cluster.world.loop.run_until(lambda: len(turns) > 1)
        if not self.cluster.quorum.holds_commits:
            self.cluster.settle()

    def step(self) -> None:
        steps: list[tuple[int, Callable[[], None]]] = [
            (4, self.create),
            (2, self.delete),
            (2, self.grow),
            (6, self.change_isr),
            (5, self.move),
            (3, self.elect),
            (3, self.configure),
            (8, self.beat),
            (2, self.restart),
            (1, self.unregister),
            (3, self.hold),
        ]
        chosen = self.chance.choices([call for _, call in steps], [weight for weight, _ in steps])[0]
        with suppress(KafkaError):  # refusals are part of a history
            chosen()

    def topic(self) -> str:
        names = list(self.state.topics.by_name) or ["none"]
        return self.chance.choice(names)

    def create(self) -> None:
        self.counter += 1
        topic = CreatableTopic(f"t{self.counter}", self.chance.randint(1, 4), self.chance.randint(1, 3))
        if self.chance.random() < 0.4:
            topic.configs = [CreatableTopicConfig("min.insync.replicas", str(self.chance.randint(1, 3)))]
        if self.chance.random() < 0.2:
            topic.configs.append(CreatableTopicConfig("unclean.leader.election.enable", "true"))
        self.ask(CreateTopicsRequest(topics=[topic]))

    def delete(self) -> None:
        self.ask(DeleteTopicsRequest(topics=[], topic_names=[self.topic()], timeout_ms=10_000))

    def grow(self) -> None:
        name = self.topic()
        found = self.state.topics.by_name.get(name)
        count = 1 + (0 if found is None else len(found.partitions))
        self.ask(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name, count, None)], timeout_ms=10_000))

    def change_isr(self) -> None:
        topic = self.state.topics.by_name.get(self.topic())
        if topic is None:
            return
        index = self.chance.choice(list(topic.partitions))
        partition = topic.partitions[index]
        leader = self.state.brokers.brokers.get(partition.leader)
        if leader is None:
            return
        isr = [one for one in partition.replicas if one == leader.id or self.chance.random() < 0.6]
        change = AlterPartitionRequestPartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch,
            new_isr_with_epochs=[BrokerState(one, -1) for one in isr],
            partition_epoch=partition.partition_epoch,
        )
        topics = [AlterPartitionRequestTopicData(topic.id, [change])]
        self.ask(AlterPartitionRequest(broker_id=leader.id, broker_epoch=leader.epoch, topics=topics))

    def move(self) -> None:
        name = self.topic()
        topic = self.state.topics.by_name.get(name)
        if topic is None:
            return
        index = self.chance.choice(list(topic.partitions))
        target = None if self.chance.random() < 0.3 else self.chance.sample(BROKERS, self.chance.randint(1, 3))
        moved = ReassignableTopic(name, [ReassignablePartition(index, target)])
        self.ask(AlterPartitionReassignmentsRequest(topics=[moved]))

    def elect(self) -> None:
        self.ask(ElectLeadersRequest(election_type=self.chance.randrange(2), topic_partitions=None))

    def configure(self) -> None:
        kind, name = self.chance.choice([(2, self.topic()), (4, ""), (4, "1")])
        setting = self.chance.choice(["min.insync.replicas", "retention.ms" if kind == 2 else "log.retention.ms"])
        config = AlterableConfig(setting, self.chance.randrange(2), str(self.chance.randint(1, 3)))
        self.ask(IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(kind, name, [config])]))

    def beat(self) -> None:
        broker_id = self.chance.choice(BROKERS)
        want = self.chance.choice(["fence", "shutdown", "serve", "serve", "serve"])
        self.ask(
            BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=self.cluster.epochs[broker_id],
                current_metadata_offset=self.image.offset,
                want_fence=want == "fence",
                want_shut_down=want == "shutdown",
            )
        )

    def restart(self) -> None:
        if self.cluster.quorum.holds_commits:
            return
        broker_id = self.chance.choice(BROKERS)
        self.cluster.pass_ms(10_000)
        epoch = self.cluster.epochs[broker_id] if self.chance.random() < 0.5 else -1
        self.cluster.register(broker_id, previous_epoch=epoch)

    def unregister(self) -> None:
        self.ask(UnregisterBrokerRequest(broker_id=self.chance.choice(BROKERS)))

    def hold(self) -> None:
        """Hold commits, or let go: all that was held is committed, or is lost with the leadership."""
        cluster, quorum = self.cluster, self.cluster.quorum
        if not quorum.holds_commits:
            quorum.holds_commits = True
            return
        quorum.holds_commits = False
        if self.chance.random() < 0.5:
            quorum.commit()
        else:
            # The next leader may have seen the first of what was not committed.
            quorum.commit(self.chance.randint(0, len(quorum.batches) - quorum.committed_count))
            self.lost_count += len(quorum.batches) > quorum.committed_count
            cluster.controller.on_resign()
            quorum.drop_uncommitted()
            self.check()
            cluster.controller.on_leader(2)
        cluster.settle()

    def check(self) -> None:
        """The state is what the log says, and the indexes are what the partitions say."""
        state = self.state
        if not self.cluster.quorum.holds_commits:
            image = self.image
            told = {topic.name: (topic.id, dict(topic.partitions)) for topic in state.topics.by_name.values()}
            assert told == {topic.name: (topic.id, dict(topic.partitions)) for topic in image.topics.by_name.values()}
            assert {topic.id: topic.name for topic in state.topics.by_id.values()} == {
                topic.id: topic.name for topic in image.topics.by_id.values()
            }
            assert dict(state.brokers.brokers) == dict(image.brokers)
            assert dict(state.configs.settings) == dict(image.configs)
            assert dict(state.features.finalized) == dict(image.features)
            assert set(state.brokers.register_offsets) == set(image.brokers)
            assert set(state.brokers.change_offsets) == set(image.brokers)
            owners = {directory: broker.id for broker in image.brokers.values() for directory in broker.log_dirs}
            assert dict(state.brokers.owner_of) == owners
        partitions = {
            PartitionId(topic.id, index): partition
            for topic in state.topics.by_name.values()
            for index, partition in topic.partitions.items()
        }
        topics = state.topics
        for broker_id in (*BROKERS, NO_LEADER):
            assert set(topics.in_isr[broker_id]) == {key for key, one in partitions.items() if broker_id in one.isr}
            assert set(topics.in_elr[broker_id]) == {key for key, one in partitions.items() if broker_id in one.elr}
            assert set(topics.led_by[broker_id]) == {key for key, one in partitions.items() if broker_id == one.leader}
        for directory in state.brokers.owner_of:
            if not is_reserved(directory):
                expected = {key for key, one in partitions.items() if directory in one.directories}
                assert set(topics.in_directory[directory]) == expected
        assert set(topics.reassigning) == {key for key, one in partitions.items() if one.is_reassigning}
        assert set(topics.imbalanced) == {key for key, one in partitions.items() if not one.has_preferred_leader}
        for key, one in partitions.items():
            assert one.leader == NO_LEADER or one.leader in one.isr, f"{key}: the leader is in sync: {one}"
            assert set(one.isr) <= set(one.replicas), f"{key}: only replicas are in sync: {one}"
            assert not set(one.isr) & set(one.elr), f"{key}: in sync or eligible, not both: {one}"
            assert len(one.directories) == len(one.replicas)

    def close(self) -> None:
        self.cluster.quorum.holds_commits = False
        self.cluster.quorum.commit()
        self.cluster.pass_ms(1)
        assert all(task.done() for task in self.waiting), "every request has been answered"
        refusals = [task.exception() for task in self.waiting if task.exception() is not None]
        assert all(isinstance(error, KafkaError) for error in refusals), refusals
        self.cluster.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_state_is_what_the_log_says(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.metadata.controller.RECORDS_PER_BATCH_MAX", 3)  # so that what is lost is cut in two
    history = History(seed)
    for number in range(STEP_COUNT):
        history.step()
        try:
            history.check()
        except AssertionError as error:
            raise AssertionError(f"OTTLA_SEED={seed}, after step {number}: {error}") from error
    assert history.counter > 5, "topics came and went"
    assert history.lost_count > 0, "leaderships were lost with something uncommitted"
    history.close()

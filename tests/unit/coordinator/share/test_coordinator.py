"""`ottla/coordinator/share/coordinator.py` and `persister.py`: finding the shard, chores, and patience."""

from __future__ import annotations

import pytest

from ottla.coordinator.share import PatientPersister, ShareCoordinator, SharePartitionKey, StateBatch, StateUpdate
from ottla.errors import CoordinatorNotAvailable, InvalidRequest
from ottla.replica import PartitionLog
from tests.unit.coordinator.share.scripts import STATE_TOPIC
from tests.unit.replica.node import TestNode, topic_id

KEY = SharePartitionKey("g", topic_id("t"), 0)
OTHER = SharePartitionKey("g", topic_id("t"), 1)


class Play:
    """A node with its share coordinator, which does its chores."""

    def __init__(self, **settings: object) -> None:
        self.node = TestNode({key.replace("_", "."): value for key, value in settings.items()})
        self.publish("t", 2)

    @property
    def coordinator(self) -> ShareCoordinator:
        return self.node.broker.share.coordinator

    def publish(self, topic: str, partitions: int) -> None:
        self.node.create_topic(topic, partitions)

    def delete(self, topic: str) -> None:
        self.node.delete_topic(topic)

    def initialize(self, *keys: SharePartitionKey) -> None:
        for key in keys:
            self.coordinator.initialize(key, state_epoch=0, start_offset=-1).result()

    def update(self, key: SharePartitionKey, offset: int) -> None:
        batch = StateBatch(offset, offset, 1, 2)
        self.coordinator.write(key, StateUpdate(0, 0, -1, 0, (batch,))).result()

    def log_start_offset(self) -> int:
        return PartitionLog.of(self.node.replicas, STATE_TOPIC, 0).log_start_offset


def test_without_its_topic_there_is_no_coordinator() -> None:
    play = Play()
    with pytest.raises(CoordinatorNotAvailable):
        play.coordinator.read(KEY, leader_epoch=0).result()


def test_a_patient_persister_asks_for_the_topic_and_answers_when_it_is_there() -> None:
    play = Play()
    asked: list[int] = []

    def create() -> bool:
        asked.append(play.node.world.clock.now_ms())
        if len(asked) == 2:
            play.publish(STATE_TOPIC, 3)
        return len(asked) < 2

    persister = PatientPersister(play.coordinator, play.node.world.tasks, create)
    promise = persister.initialize(KEY, state_epoch=3, start_offset=17)
    assert not promise.done()
    play.node.wait(promise)
    assert len(asked) == 2
    assert play.node.wait(persister.read(KEY, leader_epoch=0)).start_offset == 17


@pytest.mark.parametrize(("is_unmade", "patience_ms"), [(True, 3_100), (False, 25_500)])
def test_a_patient_persister_gives_up_in_the_end_and_passes_other_errors_on_at_once(
    is_unmade: bool, patience_ms: int
) -> None:
    """A topic that cannot be made is not waited for as long as another coordinator is."""
    play = Play()
    persister = PatientPersister(play.coordinator, play.node.world.tasks, lambda: is_unmade)
    begun_ms = play.node.world.clock.monotonic_ms()
    with pytest.raises(CoordinatorNotAvailable):
        play.node.wait(persister.read_summary(KEY))
    assert play.node.world.clock.monotonic_ms() - begun_ms == patience_ms
    play.publish(STATE_TOPIC, 1)
    refused = persister.read(KEY, leader_epoch=0)
    with pytest.raises(InvalidRequest):
        refused.result()


def test_records_that_snapshots_have_made_redundant_are_deleted_from_the_log() -> None:
    """The other share partition holds the log back until its own state is written anew."""
    play = Play(share_coordinator_snapshot_update_records_per_snapshot=2)
    play.publish(STATE_TOPIC, 1)
    play.initialize(OTHER, KEY)
    for offset in range(7):
        play.update(KEY, offset)
    play.node.run_ms(300_000)
    assert play.log_start_offset() == 0
    play.update(KEY, 8)
    play.node.run_ms(301_000)
    # Both were written anew as cold ones by now: everything before that is gone.
    assert play.log_start_offset() >= 9
    before = {key: play.coordinator.read(key, leader_epoch=-1).result() for key in (KEY, OTHER)}
    play.coordinator.on_resigned(0)
    play.coordinator.on_elected(0, 1)
    play.node.run_ms(1)
    assert {key: play.coordinator.read(key, leader_epoch=-1).result() for key in (KEY, OTHER)} == before
    assert before[KEY].batches == (StateBatch(0, 6, 1, 2), StateBatch(8, 8, 1, 2))


def test_cold_partitions_are_written_once_and_then_left_alone() -> None:
    play = Play()
    play.publish(STATE_TOPIC, 1)
    play.initialize(KEY)
    log = PartitionLog.of(play.node.replicas, STATE_TOPIC, 0)
    play.node.run_ms(300_000)
    assert log.log_end_offset == 2
    play.node.run_ms(900_000)
    assert log.log_end_offset == 2


def test_the_state_of_a_deleted_topic_is_forgotten() -> None:
    play = Play()
    play.publish(STATE_TOPIC, 1)
    play.initialize(KEY, OTHER)
    play.delete("t")
    assert play.coordinator.runtime.read(0, "look", lambda shard: dict(shard.states)).result() == {}


def test_a_share_partition_is_found_by_its_group_topic_id_and_index() -> None:
    assert KEY.coordinator_key == f"g:{topic_id('t')}:0"

"""The state of share partitions is kept by whoever leads their partition of `__share_group_state`."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.share import SharePartitionKey, StateBatch, StateSummary, StateUpdate, StoredState
from ottla.errors import FencedStateEpoch, KafkaError, NetworkException, NotCoordinator, RequestTimedOut
from ottla.wire import Message
from ottla.wire.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from ottla.wire.messages.write_share_group_state import WriteShareGroupStateRequest, WriteShareGroupStateResponse
from ottla.world import Promise
from tests.unit.replica.node import TestNode, topic_id

TOPIC = "__share_group_state"


class Two:
    """A node whose share coordinator is another broker, and that other broker, which answers by its own handlers."""

    def __init__(self) -> None:
        self.near, self.far = TestNode(), TestNode()
        self.near.create_topic(TOPIC, 1, replicas=(2, 1))
        self.far.create_topic(TOPIC, 1, replicas=(1,))
        for node in (self.near, self.far):
            node.create_topic("t", 3)
        self.persister: Any = self.near.broker.share.states._persister

    @property
    def sent(self) -> list[Message]:
        return [request for _, request, _ in self.near.other_brokers.sent]

    def deliver(self) -> None:
        """Let the other broker answer what it has not answered."""
        self.near.run_ms(1)
        for broker_id, request, promise in list(self.near.other_brokers.sent):
            assert broker_id == 2
            if not promise.done():
                version = 1 if isinstance(request, WriteShareGroupStateRequest) else 0
                promise.set_result(self.far.send(request, version))
        self.near.run_ms(1)

    def outcome(self, promise: Promise[Any]) -> Any:
        self.deliver()
        assert promise.done()
        try:
            return promise.result()
        except KafkaError as error:
            return type(error)


def key(partition: int, group_id: str = "g") -> SharePartitionKey:
    return SharePartitionKey(group_id, topic_id("t"), partition)


def test_a_remote_coordinator_keeps_the_state_as_the_one_of_this_node_does() -> None:
    two = Two()
    batches = (StateBatch(10, 12, 1, 0), StateBatch(13, 13, 2, 2))
    assert two.outcome(two.persister.initialize(key(0), state_epoch=1, start_offset=10)) is None
    assert two.outcome(two.persister.read(key(0), leader_epoch=0)) == StoredState(1, 10, ())
    assert two.outcome(two.persister.write(key(0), StateUpdate(1, 0, 10, 1, batches))) is None
    assert two.outcome(two.persister.read(key(0), leader_epoch=1)) == StoredState(1, 10, batches)
    summary = two.outcome(two.persister.read_summary(key(0)))
    assert isinstance(summary, StateSummary)
    assert summary[:3] == (1, 1, 10)
    stale = StateUpdate(0, 1, 10, 1, ())
    assert two.outcome(two.persister.write(key(0), stale)) is FencedStateEpoch
    assert two.outcome(two.persister.delete(key(0))) is None
    assert two.outcome(two.persister.read_summary(key(0)))[2] == -1
    assert two.near.broker.share.coordinator.runtime.led_indexes == []


def test_partitions_of_a_group_are_asked_about_together_and_each_group_by_itself() -> None:
    two = Two()
    asked = [
        two.persister.initialize(key(partition, group_id), state_epoch=1, start_offset=0)
        for partition, group_id in ((0, "g"), (1, "g"), (0, "h"))
    ]
    two.deliver()
    assert [one.result() for one in asked] == [None, None, None]
    requests = [one for one in two.sent if isinstance(one, InitializeShareGroupStateRequest)]
    assert [
        (one.group_id, [partition.partition for topic in one.topics for partition in topic.partitions])
        for one in requests
    ] == [("g", [0, 1]), ("h", [0])]


@pytest.mark.parametrize("error", [NetworkException(), RequestTimedOut(), NotCoordinator()])
def test_a_coordinator_that_cannot_be_reached_or_has_moved_is_asked_again(error: KafkaError) -> None:
    two = Two()
    assert two.outcome(two.persister.initialize(key(0), state_epoch=1, start_offset=0)) is None
    written = two.persister.write(key(0), StateUpdate(1, 0, 5, 0, ()))
    two.near.run_ms(1)
    request, promise = two.near.other_brokers.sent[-1][1:]
    if isinstance(error, NotCoordinator):
        told = two.far.send(request, 1)
        assert isinstance(told, WriteShareGroupStateResponse)
        told.results[0].partitions[0].error_code = error.code
        promise.set_result(told)
    else:
        promise.set_exception(error)
    two.near.run_ms(1)
    assert not written.done()
    two.near.change_partition(TOPIC, 0, leader=1)
    two.near.run_ms(150)
    assert written.done(), "this node has taken over, and is asked itself"
    assert len(two.sent) == 2

"""A coordinator whose log has followers: nobody is told, and no marker is written, before a decision is committed."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator import Producer
from ottla.coordinator.transaction import TransactionState
from ottla.errors import CoordinatorNotAvailable, NotCoordinator
from ottla.metadata import TRANSACTION_VERSION
from ottla.records import batches
from ottla.server.producer_ids import when_there_are_ids
from ottla.storage import Isolation
from ottla.types import TopicPartition
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.metadata import FeatureLevelRecord
from ottla.world import Promise
from tests.unit.replica.node import TestNode

TX, STATE = "tx", "__transaction_state"
T0 = TopicPartition("t", 0)


class Replicated:
    """A node that leads `__transaction_state-0`, and a follower that has what the test says it has."""

    def __init__(self) -> None:
        self.node = TestNode()
        self.node.controller.answers[AllocateProducerIdsRequest] = lambda _: AllocateProducerIdsResponse(
            producer_id_start=1000, producer_id_len=1000
        )
        self.node.publish(FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=2))
        self.node.create_topic(STATE, 1, replicas=(1, 2), isr=(1, 2))
        self.node.create_topic("t", 1)
        block = when_there_are_ids(self.node.broker)
        assert block is not None
        self.node.wait(block)
        self.transactions = self.node.transactions

    def replicate(self) -> None:
        """The follower has everything."""
        partition = self.node.partition(STATE)
        partition.record_fetch(2, fetch_offset=partition.local_log().log_end_offset, log_start_offset=0)
        self.node.run_ms(0)

    def kept(self, promise: Promise[Any]) -> Any:
        assert not promise.done(), "answered before it is committed"
        self.replicate()
        return promise.result()

    def begin(self) -> Producer:
        """A transaction with a partition."""
        producer = self.kept(self.transactions.init_producer_id(TX, timeout_ms=60_000))
        assert isinstance(producer, Producer)
        self.kept(self.transactions.add_partitions(TX, producer, [T0], client_version=2))
        return producer

    def marker_count(self) -> int:
        found = self.node.partition("t").local_log().read(0, bytes_max=10_000, isolation=Isolation.LOG_END)
        return 0 if found.slice is None else sum(one.is_control for one in batches(found.slice.read()))


def test_markers_follow_when_the_end_is_committed() -> None:
    play = Replicated()
    producer = play.begin()
    ended = play.transactions.end(TX, producer, is_commit=True, client_version=2)
    play.node.run_ms(100)
    assert not ended.done()
    assert play.marker_count() == 0
    play.replicate()
    assert ended.result() == Producer(1000, 1)
    assert play.marker_count() == 1
    described = play.transactions.describe(TX)
    assert play.kept(described).state is TransactionState.COMPLETE_COMMIT


def test_an_end_that_was_not_committed_is_taken_back_with_the_leadership() -> None:
    play = Replicated()
    producer = play.begin()
    ended = play.transactions.end(TX, producer, is_commit=True, client_version=2)
    play.transactions.on_resigned(0)
    play.node.run_ms(100)
    with pytest.raises(NotCoordinator):
        ended.result()
    assert play.marker_count() == 0
    # This log still has the record, and whoever leads with it has to finish.
    play.transactions.on_elected(0, 5)
    play.node.run_ms(40_000)
    assert play.marker_count() == 0, "a decision that only this node knows of may be lost with it"
    play.replicate()
    play.replicate()
    assert play.transactions.describe(TX).result().state is TransactionState.COMPLETE_COMMIT
    assert play.marker_count() == 1


def test_an_end_whose_commit_takes_too_long_is_finished_all_the_same() -> None:
    play = Replicated()
    producer = play.begin()
    ended = play.transactions.end(TX, producer, is_commit=False, client_version=2)
    play.node.run_ms(31_000)
    with pytest.raises(CoordinatorNotAvailable):
        ended.result()
    assert play.marker_count() == 0
    play.replicate()
    play.replicate()
    assert play.marker_count() == 1
    # The producer asks again, and is told what it missed.
    assert play.transactions.end(TX, producer, is_commit=False, client_version=2).result() == Producer(1000, 1)


def test_requests_see_what_is_decided_but_not_committed_yet() -> None:
    """Kafka tells a client that is quick to come again; here it is answered when everything before is committed."""
    play = Replicated()
    producer = play.kept(play.transactions.init_producer_id(TX, timeout_ms=60_000))
    first = play.transactions.add_partitions(TX, producer, [T0], client_version=2)
    second = play.transactions.add_partitions(TX, producer, [TopicPartition("t", 1)], client_version=2)
    described = play.transactions.describe(TX)
    assert not any(one.done() for one in (first, second, described))
    play.replicate()
    assert first.result() is None
    assert second.result() is None
    assert described.result().partitions == (T0, TopicPartition("t", 1))

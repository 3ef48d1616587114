"""Metadata while a leader dies: a client that asks within milliseconds is told of the next leader."""

from __future__ import annotations

from typing import Any

from ottla.errors import NetworkException, RequestTimedOut
from ottla.net import ConnectionRefused
from ottla.replica import FetcherManager, FetcherSettings
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.metadata import RegisterBrokerRecord
from ottla.wire.metadata.brokers import BrokerEndpoint
from tests.unit.replica.node import NODE_ID, TestNode

VERSION = 13
LEADER_ID = 2


def following() -> TestNode:
    """A node that fetches topic t from broker 2."""
    node = TestNode()
    node.replicas.fetchers = FetcherManager(
        node.world, node.replicas, node.other_brokers, FetcherSettings(NODE_ID), broker_epoch=lambda: 1
    )
    for broker_id in (NODE_ID, LEADER_ID, 3):
        endpoint = BrokerEndpoint("PLAINTEXT", f"host{broker_id}", 9092, 0)
        node.publish(RegisterBrokerRecord(broker_id=broker_id, broker_epoch=1, end_points=[endpoint], fenced=False))
    node.create_topic("t", 1, replicas=(LEADER_ID, NODE_ID, 3))
    node.run_ms(5)
    return node


def fail(node: TestNode, error: Exception) -> None:
    """The fetch that is under way fails."""
    _, _, promise = node.other_brokers.sent[-1]
    promise.set_exception(error)
    node.run_ms(1)


def ask(node: TestNode) -> Any:
    return node.begin(MetadataRequest([MetadataRequestTopic(name="t")]), VERSION)


def leader_in(response: Any) -> int:
    leader_id: int = response.topics[0].partitions[0].leader_id
    return leader_id


def waited_ms(node: TestNode, answer: Any) -> tuple[int, float]:
    """The leader that a client is told, and after how long."""
    begun_ms = node.world.clock.monotonic_ms()
    response = node.wait(answer) if hasattr(answer, "__await__") else answer
    return leader_in(response), node.world.clock.monotonic_ms() - begun_ms


def test_a_client_is_told_at_once_while_nothing_is_wrong() -> None:
    assert leader_in(ask(following())) == LEADER_ID


def test_a_client_of_a_leader_that_has_hung_up_is_told_of_the_next_one() -> None:
    node = following()
    fail(node, NetworkException("the broker closed the connection"))
    node.world.tasks.later(20, lambda: node.change_partition("t", 0, leader=3, isr=[3, NODE_ID]))
    told, ms = waited_ms(node, ask(node))
    assert told == 3
    assert 20 <= ms <= 30


def test_metadata_that_does_not_change_is_told_after_half_a_second() -> None:
    node = following()
    fail(node, NetworkException("the broker closed the connection"))
    told, ms = waited_ms(node, ask(node))
    assert told == LEADER_ID
    assert 490 <= ms <= 510
    assert leader_in(ask(node)) == LEADER_ID, "and from then on at once"


def test_a_leader_that_answers_again_is_not_lost() -> None:
    node = following()
    fail(node, NetworkException("the broker closed the connection"))
    node.run_ms(1_000)  # replica.fetch.backoff.ms
    fail(node, NetworkException("the broker closed the connection"))
    node.run_ms(1_000)
    _, _, promise = node.other_brokers.sent[-1]
    promise.set_result(FetchResponse(session_id=7))
    node.run_ms(1)
    assert leader_in(ask(node)) == LEADER_ID


def test_a_leader_that_is_slow_or_was_never_there_keeps_nobody_waiting() -> None:
    for error in (RequestTimedOut(), ConnectionRefused("refused")):
        node = following()
        fail(node, error)
        assert leader_in(ask(node)) == LEADER_ID

"""Verification at another broker's transaction coordinator, and markers to another broker's partitions."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator import EndMarker, Producer
from ottla.errors import (
    BrokerNotAvailable,
    ClusterAuthorizationFailed,
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    NetworkException,
    NotLeaderOrFollower,
    ProducerFenced,
    RequestTimedOut,
    TransactionAbortable,
    UnknownServerError,
    UnsupportedVersion,
)
from ottla.server import RoutedMarkers
from ottla.server.verification import Support, verify, verify_offsets
from ottla.types import TopicPartition
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.wire.metadata import BrokerRegistrationChangeRecord
from ottla.world import Promise
from tests.unit.replica.node import TestNode

PRODUCER = Producer(1000, 0)
T0 = TopicPartition("t", 0)


def node_with_a_coordinator_elsewhere() -> TestNode:
    node = TestNode()
    node.create_topic("__transaction_state", 1, replicas=(2, 1), cleanup_policy="compact")
    node.create_topic("__consumer_offsets", 1, cleanup_policy="compact")
    node.create_topic("t", 2)
    return node


def answer(node: TestNode, *codes: tuple[str, str, int, int]) -> None:
    """The coordinator's answer to the last request: transactional id, topic, partition and code of each."""
    results = [
        AddPartitionsToTxnResult(
            tx, [AddPartitionsToTxnTopicResult(topic, [AddPartitionsToTxnPartitionResult(index, code)])]
        )
        for tx, topic, index, code in codes
    ]
    node.other_brokers.sent[-1][2].set_result(AddPartitionsToTxnResponse(results_by_transaction=results))
    node.run_ms(1)


def begin(node: TestNode, support: Support, tx: str = "tx", **sequences: int) -> Promise[Any]:
    asked = verify(node.broker, tx, PRODUCER, {T0: 0}, support)
    node.run_ms(1)
    return asked


def test_a_coordinator_elsewhere_is_asked_and_its_word_counts() -> None:
    node = node_with_a_coordinator_elsewhere()
    asked = begin(node, Support.ABORTABLE)
    broker_id, request, _ = node.other_brokers.sent[0]
    assert broker_id == 2
    assert isinstance(request, AddPartitionsToTxnRequest)
    (transaction,) = request.transactions
    assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == ("tx", 1000, 0)
    assert transaction.verify_only
    assert [(topic.name, topic.partitions) for topic in transaction.topics] == [("t", [0])]
    assert not asked.done()
    answer(node, ("tx", "t", 0, 0))
    verdict = asked.result()
    assert verdict.errors == {}
    assert verdict.guards.keys() == {T0}


def test_a_client_of_transaction_version_2_has_its_partition_added() -> None:
    node = node_with_a_coordinator_elsewhere()
    begin(node, Support.ADDS_PARTITIONS)
    request = node.other_brokers.sent[0][1]
    assert isinstance(request, AddPartitionsToTxnRequest)
    assert not request.transactions[0].verify_only


def test_offsets_of_a_transaction_are_verified_elsewhere_too() -> None:
    node = node_with_a_coordinator_elsewhere()
    asked = verify_offsets(node.broker, "tx", PRODUCER, 0, version=4)
    node.run_ms(1)
    answer(node, ("tx", "__consumer_offsets", 0, TransactionAbortable.code))
    with pytest.raises(TransactionAbortable):
        asked.result()


@pytest.mark.parametrize(
    ("support", "told", "expected"),
    [
        (Support.ABORTABLE, ProducerFenced, InvalidProducerEpoch),
        (Support.ABORTABLE, TransactionAbortable, TransactionAbortable),
        (Support.NONE, TransactionAbortable, InvalidTxnState),
        (Support.ABORTABLE, ConcurrentTransactions, ConcurrentTransactions),
    ],
)
def test_errors_of_a_partition_are_told_in_words_that_the_producer_knows(
    support: Support, told: type[KafkaError], expected: type[KafkaError]
) -> None:
    node = node_with_a_coordinator_elsewhere()
    asked = begin(node, support)
    answer(node, ("tx", "t", 0, told.code))
    assert isinstance(asked.result().errors[T0], expected)


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (NetworkException(), NetworkException),
        (RequestTimedOut(), NetworkException),
        (BrokerNotAvailable(), CoordinatorNotAvailable),
        (UnsupportedVersion(), None),
        (ClusterAuthorizationFailed(), InvalidTxnState),
    ],
)
def test_a_coordinator_that_does_not_answer_or_refuses_the_request(
    failure: KafkaError, expected: type[KafkaError] | None
) -> None:
    node = node_with_a_coordinator_elsewhere()
    asked = begin(node, Support.ABORTABLE)
    if isinstance(failure, ClusterAuthorizationFailed):
        node.other_brokers.sent[0][2].set_result(AddPartitionsToTxnResponse(error_code=failure.code))
    else:
        node.other_brokers.sent[0][2].set_exception(failure)
    node.run_ms(1)
    errors = asked.result().errors
    assert errors == {} if expected is None else isinstance(errors[T0], expected)


def test_a_partition_that_the_coordinator_forgets_to_answer_is_not_taken_as_verified() -> None:
    node = node_with_a_coordinator_elsewhere()
    asked = begin(node, Support.ABORTABLE)
    answer(node)
    assert isinstance(asked.result().errors[T0], UnknownServerError)


def test_without_a_leader_or_with_a_fenced_one_there_is_no_coordinator() -> None:
    node = node_with_a_coordinator_elsewhere()
    node.publish(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=8, fenced=1))
    asked = begin(node, Support.ABORTABLE)
    assert isinstance(asked.result().errors[T0], CoordinatorNotAvailable)
    assert node.other_brokers.sent == []


# Markers

MARKER = EndMarker(1000, 0, 3, True)


def test_markers_go_to_whoever_leads_each_partition_and_their_codes_come_together() -> None:
    node = TestNode()
    node.create_topic("here", 1)
    node.create_topic("there", 2, replicas=(2, 1))
    node.create_topic("nowhere", 1, replicas=(2,), leader=-1)
    here, there, there_too, nowhere = (
        TopicPartition(*one) for one in (("here", 0), ("there", 0), ("there", 1), ("nowhere", 0))
    )
    markers = RoutedMarkers(lambda: node.broker)
    sent = markers.send(MARKER, [here, there, there_too, nowhere], transaction_version=2)
    other = markers.send(EndMarker(1001, 4, 3, False), [there], transaction_version=1)
    node.run_ms(1)
    ((broker_id, request, promise),) = node.other_brokers.sent
    assert broker_id == 2
    assert isinstance(request, WriteTxnMarkersRequest)
    assert [
        (one.producer_id, one.producer_epoch, one.coordinator_epoch, one.transaction_result, one.transaction_version)
        for one in request.markers
    ] == [(1000, 0, 3, True, 2), (1001, 4, 3, False, 1)]
    assert [(topic.name, topic.partition_indexes) for topic in request.markers[0].topics] == [("there", [0, 1])]
    assert not sent.done()
    promise.set_result(
        WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(1001, [_told("there", (0, 0))]),
                WritableTxnMarkerResult(1000, [_told("there", (0, 0), (1, RequestTimedOut.code))]),
            ]
        )
    )
    node.run_ms(1)
    assert sent.result() == {here: 0, there: 0, there_too: RequestTimedOut.code, nowhere: NotLeaderOrFollower.code}
    assert other.result() == {there: 0}
    assert node.partition("here").local_log().log_end_offset == 1


def _told(topic: str, *codes: tuple[int, int]) -> WritableTxnMarkerTopicResult:
    return WritableTxnMarkerTopicResult(topic, [WritableTxnMarkerPartitionResult(*one) for one in codes])


def test_markers_to_a_broker_that_is_gone_are_to_be_sent_again() -> None:
    node = TestNode()
    node.create_topic("there", 1, replicas=(2, 1))
    there = TopicPartition("there", 0)
    for failure, code in (
        (NetworkException(), NetworkException.code),
        (RequestTimedOut(), NetworkException.code),
        (BrokerNotAvailable(), NetworkException.code),
        (UnsupportedVersion(), UnknownServerError.code),
    ):
        sent = RoutedMarkers(lambda: node.broker).send(MARKER, [there], transaction_version=2)
        node.run_ms(1)
        node.other_brokers.sent[-1][2].set_exception(failure)
        node.run_ms(1)
        assert sent.result() == {there: code}

"""`RemoteMarkers`: transaction markers on their way to the brokers that lead their partitions, by WriteTxnMarkers.

A request carries the markers of many transactions; what a broker does not answer counts as a broken connection, which
the transaction coordinator tries again where the partition is led then. Called by `RoutedMarkers`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator import EndMarker
from ottla.errors import BrokerNotAvailable, KafkaError, NetworkException, RequestTimedOut, UnknownServerError
from ottla.server.broker_requests import BrokerRequests
from ottla.server.promises import recovered
from ottla.types import TopicPartition
from ottla.wire import Message
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.world import Promise

if TYPE_CHECKING:
    from ottla.server.broker import BrokerServices

Codes = Mapping[TopicPartition, int]


class _Question(NamedTuple):
    marker: EndMarker
    partitions: Sequence[TopicPartition]
    transaction_version: int


class RemoteMarkers:
    """See the module."""

    def __init__(self, broker: BrokerServices) -> None:
        self._tasks = broker.node.world.tasks
        self._requests: BrokerRequests[_Question, Codes] = BrokerRequests(
            broker.peers,
            self._tasks,
            lane="transaction-markers",
            timeout_ms=lambda: broker.node.config.request_timeout_ms,
            subject=lambda question: question.marker.producer_id,
            request=_request,
            answers=_answers,
        )

    def send(
        self, broker_id: int, marker: EndMarker, partitions: Sequence[TopicPartition], *, transaction_version: int
    ) -> Promise[Codes]:
        """Have `marker` written to partitions that the broker leads. The promise does not fail."""
        question = _Question(marker, partitions, transaction_version)

        def failed(error: KafkaError) -> Codes:
            is_lost = isinstance(error, NetworkException | RequestTimedOut | BrokerNotAvailable)
            return dict.fromkeys(partitions, NetworkException.code if is_lost else UnknownServerError.code)

        return recovered(self._tasks, lambda: self._requests.ask(broker_id, question), failed)


def _request(questions: Sequence[_Question]) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(markers=[_marker(*question) for question in questions])


def _marker(marker: EndMarker, partitions: Sequence[TopicPartition], transaction_version: int) -> WritableTxnMarker:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.is_commit,
        topics=[WritableTxnMarkerTopic(topic, indexes) for topic, indexes in by_topic.items()],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=transaction_version,
    )


def _answers(questions: Sequence[_Question], response: Message) -> list[Codes]:
    """By producer: each is asked about once. A partition that is not answered has failed for reasons unknown."""
    assert isinstance(response, WriteTxnMarkersResponse), response
    told: dict[int, dict[TopicPartition, int]] = {}
    for result in response.markers:
        codes = told.setdefault(result.producer_id, {})
        for topic in result.topics:
            for one in topic.partitions:
                codes[TopicPartition(topic.name, one.partition_index)] = one.error_code
    return [
        {one: told.get(marker.producer_id, {}).get(one, UnknownServerError.code) for one in partitions}
        for marker, partitions, _ in questions
    ]

"""WriteTxnMarkers (key 27): append the markers that end transactions to partitions that this node leads.

Sent by transaction coordinators, and by operators who abort a transaction that hangs (`kafka-transactions abort`).
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.coordinator import EndMarker
from ottla.errors import InvalidRequest, KafkaError
from ottla.server.context import BrokerContext
from ottla.server.promises import gathered, mapped
from ottla.server.transaction_markers import LocalMarkers
from ottla.types import TopicPartition
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.world import Promise

API_KEY = 27


def handle(context: BrokerContext, request: WriteTxnMarkersRequest) -> Promise[WriteTxnMarkersResponse]:
    for one in request.markers:
        if one.producer_id < 0 or one.producer_epoch < 0 or one.transaction_version < 0:
            raise InvalidRequest("A marker needs a producer and a transaction version.")
    tasks = context.node.world.tasks
    markers = LocalMarkers(lambda: context.broker)
    sent = [
        markers.send(
            EndMarker(one.producer_id, one.producer_epoch, one.coordinator_epoch, one.transaction_result),
            _partitions(one),
            transaction_version=one.transaction_version,
        )
        for one in request.markers
    ]
    return mapped(tasks, gathered(tasks, sent), lambda found: _response(request, found))


def failed(request: WriteTxnMarkersRequest, error: KafkaError, version: int) -> WriteTxnMarkersResponse:
    """The same error for every partition."""
    return _response(request, [dict.fromkeys(_partitions(one), error.code) for one in request.markers])


def _partitions(marker: WritableTxnMarker) -> list[TopicPartition]:
    named = {TopicPartition(topic.name, index): None for topic in marker.topics for index in topic.partition_indexes}
    return list(named)


def _response(request: WriteTxnMarkersRequest, found: list[Mapping[TopicPartition, int]]) -> WriteTxnMarkersResponse:
    """One result for each producer, as Kafka's: what is told of a partition last is what counts."""
    by_producer: dict[int, dict[TopicPartition, int]] = {}
    for marker, codes in zip(request.markers, found, strict=True):
        by_producer.setdefault(marker.producer_id, {}).update(codes)
    results = []
    for producer_id, codes in by_producer.items():
        by_topic: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
        for (topic, index), code in codes.items():
            by_topic.setdefault(topic, []).append(WritableTxnMarkerPartitionResult(index, code))
        topics = [WritableTxnMarkerTopicResult(topic, partitions) for topic, partitions in by_topic.items()]
        results.append(WritableTxnMarkerResult(producer_id, topics))
    return WriteTxnMarkersResponse(markers=results)

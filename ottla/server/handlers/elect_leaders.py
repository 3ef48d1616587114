"""ElectLeaders (key 43): leaders are elected anew, preferred ones or uncleanly. The controller decides."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.errors import KafkaError
from ottla.server.context import BrokerContext
from ottla.server.forwarding import forward
from ottla.wire import Message
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

API_KEY = 43


def handle(context: BrokerContext, request: ElectLeadersRequest) -> Awaitable[Message]:
    """The controller's answer."""
    return forward(context, request)


def failed(request: ElectLeadersRequest, error: KafkaError, version: int) -> ElectLeadersResponse:
    """Every partition with the error, and from version 1 the whole request too."""
    return ElectLeadersResponse(
        error_code=error.code if version >= 1 else 0,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[PartitionResult(index, error.code, error.message) for index in topic.partitions],
            )
            for topic in request.topic_partitions or ()
        ],
    )

"""AlterPartitionReassignments (key 45): replicas move to other brokers. The controller decides."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.errors import KafkaError
from ottla.server.context import BrokerContext
from ottla.server.forwarding import forward
from ottla.wire import Message
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

API_KEY = 45


def handle(context: BrokerContext, request: AlterPartitionReassignmentsRequest) -> Awaitable[Message]:
    """The controller's answer."""
    return forward(context, request)


def failed(
    request: AlterPartitionReassignmentsRequest, error: KafkaError, version: int
) -> AlterPartitionReassignmentsResponse:
    """Every partition with the error, and the whole request too."""
    return AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(partition.partition_index, error.code, error.message)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )

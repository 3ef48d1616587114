"""ListPartitionReassignments (key 46): which replicas are moving. The controller decides."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.errors import KafkaError
from ottla.server.context import BrokerContext
from ottla.server.forwarding import forward
from ottla.wire import Message
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

API_KEY = 46


def handle(context: BrokerContext, request: ListPartitionReassignmentsRequest) -> Awaitable[Message]:
    """The controller's answer."""
    return forward(context, request)


def failed(
    request: ListPartitionReassignmentsRequest, error: KafkaError, version: int
) -> ListPartitionReassignmentsResponse:
    """The partitions asked for, and the error for all of them."""
    return ListPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        topics=[
            OngoingTopicReassignment(
                name=topic.name,
                partitions=[OngoingPartitionReassignment(partition_index=index) for index in topic.partition_indexes],
            )
            for topic in request.topics or ()
        ],
    )

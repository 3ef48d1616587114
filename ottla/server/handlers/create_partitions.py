"""CreatePartitions (key 37): topics get more partitions. The controller decides."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.errors import KafkaError
from ottla.server.context import BrokerContext
from ottla.server.forwarding import forward
from ottla.wire import Message
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

API_KEY = 37


def handle(context: BrokerContext, request: CreatePartitionsRequest) -> Awaitable[Message]:
    """The controller's answer."""
    return forward(context, request)


def failed(request: CreatePartitionsRequest, error: KafkaError, version: int) -> CreatePartitionsResponse:
    """Every topic with the error."""
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )

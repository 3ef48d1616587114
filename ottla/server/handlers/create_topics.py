"""CreateTopics (key 19): topics come into being. The controller decides."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.errors import KafkaError
from ottla.server.context import BrokerContext
from ottla.server.forwarding import forward
from ottla.wire import Message
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

API_KEY = 19


def handle(context: BrokerContext, request: CreateTopicsRequest) -> Awaitable[Message]:
    """The controller's answer."""
    return forward(context, request)


def failed(request: CreateTopicsRequest, error: KafkaError, version: int) -> CreateTopicsResponse:
    """Every topic with the error."""
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )

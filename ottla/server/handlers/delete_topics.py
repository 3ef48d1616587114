"""DeleteTopics (key 20): topics go, by name or by id. The controller decides."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.errors import KafkaError
from ottla.server.context import BrokerContext
from ottla.server.forwarding import forward
from ottla.wire import Message
from ottla.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

API_KEY = 20


def handle(context: BrokerContext, request: DeleteTopicsRequest) -> Awaitable[Message]:
    """The controller's answer."""
    return forward(context, request)


def failed(request: DeleteTopicsRequest, error: KafkaError, version: int) -> DeleteTopicsResponse:
    """Every topic with the error."""
    results = [
        DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=error.code)
        for topic in request.topics
    ]
    results += [DeletableTopicResult(name=name, error_code=error.code) for name in request.topic_names]
    return DeleteTopicsResponse(responses=results)

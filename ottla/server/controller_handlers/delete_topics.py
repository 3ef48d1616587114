"""DeleteTopics (key 20): topics go, by name or by id."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import ControllerContext
from ottla.server.deciding import decide
from ottla.server.handlers import delete_topics
from ottla.wire import Message
from ottla.wire.messages.delete_topics import DeleteTopicsRequest

API_KEY = 20
failed = delete_topics.failed


def handle(context: ControllerContext, request: DeleteTopicsRequest) -> Awaitable[Message]:
    """What the controller decides."""
    return decide(context, request)

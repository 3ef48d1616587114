"""CreateTopics (key 19): topics come into being."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import ControllerContext
from ottla.server.deciding import decide
from ottla.server.handlers import create_topics
from ottla.wire import Message
from ottla.wire.messages.create_topics import CreateTopicsRequest

API_KEY = 19
failed = create_topics.failed


def handle(context: ControllerContext, request: CreateTopicsRequest) -> Awaitable[Message]:
    """What the controller decides."""
    return decide(context, request)

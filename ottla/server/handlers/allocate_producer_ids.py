"""AllocateProducerIds (key 67): a broker asks for a block of producer ids. The controller decides."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import RequestContext
from ottla.server.forwarding import forward
from ottla.wire import Message
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest

API_KEY = 67


def handle(context: RequestContext, request: AllocateProducerIdsRequest) -> Awaitable[Message]:
    """The controller's answer."""
    return forward(context, request)

"""AllocateProducerIds (key 67): a broker asks for a block of producer ids."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import ControllerContext
from ottla.server.deciding import decide
from ottla.wire import Message
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest

API_KEY = 67


def handle(context: ControllerContext, request: AllocateProducerIdsRequest) -> Awaitable[Message]:
    """What the controller decides."""
    return decide(context, request)

"""UnregisterBroker (key 64): a broker that will not return is taken out of the cluster."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import ControllerContext
from ottla.server.deciding import decide
from ottla.wire import Message
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest

API_KEY = 64


def handle(context: ControllerContext, request: UnregisterBrokerRequest) -> Awaitable[Message]:
    """What the controller decides."""
    return decide(context, request)

"""UnregisterBroker (key 64): a broker that will not return is taken out of the cluster. The controller decides."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import BrokerContext
from ottla.server.forwarding import forward
from ottla.wire import Message
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest

API_KEY = 64


def handle(context: BrokerContext, request: UnregisterBrokerRequest) -> Awaitable[Message]:
    """The controller's answer."""
    return forward(context, request)

"""BrokerRegistration (key 62): a broker that starts tells who and where it is. The controller decides."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import RequestContext
from ottla.server.forwarding import forward
from ottla.wire import Message
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest

API_KEY = 62


def handle(context: RequestContext, request: BrokerRegistrationRequest) -> Awaitable[Message]:
    """The controller's answer."""
    return forward(context, request)

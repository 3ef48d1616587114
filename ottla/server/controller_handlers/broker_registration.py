"""BrokerRegistration (key 62): a broker that starts tells who and where it is."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import ControllerContext
from ottla.server.deciding import decide
from ottla.wire import Message
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest

API_KEY = 62


def handle(context: ControllerContext, request: BrokerRegistrationRequest) -> Awaitable[Message]:
    """What the controller decides."""
    return decide(context, request)

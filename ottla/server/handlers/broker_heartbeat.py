"""BrokerHeartbeat (key 63): a broker says that it is alive, and asks to start or stop. The controller decides."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import RequestContext
from ottla.server.forwarding import forward
from ottla.wire import Message
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest

API_KEY = 63


def handle(context: RequestContext, request: BrokerHeartbeatRequest) -> Awaitable[Message]:
    """The controller's answer."""
    return forward(context, request)

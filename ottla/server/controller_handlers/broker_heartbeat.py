"""BrokerHeartbeat (key 63): a broker says that it is alive, and asks to start or stop."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import ControllerContext
from ottla.server.deciding import decide
from ottla.wire import Message
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest

API_KEY = 63


def handle(context: ControllerContext, request: BrokerHeartbeatRequest) -> Awaitable[Message]:
    """What the controller decides."""
    return decide(context, request)

"""BrokerHeartbeat (key 63): a broker says that it is alive, and asks to start or stop."""

from __future__ import annotations

from ottla.server.context import ControllerContext
from ottla.server.deciding import decide
from ottla.wire import Message
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest

API_KEY = 63


async def handle(context: ControllerContext, request: BrokerHeartbeatRequest) -> Message:
    """What the controller decides. It is told of the connection, whose end may be the broker's."""
    response = await decide(context, request)
    context.controller.controller.heard_over(request.broker_id, request.broker_epoch, context.connection)
    return response

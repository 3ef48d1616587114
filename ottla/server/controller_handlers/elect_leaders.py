"""ElectLeaders (key 43): leaders are elected anew, preferred ones or uncleanly."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import ControllerContext
from ottla.server.deciding import decide
from ottla.server.handlers import elect_leaders
from ottla.wire import Message
from ottla.wire.messages.elect_leaders import ElectLeadersRequest

API_KEY = 43
failed = elect_leaders.failed


def handle(context: ControllerContext, request: ElectLeadersRequest) -> Awaitable[Message]:
    """What the controller decides."""
    return decide(context, request)

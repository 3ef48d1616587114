"""ControllerRegistration (key 70): a controller tells where it is and what it can."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import ControllerContext
from ottla.server.deciding import decide
from ottla.wire import Message
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest

API_KEY = 70


def handle(context: ControllerContext, request: ControllerRegistrationRequest) -> Awaitable[Message]:
    """What the controller decides."""
    return decide(context, request)

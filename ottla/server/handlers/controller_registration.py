"""ControllerRegistration (key 70): a controller tells where it is and what it can. The controller decides."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import RequestContext
from ottla.server.forwarding import forward
from ottla.wire import Message
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest

API_KEY = 70


def handle(context: RequestContext, request: ControllerRegistrationRequest) -> Awaitable[Message]:
    """The controller's answer."""
    return forward(context, request)

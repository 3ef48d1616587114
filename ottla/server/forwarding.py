"""Requests that the controller decides: sent on as they are, in the client's version, and answered with its answer."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import RequestContext
from ottla.wire import Message


def forward(context: RequestContext, request: Message) -> Awaitable[Message]:
    """The controller's answer. What it cannot answer it raises, and dispatch tells the client."""
    return context.broker.controller.send(request, version=context.version)

"""Requests that the controller decides: passed on in the client's name and version, and answered with its answer."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import BrokerContext
from ottla.wire import Message


def forward(context: BrokerContext, request: Message) -> Awaitable[Message]:
    """The controller's answer. What it cannot answer it raises, and dispatch tells the client."""
    return context.broker.controller.forward(context, request)

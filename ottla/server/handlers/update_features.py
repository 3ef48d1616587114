"""UpdateFeatures (key 57): feature levels are raised or lowered. The controller decides."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import BrokerContext
from ottla.server.forwarding import forward
from ottla.wire import Message
from ottla.wire.messages.update_features import UpdateFeaturesRequest

API_KEY = 57


def handle(context: BrokerContext, request: UpdateFeaturesRequest) -> Awaitable[Message]:
    """The controller's answer."""
    return forward(context, request)

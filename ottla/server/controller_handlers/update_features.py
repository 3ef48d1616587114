"""UpdateFeatures (key 57): feature levels are raised or lowered."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import ControllerContext
from ottla.server.deciding import decide
from ottla.wire import Message
from ottla.wire.messages.update_features import UpdateFeaturesRequest

API_KEY = 57


def handle(context: ControllerContext, request: UpdateFeaturesRequest) -> Awaitable[Message]:
    """What the controller decides."""
    return decide(context, request)

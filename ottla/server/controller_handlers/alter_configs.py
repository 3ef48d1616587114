"""AlterConfigs (key 33) at a controller: all settings of a resource are replaced at once."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import ControllerContext
from ottla.server.deciding import decide
from ottla.server.handlers import alter_configs
from ottla.wire import Message
from ottla.wire.messages.alter_configs import AlterConfigsRequest

API_KEY = 33
failed = alter_configs.failed


def handle(context: ControllerContext, request: AlterConfigsRequest) -> Awaitable[Message]:
    """What the controller decides."""
    return decide(context, request)

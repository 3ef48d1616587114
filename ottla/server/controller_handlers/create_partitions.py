"""CreatePartitions (key 37): topics get more partitions."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import ControllerContext
from ottla.server.deciding import decide
from ottla.server.handlers import create_partitions
from ottla.wire import Message
from ottla.wire.messages.create_partitions import CreatePartitionsRequest

API_KEY = 37
failed = create_partitions.failed


def handle(context: ControllerContext, request: CreatePartitionsRequest) -> Awaitable[Message]:
    """What the controller decides."""
    return decide(context, request)

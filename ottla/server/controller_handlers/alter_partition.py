"""AlterPartition (key 56): a leader tells which replicas are in sync."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import ControllerContext
from ottla.server.deciding import decide
from ottla.wire import Message
from ottla.wire.messages.alter_partition import AlterPartitionRequest

API_KEY = 56


def handle(context: ControllerContext, request: AlterPartitionRequest) -> Awaitable[Message]:
    """What the controller decides."""
    return decide(context, request)

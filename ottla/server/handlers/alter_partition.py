"""AlterPartition (key 56): a leader tells which replicas are in sync. The controller decides."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import RequestContext
from ottla.server.forwarding import forward
from ottla.wire import Message
from ottla.wire.messages.alter_partition import AlterPartitionRequest

API_KEY = 56


def handle(context: RequestContext, request: AlterPartitionRequest) -> Awaitable[Message]:
    """The controller's answer."""
    return forward(context, request)

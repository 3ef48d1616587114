"""ListPartitionReassignments (key 46): which replicas are moving."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import ControllerContext
from ottla.server.deciding import decide
from ottla.server.handlers import list_partition_reassignments
from ottla.wire import Message
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

API_KEY = 46
failed = list_partition_reassignments.failed


def handle(context: ControllerContext, request: ListPartitionReassignmentsRequest) -> Awaitable[Message]:
    """What the controller decides."""
    return decide(context, request)

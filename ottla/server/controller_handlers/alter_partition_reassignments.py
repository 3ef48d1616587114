"""AlterPartitionReassignments (key 45): replicas move to other brokers."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import ControllerContext
from ottla.server.deciding import decide
from ottla.server.handlers import alter_partition_reassignments
from ottla.wire import Message
from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest

API_KEY = 45
failed = alter_partition_reassignments.failed


def handle(context: ControllerContext, request: AlterPartitionReassignmentsRequest) -> Awaitable[Message]:
    """What the controller decides."""
    return decide(context, request)

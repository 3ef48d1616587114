"""AssignReplicasToDirs (key 73): a broker tells in which directory each replica is."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import ControllerContext
from ottla.server.deciding import decide
from ottla.wire import Message
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest

API_KEY = 73


def handle(context: ControllerContext, request: AssignReplicasToDirsRequest) -> Awaitable[Message]:
    """What the controller decides."""
    return decide(context, request)

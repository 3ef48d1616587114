"""AssignReplicasToDirs (key 73): a broker tells in which directory each replica is. The controller decides."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import RequestContext
from ottla.server.forwarding import forward
from ottla.wire import Message
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest

API_KEY = 73


def handle(context: RequestContext, request: AssignReplicasToDirsRequest) -> Awaitable[Message]:
    """The controller's answer."""
    return forward(context, request)

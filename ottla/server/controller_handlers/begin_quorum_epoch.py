"""BeginQuorumEpoch (key 53) at a controller: the leader of a new epoch tells this voter of itself."""

from __future__ import annotations

from ottla.server.context import ControllerContext
from ottla.wire import Message
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from ottla.world import Promise

API_KEY = 53


def handle(context: ControllerContext, request: BeginQuorumEpochRequest) -> Message | Promise[Message]:
    """What raft answers."""
    return context.controller.raft.handle(request, version=context.version, listener=context.listener_name)

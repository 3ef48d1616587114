"""EndQuorumEpoch (key 54) at a controller: a leader that resigns tells this voter who should follow."""

from __future__ import annotations

from ottla.server.context import ControllerContext
from ottla.wire import Message
from ottla.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from ottla.world import Promise

API_KEY = 54


def handle(context: ControllerContext, request: EndQuorumEpochRequest) -> Message | Promise[Message]:
    """What raft answers."""
    return context.controller.raft.handle(request, version=context.version, listener=context.listener_name)

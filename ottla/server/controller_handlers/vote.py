"""Vote (key 52) at a controller: a candidate asks this voter for its vote, or whether it would get it (KIP-996)."""

from __future__ import annotations

from ottla.server.context import ControllerContext
from ottla.wire import Message
from ottla.wire.messages.vote import VoteRequest
from ottla.world import Promise

API_KEY = 52


def handle(context: ControllerContext, request: VoteRequest) -> Message | Promise[Message]:
    """What raft answers."""
    return context.controller.raft.handle(request, version=context.version, listener=context.listener_name)

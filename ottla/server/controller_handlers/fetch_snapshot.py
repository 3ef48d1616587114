"""FetchSnapshot (key 59) at a controller: a voter or an observer reads a snapshot of the metadata log."""

from __future__ import annotations

from ottla.server.context import ControllerContext
from ottla.wire import Message
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest
from ottla.world import Promise

API_KEY = 59


def handle(context: ControllerContext, request: FetchSnapshotRequest) -> Message | Promise[Message]:
    """What raft answers."""
    return context.controller.raft.handle(request, version=context.version, listener=context.listener_name)

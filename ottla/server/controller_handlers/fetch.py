"""Fetch (key 1) at a controller: a voter or an observer reads the metadata log."""

from __future__ import annotations

from ottla.server.context import ControllerContext
from ottla.server.handlers import fetch
from ottla.wire import Message
from ottla.wire.messages.fetch import FetchRequest
from ottla.world import Promise

API_KEY = 1
failed = fetch.failed


def handle(context: ControllerContext, request: FetchRequest) -> Message | Promise[Message]:
    """What raft answers."""
    return context.controller.raft.handle(request, version=context.version, listener=context.listener_name)

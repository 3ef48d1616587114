"""Requests that the controller of this node decides. Called by the handlers of a controller's listeners."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import ControllerContext
from ottla.wire import Message


def decide(context: ControllerContext, request: Message) -> Awaitable[Message]:
    """The controller's answer; `NotController` while another node is the active one."""
    return context.controller.controller.handle(request, version=context.version)

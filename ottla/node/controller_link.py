"""The way from a broker to the controller in the same process: a call instead of a connection."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.metadata import Controller
from ottla.server import Dispatcher, RequestContext
from ottla.wire import Message


class LocalController:
    """A `ControllerLink` to the controller of this node, which leads the quorum of one."""

    def __init__(self, controller: Controller, dispatcher: Dispatcher) -> None:
        self._controller = controller
        self._dispatcher = dispatcher

    def send(self, request: Message, *, version: int) -> Awaitable[Message]:
        return self._controller.handle(request, version=version)

    def forward(self, context: RequestContext, request: Message) -> Awaitable[Message]:
        answer = self._dispatcher.call(context, context.connection, request)
        assert answer is not None, f"{request.schema.name} is always answered"
        assert not isinstance(answer, Message), "a controller's answer waits for its records"
        return answer

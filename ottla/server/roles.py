"""The roles of a node's listeners: which APIs each serves, and where the handler of each is.

Fetch is the replica manager's at a broker and raft's at a controller: the table says so. Called by `dispatch`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ottla.server import controller_handlers, handlers, shared_handlers
from ottla.server.context import BrokerContext, ControllerContext, RequestContext
from ottla.wire import Api


class Role(NamedTuple):
    """What one kind of listener serves."""

    name: str
    packages: Mapping[str, str]
    """By the API's name: the package that has its handler."""
    context: Callable[[int, int, str | None, Any, Any, Any], RequestContext]
    """Makes what a handler is told besides the request, with the services of the role in it."""
    unadvertised: frozenset[str] = frozenset()

    def handler_module(self, api: Api) -> str | None:
        """The name of the module with the API's handler; None where the API is not served."""
        package = self.packages.get(api.name)
        return None if package is None else api.module.replace("ottla.wire.messages", package)


def _packages(of_the_role: Any) -> dict[str, str]:
    """The handlers that both roles have, and then the role's own."""
    return {name: package.__name__ for package in (shared_handlers, of_the_role) for name in sorted(package.SERVED)}


BROKER = Role("broker", _packages(handlers), BrokerContext, handlers.UNADVERTISED)
CONTROLLER = Role("controller", _packages(controller_handlers), ControllerContext)
ROLES = {role.name: role for role in (BROKER, CONTROLLER)}

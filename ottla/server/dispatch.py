"""Dispatch: from an API key and a version to a handler, and from an error to its response.

A `Route` holds everything about one version of one API that a session needs for a request, so that serving one costs a
single look-up. Routes are made when they are first used: only then are the handler and the message classes imported.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.errors import KafkaError, UnknownServerError, UnsupportedVersion
from ottla.server.broker import BrokerServices
from ottla.server.controller_services import ControllerServices
from ottla.server.metrics import ApiMetrics
from ottla.server.roles import BROKER, CONTROLLER, Role
from ottla.wire import APIS, Api, Message, request_class, response_class
from ottla.wire.messages.api_versions import ApiVersion
from ottla.world import Promise

if TYPE_CHECKING:
    from ottla.server.produce_heads import ProduceHeads

log = logging.getLogger(__name__)

Answer: TypeAlias = Message | Awaitable[Message] | Promise[Message] | None
Handler: TypeAlias = Callable[[Any, Any], Answer]
"""With the context of its role, which the handler's own type tells, and its request."""
Failed: TypeAlias = Callable[[Any, KafkaError, int], Message | None]

API_VERSIONS = 18
PRODUCE = 0


class Route:
    """One version of one API: how its requests are read, handled and answered."""

    __slots__ = (
        "api",
        "failed",
        "handle",
        "handle_one",
        "has_parts",
        "heads",
        "is_flexible",
        "is_lent",
        "may_overlap",
        "metrics",
        "request_class",
        "response_class",
        "response_head",
        "version",
    )

    def __init__(self, api: Api, version: int, module: Any, metrics: ApiMetrics) -> None:
        assert api.key == module.API_KEY, f"{module.__name__} is the handler of {module.API_KEY}, not of {api.key}"
        self.api = api
        self.version = version
        self.handle: Handler = module.handle
        self.failed: Failed = getattr(module, "failed", None) or _fails_with_code(response_class(api.key))
        self.may_overlap: bool = getattr(module, "MAY_OVERLAP", False)
        self.metrics = metrics
        self.request_class = request_class(api.key)
        self.response_class = response_class(api.key)
        self.is_lent = api.key == PRODUCE
        self.is_flexible = api.request_header_version(version) == 2
        self.response_head = bytes(9 if api.response_header_version(version) else 8)
        """Room for the size and the correlation id, and the empty tags of a flexible header."""
        self.has_parts = _has_records(self.response_class)
        self.heads: ProduceHeads | None = None
        """For Produce: the beginnings of requests that need not be decoded again, for `handle_one`."""
        self.handle_one: Any = getattr(module, "handle_one", None)

    def error_response(self, request: Message, error: BaseException) -> Message | None:
        """What a client is told of `error`; None when the API has no place for it. All but `KafkaError`s are logged."""
        if not isinstance(error, KafkaError):
            log.error(
                "[Dispatch] Unexpected error while handling %s v%d",
                self.api.name,
                self.version,
                exc_info=error,
            )
            error = UnknownServerError()
        self.metrics.count_error(error.name)
        return self.failed(request, error, self.version)


class Dispatcher:
    """The routes of one kind of listener, and the services that its handlers work with."""

    def __init__(self, services: BrokerServices | ControllerServices) -> None:
        role = BROKER if isinstance(services, BrokerServices) else CONTROLLER
        self.role: Role = role
        self.node = services.node
        self.services: Any = services
        """Of the role; the contexts that `role` makes carry them to the handlers."""
        self.apis: list[Api] = [api for api in APIS.values() if api.name in role.packages]
        for api in self.apis:
            assert role.name in api.listeners, f"{api.name} is not an API of a {role.name}"
        self.advertised = [
            ApiVersion(api.key, *api.advertised) for api in self.apis if api.name not in role.unadvertised
        ]
        """As clients are told: made once, and never changed."""
        self.routes: dict[int, Route] = {}
        """By the API key in the upper and the version in the lower 16 bits, as they stand at the head of a request."""

    def route(self, key: int) -> Route | None:
        """The route of a head that has not been seen before; None when the API or the version is not served."""
        api = APIS.get(key >> 16)
        version = key & 0xFFFF
        name = None if api is None else self.role.handler_module(api)
        if api is None or name is None or not api.versions.includes(version):
            return None
        if api.is_latest_unstable and version == api.versions.last:
            return None
        module = importlib.import_module(name)
        route = self.routes[key] = Route(api, version, module, self.node.metrics.api(api.name, version))
        if api.key == PRODUCE and route.is_flexible:
            from ottla.server.produce_heads import ProduceHeads  # with its messages, so only when one is produced

            route.heads = ProduceHeads(version, route.response_head)
        return route

    def find(self, api_key: int, version: int) -> Route:
        """The route of a request that came another way than over a connection; `UnsupportedVersion` where none is."""
        key = api_key << 16 | version
        route = self.routes.get(key) or self.route(key)
        if route is None:
            raise UnsupportedVersion(f"Version {version} of API {api_key} is not served by a {self.role.name}")
        return route


def _fails_with_code(cls: type[Message]) -> Failed:
    names = [field.name for field in cls.schema.fields]
    has_message = "error_message" in names

    def failed(request: Message, error: KafkaError, version: int) -> Message | None:
        response: Any = cls()
        response.error_code = error.code
        if has_message:
            response.error_message = error.message
        return response  # type: ignore[no-any-return]

    def closes(request: Message, error: KafkaError, version: int) -> Message | None:
        return None

    return failed if "error_code" in names else closes


def _has_records(cls: type[Message]) -> bool:
    """Whether its responses carry record batches, which are sent from where they are."""
    pending = [cls.schema]
    while pending:
        for field in pending.pop().fields:
            kind = field.type
            while kind.element is not None:
                kind = kind.element
            if kind.struct is not None:
                pending.append(kind.struct)
            elif kind.kind == "records":
                return True
    return False

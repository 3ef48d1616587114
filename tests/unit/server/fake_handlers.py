"""Handlers made by a test, put in the place of real ones."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ottla.server import Route
from ottla.wire import APIS
from tests.unit.server.nodes import Server


def route(
    server: Server,
    name: str,
    version: int,
    handle: Callable[[Any, Any], Any],
    *,
    may_overlap: bool = False,
    failed: Callable[[Any, Any, int], Any] | None = None,
) -> None:
    """Serve one version of an API with `handle`."""
    api = next(api for api in APIS.values() if api.name == name)
    module = SimpleNamespace(
        __name__=f"test handler of {name}", API_KEY=api.key, handle=handle, MAY_OVERLAP=may_overlap, failed=failed
    )
    metrics = server.node.metrics.api(name, version)
    server.dispatcher.routes[api.key << 16 | version] = Route(api, version, module, metrics)

"""How the simulated clients use `net.Link`: any version that both sides know, and a witness of what a node may not do.

Promises: a node that answers out of order, or to no request, or what cannot be read to its last byte, or that refuses a
handshake, is a `Violation`. A connection that is lost is none: what waits fails with one of `LOST`.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ottla.errors import KafkaError, NetworkException, RequestTimedOut, error_class
from ottla.net import BadAnswer, Build, Connection, Link, LinkObserver, LinkSettings, VersionsExchange
from ottla.sim.history import Violation
from ottla.wire import Message, find_api
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.world import Address, NodeWorld

REQUEST_TIMEOUT_MS = 20_000
CONNECT_TIMEOUT_MS = 1_000
"""Less than real clients take: a run lasts for seconds, and a client that waits proves nothing."""
LOST = (NetworkException, RequestTimedOut)
"""What a request fails with that was not answered: it may or may not have been carried out."""


def new_link(
    world: NodeWorld, chance: Random, address: tuple[str, int], name: str, observer: LinkObserver | None = None
) -> Link:
    """A link that asks for the versions in any of their own."""
    return Link(
        world,
        Address(*address),
        LinkSettings(client_id=name, connect_timeout_ms=CONNECT_TIMEOUT_MS, is_strict=True),
        subject=name,
        observer=observer,
        handshake=lambda: (_Introduction(chance.randint(0, find_api(18).versions.last)),),
    )


def at_version(request: Message, version: int) -> Build:
    """The request in this version and no other."""
    assert request.schema.api_key is not None, "a request has an API"
    return Build(request.schema.api_key, lambda _: request, version, version)


class Witness(LinkObserver):
    """Complains of a node that breaks the protocol."""

    def __init__(self, name: str, complain: Callable[[Violation], None]) -> None:
        self.name = name
        self._complain = complain

    def closed(self, error: KafkaError) -> None:
        if isinstance(error, BadAnswer) or not isinstance(error, LOST):
            self._complain(Violation(f"{self.name}: {type(error).__name__}: {error}"))


class _Introduction(VersionsExchange):
    """The node knows every version of ApiVersions that there is, so it has no reason to refuse one."""

    def step(self, connection: Connection, response: Message | None) -> tuple[Message, int] | None:
        if isinstance(response, ApiVersionsResponse) and response.error_code:
            raise error_class(response.error_code)("ApiVersions is refused")
        return super().step(connection, response)

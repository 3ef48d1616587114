"""The addresses of a node: which listeners it opens for which role, and how others are told to reach them.

Promises: what is advertised is the setting's address, with this host's name and the chosen port where it gives none.
A listener that cannot be opened is one line that says which. Called by the roles.
"""

from __future__ import annotations

import logging

from ottla.config import BrokerConfig, ListenerSpec
from ottla.metadata import Endpoint
from ottla.node.directories import CannotStart
from ottla.server import Dispatcher, SocketServer
from ottla.world import Address, NodeWorld

log = logging.getLogger(__name__)

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
OWN_NAME_MS_MAX = 2_000
"""How long a start waits for the resolver to tell the name of this host."""


class Listeners:
    """The listeners of one node."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._advertised = {
            one.name: one for one in [*config.advertised_listener_list, *config.advertised_controller_listener_list]
        }
        self._own_name = ""
        """What is advertised where no host is given; looked up only then."""
        self._bound: dict[str, Address] = {}

    @property
    def of_broker(self) -> list[ListenerSpec]:
        return [one for one in self._config.listener_list if one.name not in self._config.controller_listener_names]

    @property
    def of_controller(self) -> list[ListenerSpec]:
        return [one for one in self._config.listener_list if one.name in self._config.controller_listener_names]

    @property
    def voter_addresses(self) -> dict[str, Address]:
        """This node's controller listeners as the other voters know them."""
        return {
            one.name: Address(one.host or self._own_name, one.port)
            for one in self._config.advertised_controller_listener_list
        }

    async def look_up_own_name(self, world: NodeWorld) -> None:
        """Find the canonical name of this host, if it is advertised; Kafka does not start where there is none."""
        nameless = [one.name for one in self._advertised.values() if not one.host]
        if not nameless:
            return
        try:
            self._own_name = await world.network.own_name(OWN_NAME_MS_MAX)
        except OSError as error:
            log.warning(
                "[Node %d] Cannot find the name of this host (%s). Advertising localhost for %s, which only clients on "
                "this host can reach: set advertised.listeners", self._config.node_id, error, ", ".join(nameless),
            )  # fmt: skip
            self._own_name = "localhost"
            return
        log.info("[Node %d] Advertising this host as %s for %s",
                 self._config.node_id, self._own_name, ", ".join(nameless))  # fmt: skip

    def open(self, sockets: SocketServer, spec: ListenerSpec, dispatcher: Dispatcher, *, is_held: bool = False) -> None:
        """Open a listener, unless it is open; one that `is_held` lets connections wait."""
        if spec.name in self._bound:
            return
        try:
            listener = sockets.listen(spec.name, spec.host, spec.port, dispatcher, is_held=is_held)
        except OSError as error:
            raise CannotStart(f"Cannot listen on {spec.name}://{spec.host}:{spec.port}: {error.strerror}") from None
        self._bound[spec.name] = listener.address

    def endpoints(self, specs: list[ListenerSpec]) -> list[Endpoint]:
        """Those of the listeners that others are told of, as they are told. Those with a port to be chosen are open."""
        return [self._endpoint(spec) for spec in specs if spec.name in self._advertised]

    def _endpoint(self, spec: ListenerSpec) -> Endpoint:
        advertised = self._advertised[spec.name]
        bound = self._bound.get(spec.name)
        port = advertised.port or (spec.port if bound is None else bound.port)
        assert port, f"the port of {spec.name} is chosen when it is opened"
        return Endpoint(spec.name, advertised.host or self._own_name, port, SECURITY_PROTOCOLS[spec.security_protocol])

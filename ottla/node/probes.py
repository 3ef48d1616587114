"""Questions to the hosts of brokers: does anybody listen where this broker is registered?

A host that runs and has no such listener refuses the connection at once. That is proof that the process is gone, and it
comes 9 s before the end of its session (`broker.session.timeout.ms`). Everything else is none: a process that was
stopped still has its listeners, a host that is gone or cut off does not answer.

Promises: a refusal counts only from where the broker was reached in the same registration. Behind an address that never
could be reached from here (a name that means another host there, a port that is mapped) nothing is concluded. So a
controller connects once to every broker that is unfenced, standby controllers too: they have to know when they take
over. One question to a broker is under way at a time. Made by `controller_role`; told of brokers by the metadata, asked
by the controller.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.metadata import BrokerImage, Delta, Image
from ottla.world import Address, NodeWorld, Stream, connect_failure

log = logging.getLogger(__name__)


class BrokerProbes:
    """See the module."""

    def __init__(self, world: NodeWorld, *, node_id: int, listener_name: str) -> None:
        """`listener_name` is that of the listener by which brokers reach each other."""
        self._world = world
        self._node_id = node_id
        self._listener_name = listener_name
        self._reached: dict[int, tuple[int, Address]] = {}
        """The registered brokers that were reached, by id: in which epoch, and where."""
        self._asked: set[int] = set()
        """Whom a question is under way to."""

    def on_metadata(self, delta: Delta, image: Image) -> None:
        for broker_id, change in delta.changed_brokers.items():
            broker = change.new
            if broker is None:
                self._reached.pop(broker_id, None)
            elif not broker.is_fenced and self._reached.get(broker_id) != self._place(broker):
                self._connect(broker, None)

    def ask(self, broker: BrokerImage, on_refused: Callable[[], object]) -> None:
        self._connect(broker, on_refused)

    def _place(self, broker: BrokerImage) -> tuple[int, Address] | None:
        """The broker's epoch, and where to look for it."""
        endpoint = broker.endpoints.get(self._listener_name) or next(iter(broker.endpoints.values()), None)
        return None if endpoint is None else (broker.epoch, Address(endpoint.host, endpoint.port))

    def _connect(self, broker: BrokerImage, on_refused: Callable[[], object] | None) -> None:
        place = self._place(broker)
        # This node's own broker is this process.
        if place is None or broker.id == self._node_id or broker.id in self._asked:
            return
        address = place[1]

        def on_connected(result: Stream | OSError) -> None:
            self._asked.discard(broker.id)
            if not isinstance(result, OSError):
                result.abort()
                self._reached[broker.id] = place
                return
            log.debug("[BrokerProbes id=%d] No connection to broker %d at %s: %s",
                      self._node_id, broker.id, address, connect_failure(result))  # fmt: skip
            if (
                on_refused is not None
                and isinstance(result, ConnectionRefusedError)
                and self._reached.get(broker.id) == place
            ):
                on_refused()

        self._asked.add(broker.id)
        self._world.network.connect(address.host, address.port, on_connected)

"""The other brokers of the cluster, as this one reaches them: over the inter-broker listener.

Promises: a request goes to where the metadata says now that the broker is, in the highest version that both sides know,
and is answered once, with the response or with the `KafkaError` that kept it from coming, within its time-out. A broker
that has moved or is registered no more is disconnected, and what waits for it is told. A broker serves the requests of
a connection in turn, so what must not wait behind a long poll has a `lane` of its own, which is a connection of its
own. Connections are made on demand: one for each broker and lane.

Made by the composition root, which has it told of metadata before those who send; called by replica fetchers, by the
transaction coordinator for its markers, and by whatever else asks a coordinator on another broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import BrokerNotAvailable, NetworkException
from ottla.metadata import Delta, Image
from ottla.net import ReceiveBuffer
from ottla.server.node_context import NodeContext
from ottla.wire import Message
from ottla.world import Address, Promise

if TYPE_CHECKING:
    from ottla.net import Link, OnAnswer, Request


class Peers:
    """See the module."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self._links: dict[tuple[int, str], Link] = {}
        self._receive_buffer: ReceiveBuffer | None = None
        self._is_closed = False

    def send(self, broker_id: int, request: Request, *, timeout_ms: float, lane: str = "") -> Promise[Message]:
        """The broker's answer. `BrokerNotAvailable` where the metadata does not say how it is reached."""
        from ottla.net import settling

        promise: Promise[Message] = self._node.world.tasks.promise()
        self.send_then(broker_id, request, settling(promise), timeout_ms=timeout_ms, lane=lane)
        return promise

    def send_then(
        self, broker_id: int, request: Request, on_answer: OnAnswer, *, timeout_ms: float, lane: str = ""
    ) -> None:
        """The same with a callback, for what happens thousands of times a second. It may be called before this returns
        when nothing could be sent."""
        address = self._address_of(self._node.image, broker_id)
        if address is None or self._is_closed:
            listener = self._node.config.inter_broker_listener
            on_answer(None, BrokerNotAvailable(f"Broker {broker_id} has no {listener} listener in the metadata"))
            return
        link = self._links.get((broker_id, lane))
        if link is None or link.address != address:
            if link is not None:
                link.close(NetworkException(f"broker {broker_id} has moved to {address}"))
            link = self._links[broker_id, lane] = self._link(broker_id, address, lane)
        link.send_then(request, timeout_ms, on_answer)

    def on_metadata(self, delta: Delta, image: Image) -> None:
        """A metadata publisher: those who are gone or elsewhere are not waited for."""
        if not delta.changed_brokers:
            return
        for (broker_id, lane), link in list(self._links.items()):
            address = self._address_of(image, broker_id)
            if address != link.address:
                del self._links[broker_id, lane]
                where = "registered no more" if address is None else f"at {address} now"
                link.close(NetworkException(f"broker {broker_id} is {where}"))

    def close(self) -> None:
        """Disconnect from everybody; who waits is told."""
        self._is_closed = True
        links, self._links = self._links, {}
        for link in links.values():
            link.close()

    def _address_of(self, image: Image, broker_id: int) -> Address | None:
        broker = image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoints.get(self._node.config.inter_broker_listener)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    def _link(self, broker_id: int, address: Address, lane: str) -> Link:
        from ottla.net import Link, LinkSettings  # a broker alone has no use for them

        if self._receive_buffer is None:
            self._receive_buffer = ReceiveBuffer(hands_over=True)
        name = f"broker-{self._node.node_id}-{lane}" if lane else f"broker-{self._node.node_id}"
        return Link(
            self._node.world,
            address,
            LinkSettings(name, idle_ms=self._node.config.connections_max_idle_ms),
            subject=f"Peers id={self._node.node_id}",
            node_id=broker_id,
            receive_buffer=self._receive_buffer,
        )

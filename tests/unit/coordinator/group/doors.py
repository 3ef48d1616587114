"""Two doors to a group coordinator: a node on virtual time, and a broker behind sockets, Ottla's or Kafka's.

A transcript is played through either, so that a real Kafka can be asked whether it is true.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from ottla.server.context import BrokerContext, Connection
from ottla.wire import Message, decode, encode, request_class, response_class
from ottla.world import Address
from tests.support.raw import RawClient
from tests.support.ready import is_ready
from tests.unit.replica.node import LISTENER, TestNode

SETTLE_MS = 60.0
"""How long a command of a transcript takes through either door: a real broker needs that to answer."""
LATE_S = 10.0
"""How long a real broker is waited for when it owes an answer."""


class Door(Protocol):
    """Requests go in under a name, which stands for a client with a connection of its own; answers come in time."""

    def begin(self, who: str, request: Message, version: int) -> None: ...

    def answers(self) -> list[tuple[str, Message]]:
        """What has been answered since the last time, by the names of those who asked."""
        ...

    def run_ms(self, duration_ms: float) -> None: ...

    def close(self) -> None: ...


class VirtualDoor:
    """A node's real dispatch and handlers, on virtual time; everything crosses the wire's codecs."""

    settle_ms = SETTLE_MS

    def __init__(
        self,
        topics: Mapping[str, int],
        settings: Mapping[str, object] | None = None,
        *,
        replicas: tuple[int, ...] = (1,),
    ) -> None:
        """`replicas` are those of the coordinator's topic: with more than this node, nothing is ever committed."""
        self.node = TestNode({"offsets.topic.num.partitions": 1, **(settings or {})})
        for name, partitions in topics.items():
            self.node.create_topic(name, partitions)
        self.node.create_topic("__consumer_offsets", 1, replicas=replicas)
        self._dispatcher = self.node.dispatcher
        self._pending: list[tuple[str, Any, Message, Any]] = []

    def begin(self, who: str, request: Message, version: int) -> None:
        api_key = request.schema.api_key
        assert api_key is not None, f"{request} is no request"
        read = decode(request_class(api_key), version, memoryview(encode(request, version)))
        route = self._dispatcher.route(api_key << 16 | version)
        assert route is not None, f"{request} is not served"
        connection = Connection(self._dispatcher, LISTENER, Address("127.0.0.1", 4711))
        context = BrokerContext(version, 1, who, connection, self.node.context, self.node.broker)
        try:
            answer: Any = route.handle(context, read)
        except Exception as error:  # noqa: BLE001  as the session does it
            answer = route.error_response(read, error)
        self._pending.append((who, route, read, answer))

    def answers(self) -> list[tuple[str, Message]]:
        arrived, waiting = [], []
        for who, route, read, answer in self._pending:
            if not isinstance(answer, Message) and not answer.done():
                waiting.append((who, route, read, answer))
                continue
            try:
                response = answer if isinstance(answer, Message) else answer.result()
            except Exception as error:  # noqa: BLE001  as the session does it
                response = route.error_response(read, error)
            cls = response_class(route.api.key)
            arrived.append((who, decode(cls, route.version, memoryview(encode(response, route.version)))))
        self._pending = waiting
        return arrived

    def run_ms(self, duration_ms: float) -> None:
        self.node.run_ms(duration_ms)

    def close(self) -> None:
        self.node.groups.close()
        self.node.stop()


class SocketDoor:
    """A broker in a process of its own, on real time."""

    settle_ms = SETTLE_MS

    def __init__(self, port: int) -> None:
        self._port = port
        self._lines: dict[str, _Line] = {}
        self._pending: dict[str, tuple[int, int]] = {}

    def begin(self, who: str, request: Message, version: int) -> None:
        if who in self._pending:  # it asks again without waiting for the answer: over a new connection
            self._lines.pop(who).close()
        line = self._lines.get(who)
        if line is None:
            line = self._lines[who] = _Line(self._port, client_id=who)
        self._pending[who] = (line.post(request, version), version)

    def answers(self) -> list[tuple[str, Message]]:
        arrived = []
        for who, (key, version) in list(self._pending.items()):
            if self._lines[who].is_readable():
                del self._pending[who]
                arrived.append((who, self._lines[who].receive(key, version, response_class(key))))
        return arrived

    def run_ms(self, duration_ms: float) -> None:
        time.sleep(duration_ms / 1000)

    def await_answers(self, count: int) -> None:
        """Wait until so many have arrived, for as long as is reasonable; on a busy machine it takes a while."""
        deadline = time.monotonic() + LATE_S
        while time.monotonic() < deadline:
            if sum(self._lines[who].is_readable() for who in self._pending) >= count:
                return
            time.sleep(0.005)

    def close(self) -> None:
        for line in self._lines.values():
            line.close()


class _Line(RawClient):
    def is_readable(self) -> bool:
        return is_ready(self._socket)

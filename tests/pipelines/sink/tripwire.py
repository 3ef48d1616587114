"""A proxy in front of a broker that sees the requests go by and, at chosen ones, pulls a trigger.

`address` is where clients go, and the broker has to advertise it (`broker_settings`). `arm` names the requests, one
after the other, and of each whether the trigger is pulled before it reaches the broker, while the broker has it, or
after the broker has answered it. The client gets no answer to such a request: its connection is closed.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from tests.support.server import free_ports

PRODUCE, FETCH, OFFSET_FETCH, INIT_PRODUCER_ID, ADD_PARTITIONS = 0, 1, 9, 22, 24
ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT, DESCRIBE_PRODUCERS = 25, 26, 28, 61
FRAME = struct.Struct(">ihhi")
"""Size, API key, version and correlation id: how every request begins."""


class When(Enum):
    BEFORE = "before"
    DURING = "during"
    AFTER = "after"


class Seen(NamedTuple):
    """The connection on which the chosen request came."""

    client_port: int

    def client_pid(self) -> int | None:
        """The process at the other end; None if it has gone."""
        table = Path("/proc/net/tcp").read_text().splitlines()[1:]
        inodes = [row.split()[9] for row in table if int(row.split()[1].rpartition(":")[2], 16) == self.client_port]
        for opened in Path("/proc").glob("[0-9]*/fd/*"):
            try:
                if os.readlink(opened) in (f"socket:[{inode}]" for inode in inodes):
                    return int(opened.parts[2])
            except OSError:
                continue  # it has gone meanwhile
        return None


class Wire(NamedTuple):
    """Pull at the nth request of this API, counted from when the wire before it was pulled."""

    api_key: int
    nth: int
    when: When
    pull: Callable[[Seen], None]


class Tripwire:
    """`with Tripwire() as wire: ... wire.port`, and `wire.target_port` once the broker is there."""

    def __init__(self) -> None:
        self.port, self.target_port = free_ports(2)
        self.address = f"127.0.0.1:{self.port}"
        self.pulled_count = 0
        self._wires: list[Wire] = []
        self._count = 0
        self._guard = threading.Lock()
        self._server = socket.create_server(("127.0.0.1", self.port), backlog=64)
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def broker_settings(self) -> dict[str, str]:
        return {"advertised.listeners": f"PLAINTEXT://{self.address}"}

    def arm(self, *wires: Wire) -> None:
        """Pull each once, in this order; what was armed before is not any more."""
        with self._guard:
            self._count = 0
            self.pulled_count = 0
            self._wires = list(wires)

    def disarm(self) -> None:
        """Pull nothing any more; `pulled_count` stays."""
        with self._guard:
            self._wires = []

    def __enter__(self) -> Tripwire:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(5)

    # Moving bytes

    def _accept(self) -> None:
        while True:
            try:
                client, (_, port) = self._server.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self.target_port))
            except OSError:
                client.close()  # the broker is away, as it would be without us
                continue
            connection = _Connection(self, client, broker, Seen(port))
            threading.Thread(target=connection.requests, daemon=True).start()
            threading.Thread(target=connection.responses, daemon=True).start()

    def sees(self, api_key: int) -> Wire | None:
        """Whether this is the request; told of every one."""
        with self._guard:
            if not self._wires or self._wires[0].api_key != api_key:
                return None
            self._count += 1
            if self._count < self._wires[0].nth:
                return None
            self._count = 0
            return self._wires.pop(0)

    def pull(self, wire: Wire, seen: Seen) -> None:
        wire.pull(seen)
        self.pulled_count += 1


class _Connection:
    """One client's, and ours to the broker behind it."""

    def __init__(self, tripwire: Tripwire, client: socket.socket, broker: socket.socket, seen: Seen) -> None:
        self._tripwire = tripwire
        self._client = client
        self._broker = broker
        self._seen = seen
        self._awaited: dict[int, Wire] = {}
        self._withheld: set[int] = set()

    def requests(self) -> None:
        try:
            while frame := _frame(self._client):
                _, api_key, _, correlation_id = FRAME.unpack_from(frame)
                wire = self._tripwire.sees(api_key)
                if wire is not None and wire.when is When.AFTER:
                    self._awaited[correlation_id] = wire
                elif wire is not None:
                    if wire.when is When.DURING:
                        self._withheld.add(correlation_id)
                        self._broker.sendall(frame)
                    self._tripwire.pull(wire, self._seen)
                    break
                self._broker.sendall(frame)
        except OSError:
            pass  # one end has gone: so does the other
        self._close()

    def responses(self) -> None:
        try:
            while frame := _frame(self._broker):
                correlation_id = struct.unpack_from(">i", frame, 4)[0]
                wire = self._awaited.pop(correlation_id, None)
                if wire is not None:
                    self._tripwire.pull(wire, self._seen)
                    break
                if correlation_id not in self._withheld:
                    self._client.sendall(frame)
        except OSError:
            pass  # one end has gone: so does the other
        self._close()

    def _close(self) -> None:
        for one in (self._client, self._broker):
            with suppress(OSError):  # closed already
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def _frame(source: socket.socket) -> bytes:
    """A whole frame with its size in front; nothing at the connection's end."""
    head = _exactly(source, 4)
    if not head:
        return b""
    rest = _exactly(source, struct.unpack(">i", head)[0])
    return head + rest if rest else b""


def _exactly(source: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = source.recv(min(size - len(parts), 1 << 20))
        if not part:
            return b""
        parts += part
    return bytes(parts)

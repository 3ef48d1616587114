"""A proxy in front of a broker that sees the requests go by and, at a chosen one, pulls a trigger.

`address` is where clients go, and the broker has to advertise it (`broker_settings`). `arm` names the request, and
whether the trigger is pulled before it reaches the broker or after the broker has answered it. A request at which the
trigger is pulled goes no further: its connection is closed.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from tests.support.server import free_ports

PRODUCE, OFFSET_FETCH, INIT_PRODUCER_ID = 0, 9, 22
END_TXN, TXN_OFFSET_COMMIT, DESCRIBE_PRODUCERS = 26, 28, 61
FRAME = struct.Struct(">ihhi")
"""Size, API key, version and correlation id: how every request begins."""


class Seen(NamedTuple):
    """The connection on which the chosen request came."""

    client_port: int

    def client_pid(self) -> int:
        """The process at the other end."""
        table = Path("/proc/net/tcp").read_text().splitlines()[1:]
        inode = next(
            row.split()[9] for row in table if int(row.split()[1].rpartition(":")[2], 16) == self.client_port
        )  # fmt: skip
        for opened in Path("/proc").glob("[0-9]*/fd/*"):
            try:
                if os.readlink(opened) == f"socket:[{inode}]":
                    return int(opened.parts[2])
            except OSError:
                continue  # it has gone meanwhile
        raise AssertionError(f"nobody has port {self.client_port}")


class _Wire(NamedTuple):
    api_key: int
    nth: int
    is_after: bool
    pull: Callable[[Seen], None]


class Tripwire:
    """`with Tripwire() as wire: ... wire.port`, and `wire.target_port` once the broker is there."""

    def __init__(self) -> None:
        self.port, self.target_port = free_ports(2)
        self.address = f"127.0.0.1:{self.port}"
        self.is_pulled = threading.Event()
        self._wire: _Wire | None = None
        self._count = 0
        self._guard = threading.Lock()
        self._server = socket.create_server(("127.0.0.1", self.port), backlog=64)
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def broker_settings(self) -> dict[str, str]:
        return {"advertised.listeners": f"PLAINTEXT://{self.address}"}

    def arm(self, api_key: int, nth: int, pull: Callable[[Seen], None], *, is_after: bool) -> None:
        """Pull the trigger once, at the nth request of this API from now on."""
        with self._guard:
            self._count = 0
            self.is_pulled.clear()
            self._wire = _Wire(api_key, nth, is_after, pull)

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

    def sees(self, api_key: int, seen: Seen) -> _Wire | None:
        """Whether this is the request; told of every one."""
        with self._guard:
            wire = self._wire
            if wire is None or wire.api_key != api_key:
                return None
            self._count += 1
            if self._count < wire.nth:
                return None
            self._wire = None
            return wire

    def pull(self, wire: _Wire, seen: Seen) -> None:
        wire.pull(seen)
        self.is_pulled.set()


class _Connection:
    """One client's, and ours to the broker behind it."""

    def __init__(self, tripwire: Tripwire, client: socket.socket, broker: socket.socket, seen: Seen) -> None:
        self._tripwire = tripwire
        self._client = client
        self._broker = broker
        self._seen = seen
        self._awaited: dict[int, _Wire] = {}

    def requests(self) -> None:
        try:
            while frame := _frame(self._client):
                _, api_key, _, correlation_id = FRAME.unpack_from(frame)
                wire = self._tripwire.sees(api_key, self._seen)
                if wire is not None and not wire.is_after:
                    self._tripwire.pull(wire, self._seen)
                    break
                if wire is not None:
                    self._awaited[correlation_id] = wire
                self._broker.sendall(frame)
        except OSError:
            pass  # one end has gone: so does the other
        self._close()

    def responses(self) -> None:
        try:
            while frame := _frame(self._broker):
                wire = self._awaited.pop(struct.unpack_from(">i", frame, 4)[0], None)
                if wire is not None:
                    self._tripwire.pull(wire, self._seen)
                    break
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

"""Connections, as the broker sees them: bytes in through a buffer the owner chooses, bytes and file slices out.

Promises asked of every implementation:
- Everything happens on the one thread of `Tasks`; callbacks are never called from inside a call of the owner's, except
  as said.
- Received bytes go straight into the buffer that `get_buffer` gives: a large frame is received where it will be used.
- `send` never waits and never fails: what the peer does not take now is kept, in order, and counted in `unsent_bytes`,
  which the owner bounds by not reading on. A connection that breaks is told once, by `on_closed`.
- A file slice is sent from the file when its turn comes; the file must stay as it is until then.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from ottla.types import Buffer
from ottla.world.disk import File

BACKLOG = 128
"""How many connections wait to be taken, unless a listener is opened with another number."""


class Address(NamedTuple):
    """A host and a port; the host is a numeric address where it comes from a connection."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Slice(Protocol):
    """A part of a file."""

    file: File
    position: int
    size: int

    def read(self) -> bytes: ...


Part: TypeAlias = Buffer | Slice


class Stream(Protocol):
    """One connection, open until `on_closed`."""

    local: Address
    peer: Address
    unsent_bytes: int

    def send(self, parts: Sequence[Part]) -> None:
        """Send `parts` behind everything sent before. Buffers are taken as they are: they must not change any more."""
        ...

    def pause_reading(self) -> None:
        """Take no more bytes from the peer until `resume_reading`; the network then holds it back."""
        ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        """Take nothing more, send what is unsent, then close. `on_closed` follows."""
        ...

    def abort(self) -> None:
        """Close now; what is unsent is lost. `on_closed` follows."""
        ...


class StreamHandler(Protocol):
    """The owner's side of a connection."""

    def get_buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        ...

    def on_received(self, count: int) -> None:
        """That many bytes are in the buffer given last."""
        ...

    def on_drained(self) -> None:
        """Everything sent has left; called only after a `send` that could not send all at once."""
        ...

    def on_closed(self, error: OSError | None) -> None:
        """The connection is gone: closed by either side (None) or broken. Nothing is called after this."""
        ...


class Listener(Protocol):
    """A port that takes connections."""

    address: Address

    def pause(self) -> None:
        """Leave new connections waiting in the system's queue."""
        ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


Accept: TypeAlias = Callable[[Stream], StreamHandler | None]
"""Called for each new connection; None refuses it."""


class Network(Protocol):
    def listen(self, host: str, port: int, accept: Accept, *, backlog: int = BACKLOG) -> Listener:
        """Take connections on a port; port 0 chooses one. `OSError` when it cannot be had. An empty host is all.

        `backlog` connections wait to be taken; who connects while they do has to try again.
        """
        ...

    def connect(self, host: str, port: int, on_connected: Callable[[Stream | OSError], StreamHandler | None]) -> None:
        """Open a connection; `on_connected` gets it, or why there is none. Never called from inside this call."""
        ...

    def own_name(self, timeout_ms: float) -> Awaitable[str]:
        """What others call this host: its canonical name, or its address where that has no name.

        `OSError` when the host does not know its address, or not within `timeout_ms`.
        """
        ...


def connect_failure(error: OSError) -> str:
    """Why a connection could not be made, in words that do not depend on the event loop."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, socket.gaierror):
        return f"the name does not resolve ({error.strerror or error})"
    return error.strerror or str(error)

"""Ports that are chosen before a node has them, because the voters of a quorum are told each other's at the start.

Promise, on Linux: nobody else gets a port of these, from the choice to `close`, whoever listens there meanwhile and
how often. The port is held by a socket that is bound and does not listen: the system gives such a port to nobody who
asks for any port, and lets who names it listen there. Elsewhere a chosen port is free until its node listens.
"""

from __future__ import annotations

import socket
import sys

_IS_HELD = sys.platform == "linux"


class HeldPorts:
    """Free ports of one address."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._sockets: list[socket.socket] = []

    def choose(self) -> int:
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((self._host, 0))
        port: int = held.getsockname()[1]
        if _IS_HELD:
            self._sockets.append(held)
        else:
            held.close()
        return port

    def close(self) -> None:
        """Let the ports go. A second call does nothing."""
        while self._sockets:
            self._sockets.pop().close()

"""The limit: the same bytes through the same kernel with nothing in between, so that a broker's own share is seen.

`receive_check_write` takes bytes from a socket, checksums them and writes them to a file; `send_file` sends a file that
is in the page cache. Both return CPU-seconds per GB of the side that stands for the broker; its peer is another process
(`python -m benchmarks.rivals.bare ROLE PORT BYTES`).
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.records import crc32c

CHUNK_BYTES = 1 << 20
"""As large as a busy producer's request."""
TIMEOUT_S = 60.0


def receive_check_write(directory: Path, total_bytes: int) -> float:
    with _peer("send", total_bytes) as sock, (directory / "bare").open("wb", buffering=0) as file:
        buffer = memoryview(bytearray(CHUNK_BYTES))
        taken = 0
        started = time.process_time()
        while filled := _fill(sock, buffer):
            crc32c(buffer[:filled])
            file.write(buffer[:filled])
            taken += filled
        used_s = time.process_time() - started
    assert taken == total_bytes, f"{taken} of {total_bytes} bytes came"
    return used_s / (taken / 1e9)


def send_file(directory: Path, total_bytes: int) -> float:
    path = directory / "sent"
    path.write_bytes(os.urandom(CHUNK_BYTES) * 64)
    size = path.stat().st_size
    with _peer("receive", total_bytes) as sock, path.open("rb") as file:
        sent = 0
        started = time.process_time()
        while sent < total_bytes:
            position = sent % size
            sent += os.sendfile(
                sock.fileno(), file.fileno(), position, min(CHUNK_BYTES, size - position, total_bytes - sent)
            )
        used_s = time.process_time() - started
    return used_s / (sent / 1e9)


def _fill(sock: socket.socket, buffer: memoryview) -> int:
    """Receive until `buffer` is full or the peer has no more; returns how much came."""
    filled = 0
    while filled < len(buffer) and (count := sock.recv_into(buffer[filled:])):
        filled += count
    return filled


@contextmanager
def _peer(role: str, total_bytes: int) -> Iterator[socket.socket]:
    """A TCP connection to a process that plays `role` at its other end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_S)
        port = server.getsockname()[1]
        command = [sys.executable, "-m", "benchmarks.rivals.bare", role, str(port), str(total_bytes)]
        with subprocess.Popen(command) as process:
            sock = server.accept()[0]
            with sock:
                yield sock
            if process.wait(TIMEOUT_S) != 0:
                raise RuntimeError(f"the peer of the bare loop ended with {process.returncode}")


def _play(role: str, port: int, total_bytes: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as sock:
        if role == "send":
            chunk = os.urandom(CHUNK_BYTES)
            left = total_bytes
            while left:
                sock.sendall(chunk[:left])
                left -= min(left, CHUNK_BYTES)
        else:
            buffer = memoryview(bytearray(CHUNK_BYTES))
            taken = 0
            while count := sock.recv_into(buffer):
                taken += count
            assert taken == total_bytes, f"{taken} of {total_bytes} bytes came"


if __name__ == "__main__":
    _play(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

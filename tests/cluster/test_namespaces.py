"""The network that tests cut: packets are lost where they are to be and nowhere else, and nothing is left behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.namespaces import CLIENTS, Network, network_or_skip

PORT = 5_000
SYSTEM = Path("/sys/class/net")
SILENCE_S = 0.6
ANSWER_S = 20.0
ECHO = f"""
import socket, threading
def serve(connection):
    while data := connection.recv(100):
        connection.sendall(data)
server = socket.create_server(("0.0.0.0", {PORT}))
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=server.accept()[:1], daemon=True).start()
"""


def echo(network: Network, host: int) -> subprocess.Popen[str]:
    """A server on a host that says what it hears."""
    process = subprocess.Popen(
        [*network.command(host), sys.executable, "-c", ECHO], stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def heard(connection: socket.socket, timeout_s: float) -> bytes:
    connection.settimeout(timeout_s)
    try:
        return connection.recv(100)
    except TimeoutError:
        return b""


@pytest.mark.parametrize("link", [(CLIENTS, 1), (1, CLIENTS)], ids=["not-heard", "does-not-hear"])
def test_a_cut_link_leaves_connections_hanging_until_it_is_healed(link: tuple[int, int]) -> None:
    with network_or_skip([1, 2]) as network, echo(network, 1) as one, echo(network, 2) as two:
        try:
            cut = socket.create_connection((network.address(1), PORT), timeout=ANSWER_S)
            other = socket.create_connection((network.address(2), PORT), timeout=ANSWER_S)
            with cut, other:
                network.cut(link)
                cut.sendall(b"cut")
                other.sendall(b"not cut")
                assert heard(other, ANSWER_S) == b"not cut"
                assert heard(cut, SILENCE_S) == b""
                network.heal()
                assert heard(cut, ANSWER_S) == b"cut"
        finally:
            one.kill()
            two.kill()


def test_networks_stand_side_by_side_and_leave_nothing() -> None:
    with network_or_skip([1]) as one, network_or_skip([1]) as other:
        assert one.address(1) != other.address(1)
        assert owner(one.bridge) == owner(other.bridge) == f"pid-{os.getpid()}"
        names = [name for network in (one, other) for name in (network.bridge, f"{network.bridge}-1")]
        assert [name for name in names if (SYSTEM / name).exists()] == names
    # Another test may have taken the number since; it is not ours any more.
    assert not any(owner(name) == f"pid-{os.getpid()}" for name in names)


def test_what_a_dead_process_has_left_is_removed_by_the_next() -> None:
    network_or_skip([1]).close()
    code = (
        "import os; from tests.support.namespaces import Network; "
        "print(os.getpid(), Network([1, 2]).bridge, flush=True); os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    pid, bridge = done.stdout.split()
    Network([1]).close()
    assert owner(bridge) != f"pid-{pid}"


def owner(name: str) -> str | None:
    """Who says that the interface is his; None when there is none."""
    try:
        return (SYSTEM / name / "ifalias").read_text().strip()
    except OSError:
        return None

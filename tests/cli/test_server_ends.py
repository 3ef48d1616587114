"""`ottla server` and `ottla up`: the signals that end a node, whatever it is doing."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its types leave it out

from tests.support.server import OTTLA

PATIENCE_S = 60.0
CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAA"


@pytest.fixture(autouse=True)
def hearing_of_hangups() -> Iterator[None]:
    """Tests that run under nohup ignore SIGHUP, and the processes that they start would, too."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    seen: list[str] = []
    while not seen or word not in seen[-1]:
        seen.append(process.stdout.readline())
        assert seen[-1], f"it ended with {process.wait()}: {''.join(seen)}"


def test_a_node_that_waits_for_its_quorum_ends_when_it_is_told_to(tmp_path: Path) -> None:
    """It went on waiting for the other voters, and only a second signal ended it, without its orderly end."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        gone = [one.getsockname()[1], other.getsockname()[1]]
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:9093,2@127.0.0.1:{gone[0]},3@127.0.0.1:{gone[1]}",
        "log.dirs": str(tmp_path / "data"),
        "broker.session.timeout.ms": "1000",
        "broker.heartbeat.interval.ms": "300",
    }
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    with running([*OTTLA, "server", "start", str(path), "--format-new", CLUSTER_ID]) as process:
        read_until(process, "could not be established")
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, out
        assert "[Node 1] Shut down completed" in out
        assert "Traceback" not in out
    with running([*OTTLA, "server", "start", str(path)]) as again:
        read_until(again, "could not be established")  # and nothing keeps the directory locked


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_node_in_order_and_its_ephemeral_data_with_it(tmp_path: Path, number: signal.Signals) -> None:
    """SIGHUP, which a terminal sends when it is closed, ended the process at once and left the data behind."""
    command = ["env", f"TMPDIR={tmp_path}", *OTTLA, "up", "--ephemeral", "--port", "0", "--log-level", "INFO"]
    with running(command) as process:
        read_until(process, "ottla is ready at")
        assert len(list(tmp_path.glob("ottla-*"))) == 1
        process.send_signal(number)
        out, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, out
        assert "[Node 1] Shut down completed" in out
    assert not list(tmp_path.glob("ottla-*"))


def test_a_node_under_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    command = ["nohup", *OTTLA, "up", "--data", str(tmp_path / "data"), "--port", "0"]
    with running(command) as process:
        read_until(process, "ottla is ready at")
        process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def test_a_node_that_loses_its_disk_ends_and_says_so(tmp_path: Path) -> None:
    """It stayed, refused every record, and kept its place in the cluster, where Kafka halts."""
    data = tmp_path / "data"
    with running([*OTTLA, "up", "--data", str(data), "--port", "0"]) as process:
        assert process.stdout is not None
        address = process.stdout.readline().partition(" (")[0].rpartition(" ")[2]
        data.rename(tmp_path / "gone")
        data.write_text("no directory")
        AdminClient({"bootstrap.servers": address, "log_level": 0}).create_topics([NewTopic("t", 1, 1)])
        out, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1
        assert out.splitlines()[-1].startswith("ottla: All log directories have failed: ")

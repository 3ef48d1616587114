"""A node run from a server.properties, as an operator runs it: Ottla's, or a real Kafka's, on the same directory.

`Server` is the process, `Settings` its file. Called by tests of what survives a restart, a kill, or a change of broker.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from ottla.wire.frames import read_response, write_request
from ottla.wire.messages.header import RequestHeader
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.kafka import kafka_classpath

READY_S = 60.0
STOP_S = 60.0
POLL_S = 0.01
METADATA_KEY, METADATA_VERSION = 3, 12
OTTLA = (sys.executable, "-m", "ottla.cli.main")
JAVA = ("java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, below those that the system gives to outgoing connections."""
    ports: list[int] = []
    for port in random.sample(range(20_000, 32_000), 1_000):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise OSError("no free port")


class Settings(dict[str, str]):
    """The settings of one node with both roles, on free ports; `write` makes the file of them."""

    def __init__(self, data: Path | Sequence[Path], **more: str) -> None:
        self.port, self.controller_port = free_ports(2)
        directories = [data] if isinstance(data, Path) else data
        super().__init__({
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": ",".join(str(directory) for directory in directories),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "5",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.num.partitions": "5",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        })  # fmt: skip
        for name, value in more.items():
            self[name.replace("_", ".")] = value

    def write(self, path: Path) -> Path:
        path.write_text("".join(f"{name}={value}\n" for name, value in self.items()))
        return path


def run_ottla(*arguments: str | Path, timeout: float = 30) -> subprocess.CompletedProcess[str]:
    """Run `ottla` to its end; the exit code is the caller's to check."""
    command = [*OTTLA, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def ottla_command(properties: Path) -> list[str]:
    return [*OTTLA, "server", "start", str(properties)]


def kafka_command(properties: Path) -> list[str]:
    return [*JAVA, "-cp", kafka_classpath(), "kafka.Kafka", str(properties)]


class Server:
    """A node as a child process. `with Server.ottla(properties) as server: ... server.address`"""

    def __init__(self, name: str, command: Sequence[str], properties: Path) -> None:
        self.name = name
        self._command = list(command)
        listeners = dict(line.partition("=")[::2] for line in properties.read_text().splitlines())["listeners"]
        host, _, port = listeners.partition(",")[0].rpartition("/")[2].rpartition(":")
        self.host = host or "127.0.0.1"
        self.port = int(port)
        self.address = f"{self.host}:{self.port}"
        self.controller = listeners.rpartition("//")[2]
        """Of a node with both roles."""
        self.log_path = properties.with_suffix(f".{name}.log")
        self.process: subprocess.Popen[bytes] | None = None
        self._launched_s = 0.0
        self.ready_s = 0.0
        """How long the last start took, until a Metadata response named the broker."""

    @classmethod
    def ottla(cls, properties: Path) -> Server:
        return cls("ottla", ottla_command(properties), properties)

    @classmethod
    def kafka(cls, properties: Path) -> Server:
        return cls("kafka", kafka_command(properties), properties)

    def start(self) -> None:
        """Return when clients are served."""
        self.launch()
        self.await_ready()

    def launch(self) -> None:
        """Start the process and return at once."""
        self._launched_s = time.monotonic()
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    def await_ready(self) -> None:
        """Return when what was launched serves; raises with the log's end when that takes too long."""
        assert self.process is not None, "not started"
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() - self._launched_s > READY_S:
                raise AssertionError(f"{self.name} did not start:\n{self.log_tail()}")
            time.sleep(POLL_S)
        self.ready_s = time.monotonic() - self._launched_s

    def is_ready(self) -> bool:
        return is_answering(self.port, host=self.host)

    def stop(self) -> None:
        """A controlled shutdown; raises when it is not an orderly one."""
        assert self.process is not None, "not started"
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(STOP_S)
        self.process = None
        # Java tells of a signal in its exit code even when it has ended in order.
        assert code == (143 if self.name == "kafka" else 0), self.log_tail()

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None, "not started"
        self.process.kill()
        self.process.wait()
        self.process = None

    @property
    def pid(self) -> int:
        assert self.process is not None, "not started"
        return self.process.pid

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(self.log().splitlines()[-lines:])

    def complaints(self) -> list[str]:
        """Lines of a level that a healthy node does not write."""
        levels = ("] WARN ", "] ERROR ", "] FATAL ")
        return [line for line in self.log().splitlines() if any(level in line for level in levels)]

    def errors(self) -> list[str]:
        return [line for line in self.complaints() if "] WARN " not in line] + [
            line for line in self.log().splitlines() if line.startswith("Traceback")
        ]

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.process is None:
            return
        if kind is None:
            self.stop()
            return
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def is_answering(port: int, *, host: str = "127.0.0.1") -> bool:
    """Whether the node answers a Metadata request and knows itself as a broker."""
    frame = write_request(RequestHeader(METADATA_KEY, METADATA_VERSION, 1, "probe"), MetadataRequest(topics=[]))
    try:
        with socket.create_connection((host, port), timeout=READY_S) as sock, sock.makefile("rb") as stream:
            sock.sendall(frame)
            size = int.from_bytes(stream.read(4), "big")
            if not size:
                return False  # closed: not ready for clients
            answer = read_response(stream.read(size), METADATA_KEY, METADATA_VERSION).body
    except ConnectionError:
        return False
    assert isinstance(answer, MetadataResponse), answer
    return bool(answer.brokers)

"""A broker under test: started as a process, known by its port and its process id, measured through /proc.

Both brokers get the same `server.properties`, each is formatted by its own tool, and neither is told anything that the
other is not. Called by `duel`.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rivals.process import cpu_s, resident_bytes
from ottla.types import Uuid
from ottla.wire.frames import read_response, write_request
from ottla.wire.messages.header import RequestHeader
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

READY_S = 60.0
STOP_S = 120.0
POLL_S = 0.002
METADATA_VERSION = 12
METADATA_KEY = 3
PROJECT = Path(__file__).parents[2]

# Kafka's own start script (kafka-server-start.sh, kafka-run-class.sh) runs it with these.
JAVA_FLAGS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


@dataclass(frozen=True, slots=True)
class Kind:
    """How a broker is formatted and started; `{properties}` and `{cluster_id}` stand for what it is given."""

    name: str
    format: Sequence[str]
    start: Sequence[str]


def ottla_kind() -> Kind:
    ottla = (sys.executable, "-m", "ottla.cli.main")
    return Kind(
        "Ottla",
        (*ottla, "storage", "format", "-t", "{cluster_id}", "-c", "{properties}"),
        (*ottla, "server", "start", "{properties}"),
    )


def kafka_kind(classpath: str) -> Kind:
    return Kind(
        "Kafka",
        ("java", "-Xmx256m", "-cp", classpath, "kafka.tools.StorageTool", "format", "-t", "{cluster_id}",
         "-c", "{properties}"),
        ("java", *JAVA_FLAGS, "-cp", classpath, "kafka.Kafka", "{properties}"),
    )  # fmt: skip


class Server:
    """One formatted node that can be started and stopped. `with Server(kind, directory) as server: ...`"""

    def __init__(self, kind: Kind, directory: Path, node: Node | None = None) -> None:
        """`node` is its place in a cluster; without one it is alone."""
        self.kind = kind
        self.name = kind.name
        self._directory = directory
        node = node or places(1)[1]
        self.node_id = node.node_id
        self.port = node.port
        self.address = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        properties = directory / "server.properties"
        properties.write_text(_properties(directory / "data", node))
        self._words = {"{properties}": str(properties), "{cluster_id}": node.cluster_id}
        self._output = directory / "output"
        with self._output.open("wb") as output:
            subprocess.run(self._command(kind.format), stdout=output, stderr=output, check=True, timeout=READY_S)

    def _command(self, words: Sequence[str]) -> list[str]:
        return [self._words.get(word, word) for word in words]

    def start(self) -> float:
        """Start the process; returns the seconds until it first named itself in an answer to a Metadata request."""
        started = time.perf_counter()
        self.launch()
        self.await_brokers({self.node_id})
        return time.perf_counter() - started

    def launch(self) -> None:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command(self.kind.start), stdout=output, stderr=output, env=_environment(), cwd=self._directory
            )

    def await_brokers(self, node_ids: set[int]) -> None:
        """Until it answers a Metadata request and names all of these."""
        assert self._process is not None, "not started"
        started = time.perf_counter()
        while not node_ids <= named_brokers(self.port):
            if self._process.poll() is not None or time.perf_counter() - started > READY_S:
                raise RuntimeError(f"{self.name} did not start:\n{self._output.read_text(errors='replace')[-4000:]}")
            time.sleep(POLL_S)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Stopped meanwhile, with all its threads: a compiler or a collector of garbage that is not done yet too."""
        assert self._process is not None, "not started"
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """kill -9: nothing is flushed, closed or written down."""
        assert self._process is not None, "not started"
        self._process.kill()
        self._process.wait()
        self._process = None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def cpu_s(self) -> float:
        return cpu_s(self.pid)

    @property
    def resident_bytes(self) -> int:
        return resident_bytes(self.pid)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _environment() -> dict[str, str]:
    """As an installed package runs: its bytecode is kept, which the first start, that does not count, takes care of."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | {
        "PYTHONPATH": str(PROJECT)
    }


@dataclass(frozen=True, slots=True)
class Node:
    """One place in a cluster: both roles, its ports, and the voters of the whole."""

    node_id: int
    port: int
    controller_port: int
    voters: str
    cluster_id: str
    node_count: int


def places(count: int) -> dict[int, Node]:
    """The places of a cluster of so many nodes, by node id."""
    ports = _free_ports(2 * count)
    voters = ",".join(f"{index + 1}@127.0.0.1:{port}" for index, port in enumerate(ports[count:]))
    # Kafka's tool takes an id that begins with "-" for an option.
    cluster_id = str(Uuid(b"O" + os.urandom(15)))
    return {
        index + 1: Node(index + 1, ports[index], ports[count + index], voters, cluster_id, count)
        for index in range(count)
    }


def _properties(data: Path, node: Node) -> str:
    """A node with both roles and, apart from what a node of a small cluster must have, Kafka's defaults."""
    replicas = min(3, node.node_count)
    return "\n".join([
        "process.roles=broker,controller",
        f"node.id={node.node_id}",
        f"controller.quorum.voters={node.voters}",
        "controller.listener.names=CONTROLLER",
        f"listeners=PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.controller_port}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        f"log.dirs={data}",
        f"offsets.topic.replication.factor={replicas}",
        f"transaction.state.log.replication.factor={replicas}",
        f"transaction.state.log.min.isr={max(1, replicas - 1)}",
        "group.initial.rebalance.delay.ms=0",
        "group.consumer.assignment.interval.ms=0",
        "",
    ])  # fmt: skip


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, below those that the system gives to outgoing connections.

    Asking again and again for a port that nobody listens on yet would end in a connection to itself if the system chose
    the same port for the near end.
    """
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


def named_brokers(port: int) -> set[int]:
    """The brokers that the node names in an answer to a Metadata request; none while it does not answer."""
    header = RequestHeader(METADATA_KEY, METADATA_VERSION, 1, "bench")
    frame = write_request(header, MetadataRequest(topics=[]))
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=READY_S) as sock, sock.makefile("rb") as stream:
            sock.sendall(frame)
            size = int.from_bytes(stream.read(4), "big")
            if not size:
                return set()  # closed: not ready for clients
            answer = read_response(stream.read(size), METADATA_KEY, METADATA_VERSION).body
    except ConnectionError:
        return set()
    assert isinstance(answer, MetadataResponse), answer
    return {broker.node_id for broker in answer.brokers}

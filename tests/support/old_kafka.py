"""A broker of an old Kafka: its jars from Maven Central, and its processes, with a ZooKeeper where it needs one.

`OLD_KAFKAS` are those that our clients are shown against. `OldKafka` is one node that can be stopped and started
again on its port; its ZooKeeper runs on meanwhile. A machine without Java, Maven or a registry skips the test with the
reason.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
from confluent_kafka.admin import AdminClient

from tests.support.maven import jars
from tests.support.server import POLL_S, READY_S, STOP_S, Server, free_ports

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
_LOGGING = ("org.slf4j", "slf4j-simple", "1.7.36")
# ZooKeeper 3.4, which 2.1 came with, cannot read addresses as Java 14 and later print them (ZOOKEEPER-3779).
_ZOOKEEPER = ("org.apache.zookeeper", "zookeeper", "3.5.9")
_JAVA = (
    *("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    *("-Dzookeeper.jmx.log4j.disable=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
)


@dataclass(frozen=True, slots=True)
class Release:
    """A Kafka as it was published."""

    version: str
    scala: str = "2.13"
    needs_zookeeper: bool = False

    @property
    def number(self) -> tuple[int, int]:
        major, minor, _ = self.version.split(".")
        return int(major), int(minor)

    def classpath(self) -> str:
        """Its jars, fetched the first time."""
        zookeeper = [_ZOOKEEPER] if self.needs_zookeeper else []
        kafka = ("org.apache.kafka", f"kafka_{self.scala}", self.version)
        return jars(f"old-kafka-{self.version}", kafka, _LOGGING, *zookeeper)


OLD_KAFKAS = (
    Release("2.1.1", "2.12", needs_zookeeper=True),  # the oldest that clients of Kafka 4 talk to (KIP-896)
    Release("2.8.2", needs_zookeeper=True),
    Release("3.3.2"),  # the first KRaft that was called ready
    Release("3.9.1"),  # the last that could have a ZooKeeper
)


class OldKafka:
    """One node, and the ZooKeeper it may need. `with OldKafka(release, directory) as kafka: ... kafka.address`"""

    def __init__(self, release: Release, directory: Path) -> None:
        self.release = release
        self.port, self._other_port = free_ports(2)
        self.address = f"127.0.0.1:{self.port}"
        self._directory = directory
        self._java = [*_JAVA, "-cp", release.classpath()]
        self._zookeeper: subprocess.Popen[bytes] | None = None
        properties = directory / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings().items()))
        self.server = _OldServer("kafka", [*self._java, "kafka.Kafka", str(properties)], properties)

    def _settings(self) -> dict[str, str]:
        settings = {
            "log.dirs": str(self._directory / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "5",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.num.partitions": "5",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        if self.release.needs_zookeeper:
            own = {
                "broker.id": "1",
                "zookeeper.connect": f"127.0.0.1:{self._other_port}",
                "listeners": f"PLAINTEXT://{self.address}",
            }
        else:
            own = {
                "process.roles": "broker,controller",
                "node.id": "1",
                "controller.quorum.voters": f"1@127.0.0.1:{self._other_port}",
                "controller.listener.names": "CONTROLLER",
                "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{self._other_port}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            }
        return settings | own

    def __enter__(self) -> OldKafka:
        try:
            if self.release.needs_zookeeper:
                self._start_zookeeper()
            else:
                self._format()
            self.server.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def restart(self) -> None:
        """A controlled shutdown, and a start on the same port and directory."""
        self.server.stop()
        self.server.start()

    def _format(self) -> None:
        arguments = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c"]
        command = [*self._java, *arguments, str(self._directory / "server.properties")]
        formatted = subprocess.run(command, capture_output=True, text=True, timeout=READY_S, check=False)
        assert formatted.returncode == 0, formatted.stdout + formatted.stderr

    def _start_zookeeper(self) -> None:
        properties = self._directory / "zookeeper.properties"
        properties.write_text(
            f"dataDir={self._directory / 'zookeeper'}\nclientPort={self._other_port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"
        )
        command = [*self._java, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(properties)]
        log_path = self._directory / "zookeeper.log"
        with open(log_path, "wb") as log:
            self._zookeeper = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + READY_S
        while not _is_listening(self._other_port):
            if self._zookeeper.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"ZooKeeper did not start:\n{log_path.read_text(errors='replace')[-4000:]}")
            time.sleep(POLL_S)

    def _end(self) -> None:
        """Nothing is looked at afterwards: what the broker had to keep, a restart has shown."""
        if self.server.process is not None:
            self.server.kill()
        if self._zookeeper is not None:
            self._zookeeper.kill()
            self._zookeeper.wait(STOP_S)
            self._zookeeper = None


class _OldServer(Server):
    """`Server` asks with a Metadata version that old brokers have not got: a stock client finds one that they have."""

    def start(self) -> None:
        begun = time.monotonic()
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
        while not (_is_listening(self.port) and _is_serving(self.address)):
            if self.process.poll() is not None or time.monotonic() - begun > READY_S:
                raise AssertionError(f"{self.name} did not start:\n{self.log_tail()}")
            time.sleep(POLL_S)
        self.ready_s = time.monotonic() - begun


def _is_listening(port: int) -> bool:
    with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), timeout=READY_S):
        return True
    return False


def _is_serving(address: str) -> bool:
    try:
        return bool(AdminClient({"bootstrap.servers": address}).list_topics(timeout=2).brokers)
    except confluent_kafka.KafkaException:
        return False

"""The nodes of `ottla cluster up`: their ports, their directories, and the processes that run them.

Promises: one cluster id for all directories, and directories of two clusters are refused before anything is written;
so are ports that are taken. A child is told to stop by SIGTERM, and is killed only when it has not ended `STOP_S`
later. Each child writes its log to `node-ID/server.log`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping

from ottla.storage import read_meta_properties
from ottla.testing.asking import new_cluster_id
from ottla.testing.ports import HeldPorts
from ottla.testing.settings import CONTROLLER_ID_FIRST, NODE_ID, VOTERS_MAX, Member, member
from ottla.world.system import SystemDisk

STOP_S = 60.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class NotPossible(Exception):
    """One line: why the cluster cannot be started."""


class LocalCluster:
    """The nodes by their ids, in order."""

    def __init__(
        self, directory: str, *, broker_count: int, controller_count: int, host: str, port: int, more: Mapping[str, str]
    ) -> None:
        self.directory = directory
        self._ports = HeldPorts("127.0.0.1")
        self._next_port = port
        self.members = self._layout(broker_count, controller_count)
        self.bootstrap_servers = ",".join(f"127.0.0.1:{one.client_port}" for one in self.members if one.client_port)
        cluster_id = self._find_cluster_id()
        self.nodes = {
            one.node_id: NodeProcess(
                one,
                self._directory_of(one.node_id),
                {**member(one, self.members, f"{self._directory_of(one.node_id)}/data", host), **more},
                cluster_id,
            )
            for one in self.members
        }

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()

    def stop(self) -> None:
        """End all nodes in order, together."""
        running = [node for node in self.nodes.values() if node.is_running]
        for node in running:
            node.ask_to_stop()
        deadline = time.monotonic() + STOP_S
        for node in running:
            node.wait(deadline)
        self._ports.close()

    def _layout(self, broker_count: int, controller_count: int) -> list[Member]:
        """All brokers have the first ports, all controllers those behind them."""
        client_ports = [self._take_port() for _ in range(broker_count)]
        own_voters = 0 if controller_count else min(broker_count, VOTERS_MAX)
        controller_ports = [self._take_port() for _ in range(controller_count or own_voters)]
        if controller_count:
            return [
                *(Member(NODE_ID + index, port) for index, port in enumerate(client_ports)),
                *(Member(CONTROLLER_ID_FIRST + index, 0, port) for index, port in enumerate(controller_ports)),
            ]
        controller_ports += [0] * (broker_count - own_voters)
        return [
            Member(NODE_ID + index, *ports)
            for index, ports in enumerate(zip(client_ports, controller_ports, strict=True))
        ]

    def _take_port(self) -> int:
        if not self._next_port:
            return self._ports.choose()
        port = self._next_port
        self._next_port += 1
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise NotPossible(f"port {port} cannot be had: {why}. Choose others with --port") from None
        return port

    def _directory_of(self, node_id: int) -> str:
        return f"{self.directory}/node-{node_id}"

    def _find_cluster_id(self) -> str:
        """That of the data that is there; a new one where there is none."""
        disk = SystemDisk()
        found: dict[str, str] = {}
        for one in self.members:
            data = f"{self._directory_of(one.node_id)}/data"
            properties = read_meta_properties(disk, data) if disk.exists(data) else None
            if properties is not None and properties.cluster_id is not None:
                found.setdefault(properties.cluster_id, data)
        if len(found) > 1:
            (first, data), (second, other), *_ = found.items()
            raise NotPossible(f"{data} is of cluster {first} and {other} of cluster {second}: use another --data")
        return next(iter(found), None) or new_cluster_id()


class NodeProcess:
    """One node, and the process that runs it."""

    def __init__(self, own: Member, directory: str, settings: Mapping[str, str], cluster_id: str) -> None:
        self.member = own
        self.log_path = f"{directory}/server.log"
        self._directory = directory
        self._settings = settings
        self._cluster_id = cluster_id
        self._process: subprocess.Popen[bytes] | None = None
        self.is_stopping = False

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def why_it_ended(self) -> str | None:
        """In a few words; None while it runs."""
        code = None if self._process is None else self._process.poll()
        if code is None:
            return None
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        words = self._last_words() if code else ""
        return f"exit code {code}" + (f": {words}" if words else "")

    @property
    def resident_bytes(self) -> int | None:
        """The memory that it holds; None where the system does not tell."""
        try:
            with open(f"/proc/{self.pid}/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * _PAGE_BYTES
        except (OSError, IndexError):
            return None

    def start(self) -> None:
        os.makedirs(self._directory, exist_ok=True)
        path = f"{self._directory}/server.properties"
        with open(path, "w", encoding="latin-1") as file:
            file.writelines(f"{name}={value}\n" for name, value in self._settings.items())
        with open(self.log_path, "ab") as log:
            # A session of its own: Ctrl-C at the terminal is for the parent, who asks all nodes to stop.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ottla.cli.main", "server", "start", path, "--format-new", self._cluster_id],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def ask_to_stop(self) -> None:
        assert self._process is not None, "it runs"
        self.is_stopping = True
        self._process.terminate()

    def wait(self, deadline: float) -> None:
        """Until it has ended; at the deadline it is killed."""
        assert self._process is not None, "it runs"
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _last_words(self) -> str:
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            lines = log.read().splitlines()
        return lines[-1].removeprefix("ottla: ") if lines else ""

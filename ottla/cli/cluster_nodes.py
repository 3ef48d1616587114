"""The nodes of `ottla cluster up`: their ports, their directories, and the processes that run them.

Promises: one cluster id for all directories. Directories of two clusters are refused before anything is written; so are
those of a cluster with other controllers or more brokers, and ports that are taken. A node that has served and ends
although nobody asked it to is started again `restart_s` later, at most `RESTARTS_MAX` times without a minute of peace
in between. `close` leaves no process behind. Each child writes its log to `node-ID/server.log`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping

from ottla.config import read_properties
from ottla.storage import read_meta_properties
from ottla.testing.asking import new_cluster_id
from ottla.testing.ports import HeldPorts
from ottla.testing.settings import CONTROLLER_ID_FIRST, NODE_ID, VOTERS_MAX, WILDCARDS, Member, member
from ottla.world.system import SystemDisk

LOOPBACK = "127.0.0.1"
STOP_S = 60.0
"""How long nodes may take to end in order."""
RESTARTS_MAX = 10
PEACE_S = 60.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class NotPossible(Exception):
    """One line: why the cluster cannot be started."""


class LocalCluster:
    """The nodes by their ids, in order."""

    def __init__(
        self,
        directory: str,
        *,
        broker_count: int,
        controller_count: int,
        host: str,
        port: int,
        more: Mapping[str, str],
        restart_s: float | None,
    ) -> None:
        """`restart_s` is when a node that died is started again; None is never."""
        self.directory = directory
        self._host = LOOPBACK if host in WILDCARDS else host
        self._restart_s = restart_s
        self._ports = HeldPorts(LOOPBACK)
        self._next_port = port
        self.members = self._layout(broker_count, controller_count)
        self.bootstrap_servers = ",".join(f"{self._host}:{one.client_port}" for one in self.members if one.client_port)
        self._check_members()
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

    @property
    def is_running(self) -> bool:
        """Whether any node does."""
        return any(node.is_running for node in self.nodes.values())

    @property
    def has_future(self) -> bool:
        """Whether any node runs, or will be started again."""
        return self.is_running or any(self._may_restart(node) for node in self.nodes.values())

    def start(self) -> None:
        try:
            for node in self.nodes.values():
                node.start()
        except OSError as error:
            raise NotPossible(f"cannot write to {error.filename or self.directory}: {error.strerror}") from None

    def restart_dead(self) -> None:
        """Start nodes again that ended a while ago although nobody asked them to."""
        for node in self.nodes.values():
            if not node.is_running and self._may_restart(node) and node.ended_s_ago >= (self._restart_s or 0):
                node.restart()

    def _may_restart(self, node: NodeProcess) -> bool:
        """One that has never served has been told something that it cannot do, and will be told the same."""
        has_served = node.is_up or node.restart_count > 0
        return self._restart_s is not None and has_served and node.restarts_in_a_row < RESTARTS_MAX

    def ask_to_stop(self) -> None:
        """Ask the brokers, and those that are controllers only once there is no broker that needs them: call it again
        until nothing runs."""
        running = [node for node in self.nodes.values() if node.is_running]
        brokers = [node for node in running if node.member.client_port]
        for node in brokers or running:
            if not node.is_stopping:
                node.ask_to_stop()

    def close(self) -> None:
        """Kill what still runs, and let the ports go. A second call does nothing."""
        for node in self.nodes.values():
            node.kill()
        self._ports.close()

    def _layout(self, broker_count: int, controller_count: int) -> list[Member]:
        """All brokers have the first ports, all controllers those behind them."""
        client_ports = [self._take_port(self._host) for _ in range(broker_count)]
        own_voters = 0 if controller_count else min(broker_count, VOTERS_MAX)
        controller_ports = [self._take_port(LOOPBACK) for _ in range(controller_count or own_voters)]
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

    def _take_port(self, host: str) -> int:
        if not self._next_port:
            return self._ports.choose()
        port = self._next_port
        self._next_port += 1
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            socket.create_server((host.strip("[]"), port), family=family).close()
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise NotPossible(f"port {port} cannot be had: {why}. Choose others with --port") from None
        return port

    def _directory_of(self, node_id: int) -> str:
        return f"{self.directory}/node-{node_id}"

    def _check_members(self) -> None:
        """The controllers of a static quorum cannot be changed, and what a missing broker holds would be missing."""
        before: dict[str, set[int]] = {"broker": set(), "controller": set()}
        for name in sorted(os.listdir(self.directory)) if os.path.isdir(self.directory) else []:
            path = f"{self.directory}/{name}/server.properties"
            if name.startswith("node-") and os.path.exists(f"{self.directory}/{name}/data/meta.properties"):
                for role in _roles_in(path):
                    before[role].add(int(name.removeprefix("node-")))
        now = {role: {one.node_id for one in self.members if role in one.roles} for role in before}
        if not before["controller"]:
            return
        if before["controller"] == now["controller"] and before["broker"] <= now["broker"]:
            return
        options = f"--nodes {len(before['broker'])}"
        if not before["controller"] & before["broker"]:
            options += f" --controllers {len(before['controller'])}"
        raise NotPossible(f"{self.directory} holds a cluster of {options}: say so, or use another --data")

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
        self._started_at = 0.0
        self._ended_at: float | None = None
        self.is_up = False
        """Whether the cluster has said so, since the last start."""
        self.restart_count = 0
        self.restarts_in_a_row = 0
        self.is_stopping = False

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def ended_s_ago(self) -> float:
        """Since when it has been seen not to run."""
        if self.is_running:
            return 0.0
        if self._ended_at is None:
            self._ended_at = time.monotonic()
        return time.monotonic() - self._ended_at

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
            return "stopped" if self.is_stopping else f"killed by {signal.Signals(-code).name}"
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
        self._started_at, self._ended_at, self.is_up = time.monotonic(), None, False

    def restart(self) -> None:
        assert self._ended_at is not None, "it has ended"
        lived_s = self._ended_at - self._started_at
        self.restarts_in_a_row = 1 if lived_s >= PEACE_S else self.restarts_in_a_row + 1
        self.restart_count += 1
        self.start()

    def ask_to_stop(self) -> None:
        assert self._process is not None, "it runs"
        self.is_stopping = True
        self._process.terminate()

    def kill(self) -> None:
        """End it now, if it has not ended."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _last_words(self) -> str:
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            lines = log.read().splitlines()
        return lines[-1].removeprefix("ottla: ") if lines else ""


def _roles_in(path: str) -> list[str]:
    """The roles that the node of these settings had."""
    try:
        with open(path, encoding="latin-1") as file:
            roles = dict(read_properties(file.read())).get("process.roles", "")
    except OSError:
        return []  # it was never started
    return [role for role in roles.split(",") if role]

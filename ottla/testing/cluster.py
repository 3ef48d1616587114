"""`Cluster`: brokers for the time of a test.

Promises: `start` returns when clients are served; after `close`, however the test ended, nothing is left of it: no
file, no thread, no process, no port. A node has the same address and the same data in all its lives. What is asked of a
node that does not run, or that cannot be done, is a `ClusterError` in one line. Every call may come from any thread,
one at a time.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from ottla.testing import asking
from ottla.testing.errors import ClusterError as ClusterError
from ottla.testing.host import NodeUnderTest
from ottla.testing.link import Direction
from ottla.testing.settings import for_tests

HOST = "127.0.0.1"
POLL_S = 0.01


class Cluster:
    """Real brokers on free ports: `with Cluster() as cluster: ... cluster.bootstrap_servers`."""

    def __init__(
        self,
        nodes: int = 1,
        *,
        processes: bool = False,
        settings: Mapping[str, str] | None = None,
        topics: Mapping[str, int] | None = None,
    ) -> None:
        """A cluster that is not started yet.

        `processes` runs each node in a process of its own, instead of on a thread of this one. `settings` are any of
        server.properties. `topics` are made at the start: names, and how many partitions each has.
        """
        if nodes != 1:
            raise ClusterError(f"a cluster of {nodes} nodes is not possible yet: replication is still to come. Use 1.")
        self._is_of_processes = processes
        self._settings = {name: str(value) for name, value in (settings or {}).items()}
        self._topics = dict(topics or {})
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._nodes: list[NodeUnderTest] = []
        self._guard = threading.RLock()

    # From start to close

    def start(self) -> Cluster:
        """Start every node and return when clients are served."""
        with self._guard:
            if self._directory is not None:
                raise ClusterError("the cluster runs already")
            self._directory = tempfile.TemporaryDirectory(prefix="ottla-testing-")
            try:
                self._nodes = [self._make_node(0)]
                for node in self._nodes:
                    node.start()
                for name, partitions in self._topics.items():
                    self.create_topic(name, partitions)
            except BaseException:
                self.close()
                raise
        return self

    def _make_node(self, number: int) -> NodeUnderTest:
        assert self._directory is not None, "the cluster has a place for its files"
        data = f"{self._directory.name}/node-{number}"
        name = f"ottla-node-{number}"

        def settings_for(port: int) -> dict[str, str]:
            return for_tests(data, HOST, port, self._settings)

        if self._is_of_processes:
            from ottla.testing.process import ProcessNode

            return ProcessNode(name, HOST, self._directory.name, settings_for)
        from ottla.testing.thread import ThreadNode

        return ThreadNode(name, HOST, settings_for)

    def close(self) -> None:
        """End every node and remove all data. A second call does nothing."""
        with self._guard:
            nodes, self._nodes = self._nodes, []
            directory, self._directory = self._directory, None
            try:
                for node in nodes:
                    node.kill()  # what a controlled shutdown would put in order is removed anyway
            finally:
                if directory is not None:
                    directory.cleanup()

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    # For clients

    @property
    def bootstrap_servers(self) -> str:
        """What a client's `bootstrap.servers` is set to."""
        return ",".join(node.address for node in self._started())

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> str:
        """Make a topic and return its name. Settings are Kafka's, with `_` for the dots: `retention_ms=1000`."""
        settings = {key.replace("_", "."): _text(value) for key, value in configs.items()}
        asking.create_topic(self._answering(0), name, partitions, settings)
        return name

    def wait_for_group(
        self, group: str, *, state: str | None = None, members: int | None = None, timeout: float = 30.0
    ) -> None:
        """Return when the group of that name, of any kind, is in a state (`Stable`, `Empty`, ...) or has that many
        members, or both; without either, when it is stable. `TimeoutError` says how it was last seen."""
        if state is None and members is None:
            state = "Stable"
        deadline = time.monotonic() + timeout
        while True:
            try:
                seen = asking.describe_group(self._answering(0), group)
            except asking.NotReady:
                seen = asking.GroupSeen("not known yet", 0)
            if state in (None, seen.state) and members in (None, seen.member_count):
                return
            if time.monotonic() > deadline:
                wanted = " and ".join(
                    text
                    for text, value in ((f"state {state}", state), (f"{members} members", members))
                    if value is not None
                )
                raise TimeoutError(
                    f"group {group} has not come to {wanted} within {timeout:g} s: "
                    f"its state is {seen.state}, with {seen.member_count} members"
                )
            time.sleep(POLL_S)

    # What happens to nodes

    def is_running(self, node: int = 0) -> bool:
        return self._node(node).is_running

    def stop(self, node: int = 0) -> None:
        """A controlled shutdown; the data is kept for `restart`."""
        with self._guard:
            self._running(node).stop()

    def kill(self, node: int = 0) -> None:
        """End it as kill -9 does: in the middle of whatever it does, connections broken, nothing put in order."""
        with self._guard:
            self._running(node).kill()

    def restart(self, node: int = 0) -> None:
        """Start it again, on the same port and with its data; one that runs is stopped in order first."""
        with self._guard:
            found = self._node(node)
            if found.is_running:
                found.stop()
            else:
                found.kill()  # what is left of one that ended by itself
            found.start()

    def move_time(self, seconds: float, node: int | None = None) -> None:
        """Let the nodes' clocks, and all that waits by them, go that far ahead: retention, expiry, timeouts.

        Members that have not been heard of for their session's time are gone then, as if nobody had spoken to the
        broker all the while. Real time goes on as it was.
        """
        if seconds < 0:
            raise ClusterError("time does not go back")
        self._tell(node, "move_time", round(seconds * 1000))

    # What happens to the link between clients and nodes

    def cut(self, node: int | None = None, *, silent: bool = False, direction: Direction = "both") -> None:
        """Cut clients off until `heal`: their connections are closed and new ones refused.

        A `silent` link closes nothing and lets nothing through: half-open connections, on which a client waits until
        its own time-out. In one direction only, `requests` never reach the node, or its `responses` never come back.
        """
        if direction not in ("both", "requests", "responses"):
            raise ClusterError(f"direction is both, requests or responses, and not {direction!r}")
        if silent:
            self._tell(node, "silence", direction)
        elif direction != "both":
            raise ClusterError("only a silent link has a direction: cut(silent=True, direction=...)")
        else:
            self._tell(node, "cut")

    def delay(self, seconds: float, node: int | None = None) -> None:
        """Let every request and every response be that late, until `heal`."""
        self._tell(node, "delay", seconds * 1000)

    def drop_connections(self, node: int | None = None) -> None:
        """Close every connection once; clients may connect again at once."""
        self._tell(node, "drop")

    def heal(self, node: int | None = None) -> None:
        """Let the link be as it was. What a silent or slow one held back goes on."""
        self._tell(node, "heal")

    def connection_count(self, node: int = 0) -> int:
        """How many connections of clients the node has."""
        count: int = self._running(node).ask("connection_count")
        return count

    # Nodes by their number

    def _tell(self, node: int | None, command: str, *arguments: Any) -> None:
        with self._guard:
            numbers = range(len(self._started())) if node is None else [node]
            for number in numbers:
                self._running(number).ask(command, *arguments)

    def _started(self) -> list[NodeUnderTest]:
        if not self._nodes:
            raise ClusterError("the cluster does not run: use it in a `with` statement, or call start()")
        return self._nodes

    def _node(self, number: int) -> NodeUnderTest:
        nodes = self._started()
        if not 0 <= number < len(nodes):
            raise ClusterError(
                f"there is no node {number}: nodes are counted from 0, and this cluster has {len(nodes)}"
            )
        return nodes[number]

    def _running(self, number: int) -> NodeUnderTest:
        found = self._node(number)
        if not found.is_running:
            raise ClusterError(f"node {number} does not run: restart({number}) starts it")
        return found

    def _answering(self, number: int) -> str:
        """The address of a node that can answer."""
        with self._guard:
            found = self._running(number)
            state = found.ask("link_state")
        if state:
            raise ClusterError(f"the link to node {number} is {state}: heal() it first")
        return found.address


def _text(value: object) -> str:
    """A setting's value as Kafka writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)

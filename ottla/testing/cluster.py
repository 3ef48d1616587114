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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypeAlias

from ottla.testing import asking
from ottla.testing.errors import ClusterError as ClusterError
from ottla.testing.host import CLIENTS, NodeUnderTest, Orders, Target
from ottla.testing.link import Way
from ottla.testing.ports import HeldPorts
from ottla.testing.settings import NODE_ID, VOTERS_MAX, Member, for_tests, member

HOST = "127.0.0.1"
POLL_S = 0.01
START_TIMEOUT_S = 30.0
NODES_MAX = 16
"""A test with more nodes than this wants the simulator."""

Direction = Literal["both", "requests", "responses"]
Nodes: TypeAlias = int | Collection[int] | None
"""Nodes by their numbers, counted from 0; without one it is all of them."""


_WAYS: dict[Direction, tuple[Way, Way]] = {
    "both": ("both", "both"),
    "requests": ("incoming", "outgoing"),
    "responses": ("outgoing", "incoming"),
}
"""What is held back at a node's own end of its links, and at the end of its peers."""


class Cluster:
    """Real brokers on free ports: `with Cluster() as cluster: ... cluster.bootstrap_servers`.

    Nodes are counted from 0. Kafka's ids are one more: node 0 is broker 1.
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        processes: bool = False,
        settings: Mapping[str, str] | None = None,
        topics: Mapping[str, int] | None = None,
    ) -> None:
        """A cluster that is not started yet.

        Every node is a broker, and the first five are controllers too. `processes` runs each in a process of its own,
        instead of on a thread of this one. `settings` are any of server.properties. `topics` are made at the start:
        names, and how many partitions each has. Topics have a replica on each node, up to three.
        """
        if not 1 <= nodes <= NODES_MAX:
            raise ClusterError(f"a cluster has 1 to {NODES_MAX} nodes, and not {nodes}")
        self._node_count = nodes
        self._is_of_processes = processes
        self._settings = {name: str(value) for name, value in (settings or {}).items()}
        self._topics = dict(topics or {})
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._ports = HeldPorts(HOST)
        self._members: list[Member] = []
        self._cluster_id = ""
        self._nodes: list[NodeUnderTest] = []
        self._faults: list[_Fault] = []
        self._guard = threading.RLock()

    # From start to close

    def start(self) -> Cluster:
        """Start every node and return when clients are served."""
        with self._guard:
            if self._directory is not None:
                raise ClusterError("the cluster runs already")
            self._directory = tempfile.TemporaryDirectory(prefix="ottla-testing-")
            try:
                self._members = [self._choose_ports(number) for number in range(self._node_count)]
                self._cluster_id = asking.new_cluster_id()
                self._nodes = [self._make_node(number) for number in range(self._node_count)]
                self._start(range(self._node_count))
                for name, partitions in self._topics.items():
                    self.create_topic(name, partitions)
            except BaseException:
                self.close()
                raise
        return self

    def _choose_ports(self, number: int) -> Member:
        choose = self._ports.choose
        is_voter = number < VOTERS_MAX
        # Other nodes come to a port of their own, so that clients can be cut off without them.
        peer_port = choose() if self._node_count > 1 else 0
        return Member(NODE_ID + number, choose(), choose() if is_voter else 0, peer_port)

    def _make_node(self, number: int) -> NodeUnderTest:
        assert self._directory is not None, "the cluster has a place for its files"
        name = f"ottla-node-{number}"
        if self._is_of_processes:
            from ottla.testing.process import ProcessNode

            return ProcessNode(name, HOST, self._directory.name)
        from ottla.testing.thread import ThreadNode

        return ThreadNode(name, HOST)

    def _orders(self, number: int) -> Orders:
        """What the next life of a node begins with."""
        assert self._directory is not None, "the cluster has a place for its files"
        settings = member(self._members[number], self._members, f"{self._directory.name}/node-{number}", HOST)
        others = [(other, one) for other, one in enumerate(self._members) if other != number]
        return Orders(
            settings={**settings, **for_tests(self._node_count), **self._settings},
            cluster_id=self._cluster_id,
            peer_of_port=[
                (port, other) for other, one in others for port in (one.peer_port, one.controller_port) if port
            ],
            faults=[(fault.peer, *fault.switch) for fault in self._faults if fault.host == number],
        )

    def _start(self, numbers: Iterable[int]) -> None:
        """Start nodes together, as those of a quorum wait for each other. When one cannot, none of them runs."""
        nodes = {number: self._nodes[number] for number in numbers}
        deadline = time.monotonic() + START_TIMEOUT_S
        try:
            for number, node in nodes.items():
                node.begin(self._orders(number))
            waiting = dict(nodes)
            while waiting:
                for number, node in list(waiting.items()):
                    if node.is_ready(POLL_S):
                        del waiting[number]
                    elif time.monotonic() > deadline:
                        raise ClusterError(f"node {number} does not serve clients within {START_TIMEOUT_S:g} s")
        except BaseException:
            _each(node.kill for node in nodes.values())
            raise

    def close(self) -> None:
        """End every node and remove all data. A second call does nothing."""
        with self._guard:
            nodes, self._nodes = self._nodes, []
            directory, self._directory = self._directory, None
            self._faults.clear()
            try:
                _each(node.kill for node in nodes)  # what a controlled shutdown would put in order is removed anyway
            finally:
                self._ports.close()
                if directory is not None:
                    directory.cleanup()

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    # For clients

    @property
    def bootstrap_servers(self) -> str:
        """What a client's `bootstrap.servers` is set to: every node, whether it runs or not."""
        return ",".join(node.address for node in self._started())

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> str:
        """Make a topic and return its name when every node that answers clients knows it, with its leaders.

        Settings are Kafka's, with `_` for the dots: `retention_ms=1000`.
        """
        settings = {key.replace("_", "."): _text(value) for key, value in configs.items()}
        asking.create_topic(self._answering()[0], name, partitions, settings)
        if self._node_count > 1:
            self._wait_for(name, lambda one: one.leader >= 0, asking.TIMEOUT_S, "has not got its leaders")
        return name

    def leader(self, topic: str, partition: int = 0) -> int:
        """The number of the node that leads a partition now; `ClusterError` when none does.

        Of what the nodes say that answer clients the newest is believed.
        """
        seen = [
            one
            for address in self._answering()
            for one in asking.describe_topic(address, topic)
            if one.partition == partition
        ]
        newest = max(seen, key=lambda one: one.leader_epoch, default=None)
        if newest is None or newest.leader < 0:
            raise ClusterError(f"{topic}-{partition} has no leader")
        return newest.leader - NODE_ID

    def controller(self) -> int:
        """The number of the node whose controller is the active one; `ClusterError` if none is.

        Of what the running nodes know the newest is believed.
        """
        with self._guard:
            known = [node.ask("quorum_leader") for node in self._started() if node.is_running and not node.is_paused]
        _, leader_id = max(known, default=(0, -1))
        if leader_id < 0:
            raise ClusterError("no controller is the active one")
        found: int = leader_id - NODE_ID
        return found

    def wait_for_replicas(self, topic: str, timeout: float = 30.0) -> None:
        """Return when every replica of the topic is in sync, as every node sees it that answers clients.
        `TimeoutError` says how it was last seen."""
        self._wait_for(
            topic, lambda one: one.leader >= 0 and set(one.isr) == set(one.replicas), timeout, "is not in sync"
        )

    def _wait_for(
        self, topic: str, is_well: Callable[[asking.PartitionSeen], bool], timeout_s: float, complaint: str
    ) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            seen = [asking.describe_topic(address, topic) for address in self._answering()]
            if all(partitions and all(map(is_well, partitions)) for partitions in seen):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"topic {topic} {complaint} within {timeout_s:g} s: {seen}")
            time.sleep(POLL_S)

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
                seen = asking.describe_group(self._answering(), group)
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

    def stop(self, node: Nodes = None) -> None:
        """A controlled shutdown; the data is kept for `restart`."""
        with self._guard:
            _each(one.stop for one in [self._awake(number) for number in self._numbers(node)])

    def kill(self, node: Nodes = None) -> None:
        """End it as kill -9 does: in the middle of whatever it does, connections broken, nothing put in order."""
        with self._guard:
            for one in [self._running(number) for number in self._numbers(node)]:
                one.kill()

    def restart(self, node: Nodes = None) -> None:
        """Start it again, on the same port and with its data; one that runs is stopped in order first.

        It is not cut off any more; what is wrong with single links stays until `heal`. Name the nodes of a quorum that
        has lost its majority together, as each waits for the others.
        """
        with self._guard:
            numbers = list(self._numbers(node))
            nodes = [self._node(number) for number in numbers]
            for number in numbers:
                self._mend(lambda fault, number=number: fault.cut_off == number)  # type: ignore[misc]  # bound now
            _each(one.stop for one in nodes if one.is_running and not one.is_paused)
            for one in nodes:
                one.kill()  # what is left of one that ended by itself, or stood still
            self._start(numbers)

    def pause(self, node: Nodes = None) -> None:
        """Let it stand still until `resume`, as SIGSTOP does: its connections stay open, and nothing is answered."""
        with self._guard:
            for one in [self._awake(number) for number in self._numbers(node)]:
                one.pause()

    def resume(self, node: Nodes = None) -> None:
        """Let it go on; one that was not paused does anyway."""
        with self._guard:
            for number in self._numbers(node):
                one = self._node(number)
                if one.is_running and one.is_paused:
                    one.resume()

    def move_time(self, seconds: float, node: Nodes = None) -> None:
        """Let the nodes' clocks, and all that waits by them, go that far ahead: retention, expiry, timeouts.

        Members that have not been heard of for their session's time are gone then, as if nobody had spoken to the
        broker all the while. Real time goes on as it was. Nodes have sessions too: those of a cluster of several find
        each other again after a move, as after a machine's sleep.
        """
        if seconds < 0:
            raise ClusterError("time does not go back")
        with self._guard:
            for one in [self._awake(number) for number in self._numbers(node)]:
                one.ask("move_time", round(seconds * 1000))

    # What happens to links

    def cut(
        self, node: Nodes = None, peer: Target | None = None, *, silent: bool = False, direction: Direction = "both"
    ) -> None:
        """Cut nodes off until `heal`: their connections are closed and new ones refused.

        Without a `peer` they are cut off from everyone; with one only from that node, or from all `"clients"`. A
        `silent` link closes nothing and lets nothing through: half-open connections, on which the other end waits until
        its own time-out. In one direction only, `requests` and whatever else is sent to the node never reach it, or
        its `responses` and whatever else it sends never arrive.
        """
        if direction not in ("both", "requests", "responses"):
            raise ClusterError(f"direction is both, requests or responses, and not {direction!r}")
        if silent:
            own_way, peer_way = _WAYS[direction]
            self._break(node, peer, ("silence", own_way), ("silence", peer_way))
        elif direction != "both":
            raise ClusterError("only a silent link has a direction: cut(silent=True, direction=...)")
        else:
            self._break(node, peer, ("cut",), ("cut",))

    def delay(self, seconds: float, node: Nodes = None, peer: Target | None = None) -> None:
        """Let every request and every response be that late, until `heal`."""
        self._break(node, peer, ("delay", seconds * 1000), ("delay", seconds * 1000))

    def drop_connections(self, node: Nodes = None, peer: Target | None = None) -> None:
        """Close every connection once; whoever made them may connect again at once."""
        with self._guard:
            for number, target in self._links(node, peer):
                self._switch(number, target, "drop")
                if isinstance(target, int):
                    self._switch(target, number, "drop")

    def heal(self, node: Nodes = None, peer: Target | None = None) -> None:
        """Let the links be as they were. What a silent or slow one held back goes on."""
        with self._guard:
            links = list(self._links(node, peer))
            between = [{number, target} for number, target in links]
            self._mend(lambda fault: {fault.host, fault.peer} in between)
            for number, target in links:
                if target == CLIENTS:
                    self._switch(number, target, "heal")

    def connection_count(self, node: int = 0) -> int:
        """How many connections of clients the node has."""
        count: int = self._awake(node).ask("connection_count")
        return count

    def _break(
        self, node: Nodes, peer: Target | None, own_switch: tuple[Any, ...], peer_switch: tuple[Any, ...]
    ) -> None:
        """Do something to links: to a node's own end `own_switch`, to that of its peer `peer_switch`."""
        with self._guard:
            for number, target in self._links(node, peer):
                self._switch(number, target, *own_switch)
                if isinstance(target, int):
                    cut_off = number if peer is None else None
                    self._switch(target, number, *peer_switch)
                    self._faults.append(_Fault(number, target, own_switch, cut_off))
                    self._faults.append(_Fault(target, number, peer_switch, cut_off))

    def _mend(self, is_over: Callable[[_Fault], bool]) -> None:
        """Heal the links between nodes of which something is over; what else is wrong with them stays."""
        over = [fault for fault in self._faults if is_over(fault)]
        self._faults = [fault for fault in self._faults if not is_over(fault)]
        for host, peer in dict.fromkeys((fault.host, fault.peer) for fault in over):
            self._switch(host, peer, "heal")
            for fault in self._faults:
                if (fault.host, fault.peer) == (host, peer):
                    self._switch(host, peer, *fault.switch)

    def _switch(self, number: int, target: Target, *switch: Any) -> None:
        """Tell a node, if it runs; the next life of one that does not begins with what is wrong."""
        if self._node(number).is_running:
            self._awake(number).ask("switch", target, *switch)

    def _links(self, node: Nodes, peer: Target | None) -> Iterator[tuple[int, Target]]:
        """The links that are meant: a node, and who is at the other end."""
        count = len(self._started())
        if isinstance(peer, int):
            self._node(peer)
            if node is None or peer in self._numbers(node):
                raise ClusterError("a link is between two nodes: name both")
        elif peer not in (None, CLIENTS):
            raise ClusterError(f"peer is the number of a node, or {CLIENTS!r}, and not {peer!r}")
        for number in self._numbers(node):
            if node is not None:
                self._running(number)
            if peer is not None:
                yield number, peer
                continue
            yield number, CLIENTS
            yield from ((number, other) for other in range(count) if other != number)

    # Nodes by their number

    def _numbers(self, node: Nodes) -> Iterable[int]:
        if node is None:
            return range(len(self._started()))
        return [node] if isinstance(node, int) else list(node)

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

    def _awake(self, number: int) -> NodeUnderTest:
        found = self._running(number)
        if found.is_paused:
            raise ClusterError(f"node {number} is paused: resume({number}) lets it go on")
        return found

    def _answering(self) -> list[str]:
        """The addresses of the nodes that can answer; why the first cannot, when there is none."""
        found = []
        refusals = []
        with self._guard:
            for number in range(len(self._started())):
                try:
                    node = self._awake(number)
                except ClusterError as error:
                    refusals.append(error)
                    continue
                state = node.ask("link_state")
                if state:
                    refusals.append(ClusterError(f"the link to node {number} is {state}: heal() it first"))
                else:
                    found.append(node.address)
        if not found:
            raise refusals[0]
        return found


class _Fault(NamedTuple):
    """What is wrong with what one node has opened to another."""

    host: int
    peer: int
    switch: tuple[Any, ...]
    cut_off: int | None
    """The node that is cut off from everyone by this; None for a fault of this link alone."""


def _each(calls: Iterable[Callable[[], None]]) -> None:
    """Make the calls at the same time, wait for all of them, and raise what the first raised that failed."""
    todo = list(calls)
    if len(todo) == 1:
        todo[0]()
        return
    if not todo:
        return
    with ThreadPoolExecutor(len(todo)) as pool:
        done = [pool.submit(call) for call in todo]
    for one in done:
        one.result()


def _text(value: object) -> str:
    """A setting's value as Kafka writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)

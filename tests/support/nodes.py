"""Several nodes where a test had one: with `OTTLA_TESTS_NODES=3` the fixtures start three processes instead of one.

`Nodes` has the face of a broker: an address to begin with, that of a node which is not the active controller; `kill`,
`stop` and `start`, of one node after the other; errors. What else a test expects of a cluster (ids, replicas) it takes
from `NODE_IDS` and `REPLICAS`, which are those of one node by default. Called by the fixtures of the clients' tests.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner

from ottla.cli import storage
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from tests.support.broker import BrokerProcess
from tests.support.raw import RawClient
from tests.support.server import Server, Settings

KIND = os.environ.get("OTTLA_TESTS_AGAINST", "ottla")
"""Whom the tests of our own clients talk to: Ottla or a real Kafka."""
NODE_COUNT = int(os.environ.get("OTTLA_TESTS_NODES", "1"))
NODE_IDS = list(range(1, NODE_COUNT + 1))
REPLICAS = min(3, NODE_COUNT)
PATIENCE_S = 60.0
TOPIC_RESOURCE = 2
GROUP, TRANSACTION = 0, 1
"""Kinds of keys that have a coordinator."""
METADATA_TOPIC, METADATA_VERSION = "__cluster_metadata", 12
SAFE = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}
"""As the operator of three nodes sets them."""
QUICK = {"broker.session.timeout.ms": "5000", "broker.heartbeat.interval.ms": "1000"}
"""With Kafka's defaults a killed broker is missed after nine seconds."""


class Nodes:
    """`with Nodes(tmp_path, "ottla", settings) as nodes: ... nodes.address`. Every node has both roles."""

    def __init__(
        self,
        directory: Path,
        kind: str = "ottla",
        settings: Mapping[str, str] | None = None,
        *,
        count: int = 3,
        features: Sequence[str] = (),
    ) -> None:
        self.name = kind
        self.directory = directory
        self.servers: dict[int, Server] = {}
        self.data: dict[int, Path] = {}
        files = {number: Settings(directory / f"node{number}" / "data") for number in range(1, count + 1)}
        voters = ",".join(f"{number}@127.0.0.1:{one.controller_port}" for number, one in files.items())
        cluster_id = _storage("random-uuid")
        for number, one in files.items():
            one.update({
                "node.id": str(number), "controller.quorum.voters": voters, **SAFE, **QUICK, **(settings or {}),
            })  # fmt: skip
            home = directory / f"node{number}"
            home.mkdir(parents=True)
            properties = one.write(home / "server.properties")
            _format(properties, cluster_id, features)
            self.servers[number] = (Server.ottla if kind == "ottla" else Server.kafka)(properties)
            self.data[number] = home / "data"
        self.contact_id = 1
        self._turns: Iterator[int] = itertools.cycle(self.servers)
        self._begun: dict[int, int] = dict.fromkeys(self.servers, 0)

    @property
    def addresses(self) -> dict[int, str]:
        return {number: server.address for number, server in self.servers.items()}

    @property
    def address(self) -> str:
        """What a client is told for `bootstrap.servers`: one node, and not the active controller."""
        return self.servers[self.contact_id].address

    @property
    def controller(self) -> str:
        """The same of a controller."""
        return self.servers[self.contact_id].controller

    @property
    def port(self) -> int:
        return self.servers[self.contact_id].port

    def start(self) -> None:
        """Start every node that does not run, at once; return when all serve and know each other."""
        waiting = [server for server in self.servers.values() if server.process is None]
        for server in waiting:
            server.launch()
        for server in waiting:
            server.await_ready()
        self._wait(lambda: all(len(self._brokers(one)) == len(self.servers) for one in self.servers.values()))
        self._begun = {number: len(server.log()) for number, server in self.servers.items()}

    def kill(self) -> None:
        """kill -9 of one node, the next in turn; the active controller of the beginning is the first."""
        self.servers[next(self._turns)].kill()

    def stop(self) -> None:
        """A controlled shutdown of one node, the next in turn."""
        self.servers[next(self._turns)].stop()

    def active_controller(self) -> int:
        topics = [DescribeQuorumRequestTopicData(METADATA_TOPIC, [DescribeQuorumRequestPartitionData(0)])]
        with RawClient(self.port) as client:
            answer = client.send(DescribeQuorumRequest(topics), 2, DescribeQuorumResponse)
        assert answer.error_code == 0, answer
        return answer.topics[0].partitions[0].leader_id

    def await_topic(self, topic: str, partitions: int = 1) -> None:
        """Wait until every node has heard of a topic, of so many partitions at least, and of their leaders."""

        def is_known(server: Server) -> bool:
            leaders = [one.leader_id for one in _partitions(server.port, topic)]
            return len(leaders) >= partitions and min(leaders) >= 0

        self._wait(lambda: all(map(is_known, self.servers.values())))

    def await_deletion(self, topic: str) -> None:
        """Wait until no node knows the topic any more."""
        self._wait(lambda: not any(_partitions(server.port, topic) for server in self.servers.values()))

    def is_in_sync(self, *topics: str) -> bool:
        """Whether every replica of these topics is in the ISR, as every node sees it."""
        return all(
            len(one.isr_nodes) == len(one.replica_nodes)
            for server in self.servers.values()
            for topic in topics
            for one in _partitions(server.port, topic)
        )

    def await_setting(self, topic: str, name: str, value: str) -> None:
        """Wait until every node has heard of a topic's setting."""
        self._wait(lambda: all(_setting(server.port, topic, name) == value for server in self.servers.values()))

    def errors(self) -> list[str]:
        return [f"node {number}: {line}" for number, server in self.servers.items() for line in server.errors()]

    def logs(self) -> dict[int, str]:
        """What each node has said since all serve and know each other."""
        return {number: server.log()[self._begun[number] :] for number, server in self.servers.items()}

    def log_tail(self, lines: int = 20) -> str:
        return "\n".join(f"node {number}:\n{server.log_tail(lines)}" for number, server in self.servers.items())

    def close(self) -> None:
        """End all of them in order, at once: the last ones have no quorum any more to tell, and say so after seconds.
        Kafka's would wait for it."""
        if self.name == "ottla":
            running = [server for server in self.servers.values() if server.process is not None]
            with ThreadPoolExecutor() as threads:
                list(threads.map(Server.stop, running))

    def __enter__(self) -> Nodes:
        try:
            self.start()
            self._wait(lambda: self.active_controller() > 0)
            leader = self.active_controller()
            others = [number for number in self.servers if number != leader]
            self.contact_id = others[-1]
            self._turns = itertools.cycle([leader, *others])
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            self._end()

    def _end(self) -> None:
        for server in self.servers.values():
            if server.process is not None:
                server.kill()

    def _brokers(self, server: Server) -> list[int]:
        with RawClient(server.port) as client:
            answer = client.send(MetadataRequest(topics=[]), METADATA_VERSION, MetadataResponse)
        return [broker.node_id for broker in answer.brokers]

    def _wait(self, claim: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not claim():
            assert time.monotonic() < deadline, f"the nodes do not know each other:\n{self.log_tail()}"
            time.sleep(0.05)


Brokers = BrokerProcess | Nodes
"""What a test is given: one broker or several."""


@contextmanager
def running(
    kind: str, directory: Path, settings: Mapping[str, str] | None = None, *, features: Sequence[str] = ()
) -> Iterator[Server | Nodes]:
    """An Ottla or a real Kafka, of one node or as many as are asked for, run from properties files."""
    directory.mkdir(parents=True, exist_ok=True)
    if NODE_COUNT > 1:
        with Nodes(directory, kind, settings, count=NODE_COUNT, features=features) as nodes:
            yield nodes
        return
    one = Settings(directory / "data")
    one.update(settings or {})
    properties = one.write(directory / "server.properties")
    _format(properties, _storage("random-uuid"), features)
    with (Server.ottla if kind == "ottla" else Server.kafka)(properties) as server:
        yield server


def _partitions(port: int, topic: str) -> list[MetadataResponsePartition]:
    """A topic's partitions as a broker knows them; none where it does not know the topic."""
    request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    with RawClient(port) as client:
        (found,) = client.send(request, METADATA_VERSION, MetadataResponse).topics
    return found.partitions


def _setting(port: int, topic: str, name: str) -> str | None:
    request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC_RESOURCE, topic, [name])])
    with RawClient(port) as client:
        (answer,) = client.send(request, 4, DescribeConfigsResponse).results
    return next((one.value for one in answer.configs), None)


def masked_addresses(brokers: Server | Nodes, text: str) -> str:
    """The text with `ADDRESS` for every broker's, and without the id beside it: which broker it is is drawn by lot."""
    for server in brokers.servers.values() if isinstance(brokers, Nodes) else [brokers]:
        text = re.sub(rf"\b{re.escape(server.address)}( +\(\d+\))?", "ADDRESS", text)
    return text


def made_known(brokers: Brokers, topic: str) -> str:
    """The topic. Of several nodes each has heard of it: what is sent with acks=0 to a leader that has not is lost, in
    Kafka too. On one node it is made when somebody asks for it."""
    if isinstance(brokers, Nodes):
        with RawClient(brokers.port) as client:
            client.create_topic(topic)
        brokers.await_topic(topic)
    return topic


def kill_all(brokers: Server | Brokers) -> None:
    """kill -9 of every node at once."""
    if isinstance(brokers, Nodes):
        for server in brokers.servers.values():
            if server.process is not None:
                server.kill()
    else:
        brokers.kill()


def coordinator_port(port: int, key: str, kind: int = GROUP) -> int:
    """The port of the coordinator of a group or a transactional id, as the broker of that port knows it."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with RawClient(port) as client:
            answer = client.send(
                FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4, FindCoordinatorResponse
            )
        (found,) = answer.coordinators
        if not found.error_code:
            return found.port
        assert time.monotonic() < deadline, f"{key} has no coordinator: {found}"
        time.sleep(0.05)


def _format(properties: Path, cluster_id: str, features: Sequence[str]) -> None:
    chosen = [word for feature in features for word in ("--feature", feature)]
    _storage("format", "-t", cluster_id, "-c", str(properties), *chosen)


def _storage(*arguments: str) -> str:
    """What `ottla storage` prints, without the seconds that processes take to start on a busy machine."""
    done = CliRunner().invoke(storage.command, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


def leader_port(port: int, topic: str, partition: int) -> int:
    """The port of the broker that leads a partition, as the broker of that port knows it."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with RawClient(port) as client:
            request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
            answer = client.send(request, METADATA_VERSION, MetadataResponse)
        ports = {broker.node_id: broker.port for broker in answer.brokers}
        for one in answer.topics[0].partitions:
            if one.partition_index == partition and one.leader_id in ports:
                return ports[one.leader_id]
        assert time.monotonic() < deadline, f"{topic}-{partition} has no leader: {answer.topics}"
        time.sleep(0.05)

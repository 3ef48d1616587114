"""A cluster of real processes, Ottla's or for comparison Kafka's, each with its own properties file and directories.

`ClusterProcesses` starts, kills, pauses, cuts off and restarts its nodes and asks them what a test wants to know: who
leads a partition, who is the active controller, whether every replica is in sync. Nodes are on loopback, or each in a
network namespace of its own where the test gives a `Network`. Called by tests of what survives.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from ottla.errors import InvalidReplicationFactor
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from tests.support.namespaces import CLIENTS, Network
from tests.support.raw import RawClient
from tests.support.server import READY_S, Server, free_ports, kafka_command, ottla_command, run_ottla

CONTROLLER_ID_FIRST = 101
"""Ids of nodes that are controllers only."""
SESSION_MS = 2_000
PATIENCE_S = 60.0
ANSWER_S = 5.0
"""A broker that forwards a question to a controller that stands still answers late: another is asked then."""
METADATA_TOPIC = "__cluster_metadata"
METADATA_VERSION = 12
QUICK_FAILOVER = {
    # What a test waits for: with Kafka's defaults a dead broker is noticed after nine seconds.
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": "300",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "500",
    "replica.lag.time.max.ms": "2000",
}
SMALL_TOPICS = {
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
}


Answer = TypeVar("Answer")


class NodeProcess(Server):
    """One node of a cluster. `launch` returns at once, because nodes of a quorum wait for each other."""

    def __init__(
        self,
        node_id: int,
        properties: Path,
        *,
        is_broker: bool,
        data: Path,
        is_kafka: bool = False,
        prefix: Sequence[str] = (),
    ) -> None:
        name, command = ("kafka", kafka_command(properties)) if is_kafka else ("ottla", ottla_command(properties))
        super().__init__(name, [*prefix, *command], properties)
        self.node_id = node_id
        self.is_broker = is_broker
        self.data = data
        self.is_paused = False

    @property
    def is_running(self) -> bool:
        return self.process is not None

    def is_ready(self) -> bool:
        return super().is_ready() if self.is_broker else is_listening(self.host, self.port)

    def pause(self) -> None:
        """SIGSTOP: it does nothing, and its connections stay open."""
        assert self.process is not None, "not started"
        self.process.send_signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        assert self.process is not None, "not started"
        self.process.send_signal(signal.SIGCONT)
        self.is_paused = False


class ClusterProcesses:
    """`with ClusterProcesses(tmp_path, brokers=3) as cluster: ... cluster.addresses`

    Nodes have both roles, unless `controllers` says how many nodes are controllers only. `network` must have a host for
    the id of every node (`node_ids`), and is the caller's to close.
    """

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 3,
        controllers: int = 0,
        settings: Mapping[str, str] | None = None,
        network: Network | None = None,
        is_kafka: bool = False,
    ) -> None:
        self.network = network
        self.nodes: dict[int, NodeProcess] = {}
        broker_ids = range(1, brokers + 1)
        voter_ids = range(CONTROLLER_ID_FIRST, CONTROLLER_ID_FIRST + controllers) if controllers else broker_ids
        free = free_ports(brokers + len(voter_ids))
        ports = dict(zip(broker_ids, free[:brokers], strict=True))
        voter_ports = dict(zip(voter_ids, free[brokers:], strict=True))

        def host(node_id: int) -> str:
            return "127.0.0.1" if network is None else network.address(node_id)

        common = {
            "controller.quorum.voters": ",".join(f"{one}@{host(one)}:{port}" for one, port in voter_ports.items()),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "default.replication.factor": str(min(3, brokers)),
            "min.insync.replicas": "2" if brokers > 2 else "1",
            **QUICK_FAILOVER,
            **SMALL_TOPICS,
            **(settings or {}),
        }
        cluster_id = run_ottla("storage", "random-uuid").stdout.strip()
        for node_id in sorted({*broker_ids, *voter_ids}):
            roles, listeners = [], []
            if node_id in ports:
                roles.append("broker")
                listeners.append(f"PLAINTEXT://{host(node_id)}:{ports[node_id]}")
            if node_id in voter_ports:
                roles.append("controller")
                listeners.append(f"CONTROLLER://{host(node_id)}:{voter_ports[node_id]}")
            home = directory / f"node{node_id}"
            home.mkdir(parents=True)
            own = {
                **common,
                "process.roles": ",".join(roles),
                "node.id": str(node_id),
                "listeners": ",".join(listeners),
                "log.dirs": str(home / "data"),
            }
            properties = home / "server.properties"
            properties.write_text("".join(f"{name}={value}\n" for name, value in own.items()))
            formatted = run_ottla("storage", "format", "-t", cluster_id, "-c", properties)
            assert formatted.returncode == 0, formatted.stderr
            self.nodes[node_id] = NodeProcess(
                node_id,
                properties,
                is_broker=node_id in ports,
                data=home / "data",
                is_kafka=is_kafka,
                prefix=() if network is None else network.command(node_id),
            )
        self._controllers = set(voter_ids)

    def __getitem__(self, node_id: int) -> NodeProcess:
        return self.nodes[node_id]

    def __iter__(self) -> Iterator[NodeProcess]:
        return iter(self.nodes.values())

    @property
    def brokers(self) -> list[NodeProcess]:
        return [node for node in self if node.is_broker]

    @property
    def controllers(self) -> list[NodeProcess]:
        return [node for node in self if node.node_id in self._controllers]

    @property
    def addresses(self) -> str:
        """What a client is told for `bootstrap.servers`."""
        return ",".join(node.address for node in self.brokers)

    def start(self, *node_ids: int) -> None:
        """Start nodes, or all that do not run, at once; return when each serves."""
        chosen = [self.nodes[one] for one in node_ids] or [node for node in self if not node.is_running]
        for node in chosen:
            node.launch()
        for node in chosen:
            node.await_ready()

    def kill(self, *node_ids: int) -> None:
        """kill -9 of these nodes together: none of them sees another one die first."""
        chosen = [self.nodes[one] for one in node_ids]
        for node in chosen:
            os.kill(node.pid, signal.SIGKILL)
        for node in chosen:
            node.kill()

    def stop(self, *node_ids: int) -> None:
        """End nodes, or all, by SIGTERM, one after the other, brokers before nodes that only control."""
        chosen = [self.nodes[one] for one in node_ids] or [
            *(node for node in self.brokers if node.is_running),
            *(node for node in self if node.is_running and not node.is_broker),
        ]
        for node in chosen:
            node.stop()

    def cut(self, *links: tuple[int, int]) -> None:
        """Lose what the first node of each link sends to the second; `namespaces.CLIENTS` is the test's side."""
        assert self.network is not None, "only namespaces can be cut off from each other"
        self.network.cut(*links)

    def isolate(self, *node_ids: int, clients: bool = True) -> None:
        """Cut nodes off from all others and from each other; from the clients too, unless told otherwise."""
        others = [*(node.node_id for node in self), *([CLIENTS] if clients else [])]
        pairs = [(one, other) for one in node_ids for other in others if other != one]
        self.cut(*pairs, *((other, one) for one, other in pairs))

    def heal(self) -> None:
        assert self.network is not None, "only namespaces can be cut off from each other"
        self.network.heal()

    def create_topic(
        self, name: str, partitions: int, *, replicas: int = 3, configs: Mapping[str, str] | None = None
    ) -> None:
        """Return when every partition has a leader. Brokers that are fenced for now, because their session of
        `SESSION_MS` ran out on a busy machine, are waited for."""
        settings = [CreatableTopicConfig(key, value) for key, value in (configs or {}).items()]
        request = CreateTopicsRequest([CreatableTopic(name, partitions, replicas, [], settings)], timeout_ms=10_000)
        answers: list[CreatableTopicResult] = []

        def is_decided() -> bool:
            answers[:] = self._ask(lambda client: client.send(request, 7, CreateTopicsResponse)).topics
            return answers[0].error_code != InvalidReplicationFactor.code

        self.wait(is_decided, f"{replicas} brokers for {name}")
        assert answers[0].error_code == 0, answers
        self.wait(lambda: len(self.leaders(name)) == partitions, f"leaders of {name}")

    def leaders(self, topic: str) -> dict[int, int]:
        """Partition -> the node that leads it; a partition without a leader is left out."""
        return {one.partition_index: one.leader_id for one in self._partitions(topic) if one.leader_id >= 0}

    def isr(self, topic: str) -> dict[int, list[int]]:
        return {one.partition_index: sorted(one.isr_nodes) for one in self._partitions(topic)}

    def assignments(self) -> dict[str, list[int]]:
        """`topic-partition` -> the nodes that are to have a replica of it, for all topics that there are."""
        return {
            f"{topic}-{one.partition_index}": sorted(one.replica_nodes)
            for topic in self.topics()
            for one in self._partitions(topic)
        }

    def active_controller(self) -> int:
        """The node that leads the quorum, as a majority sees it now."""
        return self._quorum().leader_id

    def wait_for_voters(self) -> None:
        """Return when every voter has what is committed now; a majority is all that an answer has waited for."""
        mark = self._quorum().high_watermark
        self.wait(
            lambda: min(one.log_end_offset for one in self._quorum().current_voters) >= mark,
            f"all voters at offset {mark} of the metadata",
        )

    def _quorum(self) -> DescribeQuorumResponsePartitionData:
        topics = [DescribeQuorumRequestTopicData(METADATA_TOPIC, [DescribeQuorumRequestPartitionData(0)])]
        answer = self._ask(lambda client: client.send(DescribeQuorumRequest(topics), 2, DescribeQuorumResponse))
        (found,) = answer.topics[0].partitions
        assert answer.error_code == found.error_code == 0, answer
        return found

    def is_in_sync(self, *topics: str) -> bool:
        """Whether every replica of every partition of these topics is in the ISR, as all running brokers know it: one
        that was cut off until now may still tell of the time before."""
        return all(
            one.leader_id >= 0 and len(one.isr_nodes) == len(one.replica_nodes)
            for node in self._answering()
            for topic in topics
            for one in self._partitions(topic, [node])
        )

    def topics(self) -> list[str]:
        """Every topic that there is, internal ones too."""
        answer = self._ask(lambda client: client.send(MetadataRequest(topics=None), METADATA_VERSION, MetadataResponse))
        return sorted(str(found.name) for found in answer.topics)

    def wait(self, claim: Callable[[], bool], what: str, *, timeout_s: float = PATIENCE_S) -> None:
        """Wait until `claim` holds; a node that cannot answer meanwhile only makes it wait."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                if claim():
                    return
            except (OSError, AssertionError) as error:
                what = f"{what.partition(' (')[0]} ({error!r})"
            assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
            time.sleep(0.05)

    def errors(self) -> list[str]:
        """Lines in the nodes' logs that a healthy cluster has none of."""
        return [f"node {node.node_id}: {line}" for node in self if node.log_path.exists() for line in node.errors()]

    def _partitions(self, topic: str, brokers: list[NodeProcess] | None = None) -> list[MetadataResponsePartition]:
        request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        answer = self._ask(lambda client: client.send(request, METADATA_VERSION, MetadataResponse), brokers)
        (found,) = answer.topics
        assert found.error_code == 0, found
        return found.partitions

    def _answering(self) -> list[NodeProcess]:
        """The brokers that run. One that is cut off from more nodes than another may know less, and comes after it."""
        network = self.network
        running = [node for node in self.brokers if node.is_running and not node.is_paused]
        return sorted(running, key=lambda node: 0 if network is None else network.cut_count(node.node_id))

    def _ask(self, question: Callable[[RawClient], Answer], brokers: list[NodeProcess] | None = None) -> Answer:
        """What the first of these brokers says that answers; of all, unless told."""
        failure: Exception = ConnectionError("no broker runs")
        for node in self._answering() if brokers is None else brokers:
            try:
                with RawClient(node.port, host=node.host, timeout_s=ANSWER_S) as client:
                    return question(client)
            except OSError as error:
                failure = error
        raise failure

    def __enter__(self) -> ClusterProcesses:
        try:
            self.start()
            self.wait(lambda: len(self._registered()) == len(self.brokers), "brokers registered")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._end()

    def _registered(self) -> list[int]:
        """The brokers that the broker knows which knows fewest."""
        return min((self._known_to(node) for node in self.brokers), key=len)

    def _known_to(self, node: NodeProcess) -> list[int]:
        with RawClient(node.port, host=node.host) as client:
            answer = client.send(MetadataRequest(topics=[]), METADATA_VERSION, MetadataResponse)
        return [broker.node_id for broker in answer.brokers]

    def _end(self) -> None:
        """Nothing is left running: a node that a test has not stopped itself is killed."""
        for node in self:
            if node.is_running:
                node.kill()


def node_ids(brokers: int, controllers: int) -> list[int]:
    """The ids that the nodes of such a cluster have."""
    return [*range(1, brokers + 1), *range(CONTROLLER_ID_FIRST, CONTROLLER_ID_FIRST + controllers)]


def is_listening(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=READY_S).close()
    except ConnectionError:
        return False
    return True

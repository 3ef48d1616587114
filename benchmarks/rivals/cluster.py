"""Three nodes of one kind on this machine, as one broker that jobs are given to. Called by `cluster_duel`."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import TypeVar

from benchmarks.rivals.server import READY_S, Kind, Server, places
from ottla.wire import APIS, Message
from ottla.wire.frames import read_response, write_request
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from ottla.wire.messages.header import RequestHeader
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

NODE_COUNT = 3
KEYS = {api.name: api.key for api in APIS.values()}
VERSIONS: dict[type[Message], int] = {MetadataRequest: 12, CreateTopicsRequest: 7, DescribeQuorumRequest: 2}
CREATE_MS = 120_000

Answer = TypeVar("Answer", bound=Message)


class Cluster:
    """`with Cluster(kind, directory) as cluster: cluster.start()`; every node has both roles."""

    def __init__(self, kind: Kind, directory: Path) -> None:
        self.name = kind.name
        self.nodes: dict[int, Server] = {}
        for node_id, node in places(NODE_COUNT).items():
            home = directory / f"node{node_id}"
            home.mkdir()
            self.nodes[node_id] = Server(kind, home, node)

    @property
    def address(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    @property
    def pids(self) -> list[int]:
        return [node.pid for node in self.nodes.values()]

    @property
    def resident_bytes(self) -> float:
        """Of a node, on average."""
        return sum(node.resident_bytes for node in self.nodes.values()) / len(self.nodes)

    def start(self) -> float:
        """Start all nodes; returns the seconds until each of them names all of them."""
        started = time.perf_counter()
        for node in self.nodes.values():
            node.launch()
        for node in self.nodes.values():
            node.await_brokers(set(self.nodes))
        return time.perf_counter() - started

    def stop(self) -> None:
        for node in self.nodes.values():
            node.stop()

    def kill(self) -> None:
        """kill -9 of all: what is left on the disk is of no interest any more."""
        for node in self.nodes.values():
            if node.is_running:
                node.kill()

    def create(self, topic: str, partition_count: int) -> float:
        """Make a topic of three replicas; returns the seconds until each node knows all its leaders and replicas."""
        started = time.perf_counter()
        wanted = CreatableTopic(topic, partition_count, NODE_COUNT, [], [])
        (made,) = self.ask(CreateTopicsRequest([wanted], timeout_ms=CREATE_MS), CreateTopicsResponse).topics
        if made.error_code:
            raise RuntimeError(f"{self.name} did not create {topic}: {made}")
        for node_id in self.nodes:
            self.await_in_sync(topic, partition_count, node_id=node_id)
        return time.perf_counter() - started

    def await_in_sync(self, topic: str, partition_count: int, *, node_id: int = 1) -> None:
        """Until a node says that every partition has a leader and all its replicas in sync."""
        deadline = time.monotonic() + READY_S
        while not self._is_in_sync(topic, partition_count, node_id):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name}: the replicas of {topic} are not in sync")
            time.sleep(0.02)

    def _is_in_sync(self, topic: str, partition_count: int, node_id: int) -> bool:
        request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        (found,) = self.ask(request, MetadataResponse, node_id=node_id).topics
        return len(found.partitions) == partition_count and all(
            one.leader_id >= 0 and len(one.isr_nodes) == NODE_COUNT for one in found.partitions
        )

    def leaders(self, topic: str) -> dict[int, int]:
        """Partition -> node."""
        request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        (found,) = self.ask(request, MetadataResponse).topics
        return {one.partition_index: one.leader_id for one in found.partitions}

    def active_controller(self) -> int:
        topics = [DescribeQuorumRequestTopicData("__cluster_metadata", [DescribeQuorumRequestPartitionData(0)])]
        answer = self.ask(DescribeQuorumRequest(topics), DescribeQuorumResponse)
        return answer.topics[0].partitions[0].leader_id

    def ask(self, request: Message, answer: type[Answer], *, node_id: int = 1) -> Answer:
        """One request on a connection of its own."""
        key, version = KEYS[type(request).__name__.removesuffix("Request")], VERSIONS[type(request)]
        with (
            socket.create_connection(("127.0.0.1", self.nodes[node_id].port), timeout=2 * READY_S) as sock,
            sock.makefile("rb") as stream,
        ):
            sock.sendall(write_request(RequestHeader(key, version, 1, "bench"), request))
            size = int.from_bytes(stream.read(4), "big")
            body = read_response(stream.read(size), key, version).body
        assert isinstance(body, answer), body
        return body

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

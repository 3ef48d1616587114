"""What a client knows of the cluster: brokers, topics, leaders. A snapshot, replaced whole by every update."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.types import TopicPartition, Uuid

NO_NODE = -1


@dataclass(frozen=True, slots=True)
class Node:
    """A broker and where it listens. Those of `bootstrap.servers` have negative ids until the cluster has told."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (id: {self.node_id} rack: {self.rack or 'null'})"


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition. `leader` is -1 while there is none."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic: its partitions by index, or the error that it was answered with."""

    name: str
    topic_id: Uuid
    partitions: Mapping[int, PartitionInfo] = field(default_factory=dict)
    is_internal: bool = False
    error_code: int = 0
    authorized_operations: int = -0x8000_0000

    @property
    def partition_count(self) -> int:
        return len(self.partitions)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The whole of it. `nodes` never has bootstrap addresses; before the first answer it is empty."""

    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)
    """By name, those that were asked for; one that does not exist is here with its error."""
    topic_names: Mapping[Uuid, str] = field(default_factory=dict)
    cluster_id: str | None = None
    controller_id: int = NO_NODE
    version: int = 0
    """How many updates came before this one."""

    def partition(self, partition: TopicPartition) -> PartitionInfo | None:
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def leader(self, partition: TopicPartition) -> Node | None:
        """The leader's node; None while the partition has none, or its broker is not known."""
        info = self.partition(partition)
        return None if info is None or info.leader < 0 else self.nodes.get(info.leader)

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has; 0 when it is not known."""
        info = self.topics.get(topic)
        return 0 if info is None else info.partition_count

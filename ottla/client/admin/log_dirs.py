"""Where replicas lie on the brokers' disks: describe log directories, find a replica's, move it to another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ottla.client.admin.driver import Call, Driver, by_topic, check, failure
from ottla.client.admin.outcome import Outcomes
from ottla.client.admin.routes import Route
from ottla.errors import KafkaError
from ottla.types import TopicPartition
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)


class TopicPartitionReplica(NamedTuple):
    """A partition on one broker."""

    topic: str
    partition: int
    broker_id: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker_id}"


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """A replica's size, how far it is behind, and whether it is a copy that will take the place of another one."""

    size: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """One log directory of a broker; `error` says why it is offline. Sizes are of its file system, if told."""

    error: KafkaError | None
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None = None
    usable_bytes: int | None = None
    is_cordoned: bool = False


@dataclass(frozen=True, slots=True)
class ReplicaLogDir:
    """Where a replica is, and where it is being moved to; None for nowhere."""

    current_dir: str | None = None
    current_lag: int = -1
    future_dir: str | None = None
    future_lag: int = -1


LogDirs = dict[str, LogDirDescription]


def describe_log_dirs(
    driver: Driver,
    brokers: Iterable[int],
    *,
    partitions: Iterable[TopicPartition] | None = None,
    timeout: float | None,
) -> Outcomes[int, LogDirs]:
    wanted = None if partitions is None else by_topic(partitions)

    def build(node_id: int, keys: list[int]) -> DescribeLogDirsRequest:
        return DescribeLogDirsRequest(topics=_describable(wanted))

    def read(
        node_id: int, keys: list[int], response: DescribeLogDirsResponse
    ) -> Iterable[tuple[int, LogDirs | KafkaError]]:
        yield node_id, _read(response)

    route: Route[int] = driver.node_of(lambda broker: broker)
    return driver.drive(Call("DescribeLogDirs", route, build, read), brokers, timeout)


def _describable(topics: Mapping[str, list[int]] | None) -> list[DescribableLogDirTopic] | None:
    if topics is None:
        return None
    return [DescribableLogDirTopic(topic=topic, partitions=indexes) for topic, indexes in topics.items()]


def _read(response: DescribeLogDirsResponse) -> LogDirs:
    check(response.error_code)
    return {
        one.log_dir: LogDirDescription(
            failure(one.error_code),
            {
                TopicPartition(topic.name, each.partition_index): ReplicaInfo(
                    each.partition_size, each.offset_lag, each.is_future_key
                )
                for topic in one.topics
                for each in topic.partitions
            },
            one.total_bytes if one.total_bytes >= 0 else None,
            one.usable_bytes if one.usable_bytes >= 0 else None,
            one.is_cordoned,
        )
        for one in response.results
    }


def describe_replica_log_dirs(
    driver: Driver, replicas: Iterable[TopicPartitionReplica], *, timeout: float | None
) -> Outcomes[TopicPartitionReplica, ReplicaLogDir]:
    def build(node_id: int, keys: list[TopicPartitionReplica]) -> DescribeLogDirsRequest:
        topics = by_topic(TopicPartition(key.topic, key.partition) for key in keys)
        return DescribeLogDirsRequest(topics=_describable(topics))

    def read(
        node_id: int, keys: list[TopicPartitionReplica], response: DescribeLogDirsResponse
    ) -> Iterable[tuple[TopicPartitionReplica, ReplicaLogDir | KafkaError]]:
        dirs = {name: one for name, one in _read(response).items() if one.error is None}
        for key in keys:
            current: tuple[str | None, int] = (None, -1)
            future: tuple[str | None, int] = (None, -1)
            for name, one in dirs.items():
                info = one.replicas.get(TopicPartition(key.topic, key.partition))
                if info is not None and info.is_future:
                    future = (name, info.offset_lag)
                elif info is not None:
                    current = (name, info.offset_lag)
            yield key, ReplicaLogDir(*current, *future)

    route: Route[TopicPartitionReplica] = driver.node_of(lambda replica: replica.broker_id)
    return driver.drive(Call("DescribeReplicaLogDirs", route, build, read), replicas, timeout)


def alter_replica_log_dirs(
    driver: Driver, moves: Mapping[TopicPartitionReplica, str], *, timeout: float | None
) -> Outcomes[TopicPartitionReplica, None]:
    def build(node_id: int, keys: list[TopicPartitionReplica]) -> AlterReplicaLogDirsRequest:
        dirs: dict[str, list[TopicPartition]] = {}
        for key in keys:
            dirs.setdefault(moves[key], []).append(TopicPartition(key.topic, key.partition))
        return AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path,
                    topics=[
                        AlterReplicaLogDirTopic(name=topic, partitions=indexes)
                        for topic, indexes in by_topic(partitions).items()
                    ],
                )
                for path, partitions in dirs.items()
            ]
        )

    def read(
        node_id: int, keys: list[TopicPartitionReplica], response: AlterReplicaLogDirsResponse
    ) -> Iterable[tuple[TopicPartitionReplica, KafkaError | None]]:
        for topic in response.results:
            for one in topic.partitions:
                key = TopicPartitionReplica(topic.topic_name, one.partition_index, node_id)
                yield key, failure(one.error_code)

    route: Route[TopicPartitionReplica] = driver.node_of(lambda replica: replica.broker_id)
    call: Call[TopicPartitionReplica, None] = Call("AlterReplicaLogDirs", route, build, read)
    return driver.drive(call, moves, timeout)

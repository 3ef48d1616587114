"""DescribeLogDirs (key 35): the log directories of this broker, how full they are, and the replicas in each."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.errors import KafkaStorageError
from ottla.replica import ReplicaManager
from ottla.server.context import BrokerContext
from ottla.storage import Log, LogDir
from ottla.types import TopicPartition
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

API_KEY = 35
NO_OFFSET_LAG = -1


def handle(context: BrokerContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Describe every directory, with the partitions asked for, or all when none is named."""
    replicas: ReplicaManager = context.broker.replicas
    wanted = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(results=[_directory(replicas, one, wanted) for one in replicas.logs.directories])


def _directory(
    replicas: ReplicaManager, directory: LogDir, wanted: set[TopicPartition] | None
) -> DescribeLogDirsResult:
    if directory.is_offline:
        return DescribeLogDirsResult(KafkaStorageError.code, directory.path)
    logs = replicas.logs
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for one in _all(logs.logs.values(), logs.future_logs.values()):
        if one.log_dir is directory and (wanted is None or one.partition in wanted):
            topics.setdefault(one.partition.topic, []).append(
                DescribeLogDirsPartition(one.partition.partition, one.size, _lag(replicas, one), one.is_future)
            )
    space = replicas.world.disk.space(directory.path)
    return DescribeLogDirsResult(
        0,
        directory.path,
        [DescribeLogDirsTopic(topic, partitions) for topic, partitions in topics.items()],
        space.total_bytes,
        space.usable_bytes,
        directory.path in replicas.cordoned,
    )


def _all(*groups: Iterable[Log]) -> Iterable[Log]:
    for group in groups:
        yield from group


def _lag(replicas: ReplicaManager, one: Log) -> int:
    """How far a replica is behind: the future one behind the current, the current behind the high watermark."""
    current = replicas.logs.get(one.partition)
    if current is None:
        return NO_OFFSET_LAG
    if one.is_future:
        return current.log_end_offset - one.log_end_offset
    return max(current.high_watermark - one.log_end_offset, 0)

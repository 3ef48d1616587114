"""Records of a fake cluster, as far as their offsets go: ListOffsets, DeleteRecords, DescribeLogDirs."""

from __future__ import annotations

from ottla.client.admin.fake.cluster import KIND_TOPIC, FakeCluster, Handler
from ottla.client.admin.fake.state import FakePartition
from ottla.errors import KafkaError, NotLeaderOrFollower, OffsetOutOfRange, PolicyViolation
from ottla.types import TopicPartition
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4
NONE = (-1, -1)
DEBUGGER = -2
"""Who may ask any replica."""


def _led(cluster: FakeCluster, node_id: int, key: TopicPartition) -> FakePartition:
    held = cluster.partition(key)
    if held.replicas[0] != node_id:
        raise NotLeaderOrFollower
    return held


def _held(cluster: FakeCluster, node_id: int, key: TopicPartition) -> FakePartition:
    held = cluster.partition(key)
    if node_id not in held.replicas:
        raise NotLeaderOrFollower
    return held


def _list_offsets(cluster: FakeCluster, node_id: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
    topics = []
    for topic in request.topics:
        told = ListOffsetsTopicResponse(name=topic.name)
        for one in topic.partitions:
            answer = ListOffsetsPartitionResponse(partition_index=one.partition_index)
            try:
                key = TopicPartition(topic.name, one.partition_index)
                held = _held(cluster, node_id, key) if request.replica_id == DEBUGGER else _led(cluster, node_id, key)
                answer.offset, answer.timestamp = _offset(held, one.timestamp)
                answer.leader_epoch = 0 if answer.offset >= 0 else -1
            except KafkaError as error:
                answer.error_code = error.code
            told.partitions.append(answer)
        topics.append(told)
    return ListOffsetsResponse(topics=topics)


def _offset(held: FakePartition, wanted: int) -> tuple[int, int]:
    """Offset and timestamp; nothing of a fake partition is in tiered storage, nor on its way there."""
    if wanted == LATEST:
        return held.end_offset, -1
    if wanted in (EARLIEST, EARLIEST_LOCAL):
        return held.start_offset, -1
    records = list(enumerate(held.timestamps, held.start_offset))
    if wanted == MAX_TIMESTAMP:
        return max(records, key=lambda one: one[1], default=NONE)
    if wanted < 0:
        return NONE
    return next(((offset, timestamp) for offset, timestamp in records if timestamp >= wanted), NONE)


def _delete_records(cluster: FakeCluster, node_id: int, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    topics = []
    for topic in request.topics:
        told = DeleteRecordsTopicResult(name=topic.name)
        for one in topic.partitions:
            answer = DeleteRecordsPartitionResult(partition_index=one.partition_index, low_watermark=-1)
            try:
                held = _led(cluster, node_id, TopicPartition(topic.name, one.partition_index))
                _check_policy(cluster, topic.name)
                offset = held.end_offset if one.offset == -1 else one.offset
                if not 0 <= offset <= held.end_offset:
                    raise OffsetOutOfRange
                held.delete_before(offset)
                answer.low_watermark = held.start_offset
            except KafkaError as error:
                answer.error_code = error.code
            told.partitions.append(answer)
        topics.append(told)
    return DeleteRecordsResponse(topics=topics)


def _check_policy(cluster: FakeCluster, topic: str) -> None:
    own = cluster.configs.get((KIND_TOPIC, topic), {})
    policies = cluster.broker_config().current.log_config().with_topic(own).cleanup_policy
    if policies and "delete" not in policies:
        raise PolicyViolation


def _describe_log_dirs(cluster: FakeCluster, node_id: int, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    asked = (
        None if request.topics is None else {(one.topic, index) for one in request.topics for index in one.partitions}
    )
    result = DescribeLogDirsResult(log_dir=cluster.log_dir(node_id))
    for topic in cluster.topics.values():
        partitions = [
            DescribeLogDirsPartition(partition_index=index, partition_size=0, offset_lag=0, is_future_key=False)
            for index, one in enumerate(topic.partitions)
            if node_id in one.replicas and (asked is None or (topic.name, index) in asked)
        ]
        if partitions:
            result.topics.append(DescribeLogDirsTopic(name=topic.name, partitions=partitions))
    return DescribeLogDirsResponse(results=[result])


HANDLERS: dict[int, Handler] = {2: _list_offsets, 21: _delete_records, 35: _describe_log_dirs}

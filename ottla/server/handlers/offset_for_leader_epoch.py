"""OffsetForLeaderEpoch (key 23): where leader epochs end, for those who look for the point where two logs diverge."""

from __future__ import annotations

from ottla.errors import KafkaError
from ottla.replica import ReplicaManager
from ottla.server.context import BrokerContext
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

API_KEY = 23


def handle(context: BrokerContext, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Answer each partition by itself."""
    replicas: ReplicaManager = context.broker.replicas
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic, [_partition(replicas, topic.topic, one) for one in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def failed(request: OffsetForLeaderEpochRequest, error: KafkaError, version: int) -> OffsetForLeaderEpochResponse:
    """The same error for every partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic, [EpochEndOffset(error.code, one.partition) for one in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _partition(replicas: ReplicaManager, topic: str, one: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        found = replicas.partition_by_name(topic, one.partition).end_offset_for_epoch(
            one.leader_epoch, current_leader_epoch=one.current_leader_epoch
        )
    except KafkaError as error:
        return EpochEndOffset(error.code, one.partition)
    return EpochEndOffset(0, one.partition) if found is None else EpochEndOffset(0, one.partition, *found)

"""ListOffsets (key 2): where a log begins and ends, or its first record at or after a time, for each partition."""

from __future__ import annotations

from collections import Counter

from ottla.errors import (
    InvalidRequest,
    KafkaError,
    KafkaStorageError,
    LeaderNotAvailable,
    OffsetNotAvailable,
    UnsupportedVersion,
)
from ottla.replica import ReplicaManager
from ottla.server.context import BrokerContext
from ottla.storage import Isolation, SpecialTimestamp
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

API_KEY = 2
CONSUMER = -1
DEBUGGER = -2
"""A reader that may ask any replica, not only the leader."""
READ_COMMITTED = 1
OFFSET_NOT_AVAILABLE_VERSION = 5
LEADER_EPOCH_VERSION = 4

_SINCE = {
    SpecialTimestamp.EARLIEST: 1,
    SpecialTimestamp.LATEST: 1,
    SpecialTimestamp.MAX_TIMESTAMP: 7,
    SpecialTimestamp.EARLIEST_LOCAL: 8,
    SpecialTimestamp.LATEST_TIERED: 9,
    SpecialTimestamp.EARLIEST_PENDING_UPLOAD: 11,
}
"""The version in which each special timestamp got its meaning."""


def handle(context: BrokerContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Answer each partition by itself; one that is asked for twice is refused."""
    asked = Counter((topic.name, one.partition_index) for topic in request.topics for one in topic.partitions)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                topic.name,
                [
                    _partition(
                        context, request, topic.name, one, is_repeated=asked[topic.name, one.partition_index] > 1
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def failed(request: ListOffsetsRequest, error: KafkaError, version: int) -> ListOffsetsResponse:
    """The same error for every partition."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                topic.name, [ListOffsetsPartitionResponse(one.partition_index, error.code) for one in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _partition(
    context: BrokerContext, request: ListOffsetsRequest, topic: str, one: ListOffsetsPartition, *, is_repeated: bool
) -> ListOffsetsPartitionResponse:
    index = one.partition_index
    replicas: ReplicaManager = context.broker.replicas
    isolation = None
    if request.replica_id == CONSUMER:
        is_committed = request.isolation_level == READ_COMMITTED
        isolation = Isolation.TXN_COMMITTED if is_committed else Isolation.HIGH_WATERMARK
    try:
        if is_repeated:
            raise InvalidRequest
        if one.timestamp < 0 and context.version < _SINCE.get(one.timestamp, 2**15):  # type: ignore[call-overload]
            raise UnsupportedVersion
        found = replicas.partition_by_name(topic, index).offset_for_timestamp(
            one.timestamp,
            isolation=isolation,
            current_leader_epoch=one.current_leader_epoch,
            only_leader=request.replica_id != DEBUGGER,
        )
    except OffsetNotAvailable as error:
        is_known = context.version >= OFFSET_NOT_AVAILABLE_VERSION
        return ListOffsetsPartitionResponse(index, error.code if is_known else LeaderNotAvailable.code)
    except KafkaError as error:
        if isinstance(error, KafkaStorageError):
            replicas.check_directories()
        return ListOffsetsPartitionResponse(index, error.code)
    if found is None:
        return ListOffsetsPartitionResponse(index, 0)
    epoch = -1 if found.leader_epoch is None or context.version < LEADER_EPOCH_VERSION else found.leader_epoch
    return ListOffsetsPartitionResponse(index, 0, found.timestamp, found.offset, epoch)

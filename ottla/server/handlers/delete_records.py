"""DeleteRecords (key 21): let partitions begin at a later offset, and answer when all their replicas do."""

from __future__ import annotations

from ottla.errors import (
    InvalidTopicException,
    KafkaError,
    KafkaStorageError,
    RequestTimedOut,
)
from ottla.metadata import INTERNAL_TOPICS
from ottla.replica import OutcomeWaiter, Partition, ReplicaManager
from ottla.server.context import BrokerContext
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.world import Promise

API_KEY = 21
NO_LOW_WATERMARK = -1


def handle(
    context: BrokerContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Promise[DeleteRecordsResponse]:
    """Move each log's start; wait for followers where a partition has any that are behind."""
    waiting: dict[Partition, tuple[int, DeleteRecordsPartitionResult]] = {}
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name, [_partition(context, topic.name, one, waiting) for one in topic.partitions]
            )
            for topic in request.topics
        ]
    )
    return _wait(context, request, response, waiting) if waiting else response


def failed(request: DeleteRecordsRequest, error: KafkaError, version: int) -> DeleteRecordsResponse:
    """The same error for every partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name,
                [
                    DeleteRecordsPartitionResult(one.partition_index, NO_LOW_WATERMARK, error.code)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _partition(
    context: BrokerContext,
    topic: str,
    one: DeleteRecordsPartition,
    waiting: dict[Partition, tuple[int, DeleteRecordsPartitionResult]],
) -> DeleteRecordsPartitionResult:
    replicas: ReplicaManager = context.broker.replicas
    try:
        partition = replicas.partition_by_name(topic, one.partition_index)
        if topic in INTERNAL_TOPICS:
            raise InvalidTopicException(f"Cannot delete records of internal topic {topic}")
        offset = partition.delete_records(one.offset)
        low_watermark = partition.low_watermark
    except KafkaError as error:
        if isinstance(error, KafkaStorageError):
            replicas.check_directories()
        return DeleteRecordsPartitionResult(one.partition_index, NO_LOW_WATERMARK, error.code)
    result = DeleteRecordsPartitionResult(one.partition_index, low_watermark, 0)
    if low_watermark < offset:
        waiting[partition] = (offset, result)
    return result


def _wait(
    context: BrokerContext,
    request: DeleteRecordsRequest,
    response: DeleteRecordsResponse,
    waiting: dict[Partition, tuple[int, DeleteRecordsPartitionResult]],
) -> Promise[DeleteRecordsResponse]:
    promise = context.node.world.tasks.promise()

    def outcome(partition: Partition) -> int | None:
        try:
            return 0 if partition.low_watermark >= waiting[partition][0] else None
        except KafkaError as error:
            return error.code

    def answer() -> None:
        for partition, (_, result) in waiting.items():
            result.error_code = waiter.outcomes.get(partition, RequestTimedOut.code)
            known = result.error_code == 0
            result.low_watermark = partition.low_watermark if known else NO_LOW_WATERMARK
        promise.set_result(response)

    waiter = OutcomeWaiter(list(waiting), outcome, answer)
    context.broker.replicas.waiters.park(waiter, request.timeout_ms)
    return promise

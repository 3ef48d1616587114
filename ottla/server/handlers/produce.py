"""Produce (key 0): append a batch to each partition named, and answer when it is as safe as the producer asks.

Promises: one bad partition leaves the others whole; every refusal has Kafka's code. With acks=all the answer waits
until all in-sync replicas have the batch, and only then; a single replica never waits. With acks=0 there is no answer,
and an error closes the connection, which is how such a producer learns of it. The first batch of a transaction in a
partition is appended when the transaction's coordinator has been asked (`verification`); where its answer does not come
at once, the request waits and holds up nobody else.
"""

from __future__ import annotations

import logging
from typing import NamedTuple, TypeAlias

from ottla.coordinator import Producer
from ottla.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    CorruptMessage,
    InvalidProducerIdMapping,
    InvalidRequiredAcks,
    InvalidTopicException,
    InvalidTxnState,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NetworkException,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RequestTimedOut,
    TransactionalIdAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from ottla.metadata import INTERNAL_TOPICS
from ottla.records import HEADER_SIZE, Batch, Codec
from ottla.replica import OutcomeWaiter, Partition, ReplicaManager, current_leader
from ottla.server.context import BrokerContext, CloseConnection
from ottla.server.produce_heads import ProduceHead
from ottla.server.promises import chained
from ottla.server.verification import Support, Verdict, verify
from ottla.storage import (
    AppendInfo,
    AppendOrigin,
    InvalidOffsetOrSequence,
    InvalidRecords,
    InvalidTimestamps,
    NotOneBatch,
)
from ottla.types import Buffer, TopicPartition, Uuid
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.world import Promise

log = logging.getLogger(__name__)

API_KEY = 0
TOPIC_ID_VERSION = 13
"""From here on topics are named by id."""
LEADER_VERSION = 10
"""From here on NOT_LEADER_OR_FOLLOWER tells who leads (KIP-951)."""
ZSTD_VERSION = 7
EPOCH_BUMP_VERSION = 12
"""From here on a transactional producer counts on the broker to add the partition to its transaction (KIP-890)."""
ADMIN_CLIENT_ID = "__admin_client"
"""The one client that may write to internal topics: Kafka's own tools use the name."""

_ATTRIBUTES = 22
"""The byte of a batch with its codec and its transactional bit."""
_TRANSACTIONAL = 0x10
_CODEC = 0x07
_ACKS = (-1, 0, 1)
# A member of an enum costs a call where it is named.
_CLIENT = AppendOrigin.CLIENT
_UNREACHABLE = (NetworkException, CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)
"""What it may mean that the coordinator could not be asked."""

# Errors that say nothing of the log: the answer does not tell its start, as Kafka's does not.
_WITHOUT_LOG_START = (
    UnknownTopicOrPartition,
    UnknownTopicId,
    NotLeaderOrFollower,
    MessageTooLarge,
    RecordListTooLarge,
    CorruptMessage,
    KafkaStorageError,
    InvalidTopicException,
    InvalidRequiredAcks,
    UnsupportedCompressionType,
    NotOneBatch,
)


class _Unacknowledged(NamedTuple):
    """An append whose replicas have not all got it yet."""

    partition: Partition
    end_offset: int
    response: PartitionProduceResponse


Answer: TypeAlias = ProduceResponse | Promise[ProduceResponse | None] | None


def handle(context: BrokerContext, request: ProduceRequest) -> Answer:
    """Append what can be appended, in the order of the request."""
    producer = _transactional_producer(request)
    if producer is None:
        return _append(context, request, None)
    asked = _verify(context, request, producer)
    if asked.done():
        return _append(context, request, asked.result())
    for topic in request.topic_data:
        for item in topic.partition_data:
            if item.records is not None:
                item.records = bytearray(item.records)  # the frame is only lent
    return chained(context.node.world.tasks, asked, lambda verdict: _append(context, request, verdict))


def handle_one(context: BrokerContext, head: ProduceHead, records: memoryview, out: bytearray) -> Answer | int:
    """`handle` for a request whose head is known: it names one partition and no transaction.

    Where all is well the answer is put behind `out`, and its size returned; otherwise it is what `handle` would return.
    The records are as large as a batch's header at least. The context is kept only by an answer that waits.
    """
    if records[_ATTRIBUTES] & _TRANSACTIONAL:
        raise TransactionalIdAuthorizationFailed
    replicas: ReplicaManager = context.broker.replicas
    has_id = context.version >= TOPIC_ID_VERSION
    table = replicas.by_id.get(head.topic_id) if has_id else replicas.by_name.get(head.topic)
    partition = None if table is None else table.get(head.index)
    acks = head.acks
    try:
        if partition is None:
            raise _why_not_here(replicas, context.version, head.topic, head.topic_id, head.index)
        info = _append_to(context, partition, records, acks, True, None)
    except KafkaError as error:
        response = ProduceResponse([TopicProduceResponse(head.topic, head.topic_id)])
        item = PartitionProduceData(head.index, records)
        response.responses[0].partition_responses.append(_refusal(context, item, partition, error, response))
        return response
    if acks == -1 and not partition.is_alone and partition.replication_outcome(info.last_offset + 1) != 0:
        answer = PartitionProduceResponse(head.index, 0, info.first_offset, info.append_time_ms, info.log_start_offset)
        response = ProduceResponse([TopicProduceResponse(head.topic, head.topic_id, [answer])])
        return _wait(context, head.request, response, [_Unacknowledged(partition, info.last_offset + 1, answer)])
    return head.answer_into(out, context.correlation_id, info.first_offset, info.append_time_ms, info.log_start_offset)


def _append(context: BrokerContext, request: ProduceRequest, verdict: Verdict | None) -> Answer:
    """Append to each partition. `verdict` is what verification came to; None where nothing is transactional."""
    version = context.version
    acks = request.acks
    replicas: ReplicaManager = context.broker.replicas
    is_plain = version >= ZSTD_VERSION and verdict is None and acks in _ACKS
    response = ProduceResponse()
    has_error = False
    waiting: list[_Unacknowledged] = []
    for topic in _without_repeats(request.topic_data):
        table = replicas.by_id.get(topic.topic_id) if version >= TOPIC_ID_VERSION else replicas.by_name.get(topic.name)
        answers: list[PartitionProduceResponse] = []
        response.responses.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
        for item in topic.partition_data:
            partition = None if table is None else table.get(item.index)
            if verdict is not None and verdict.errors and partition is not None and partition.name in verdict.errors:
                has_error = True
                answers.append(_unverified(context, item.index, partition, verdict, response))
                continue
            try:
                if partition is None:
                    raise _why_not_here(replicas, version, topic.name, topic.topic_id, item.index)
                info = _append_to(context, partition, item.records, acks, is_plain, verdict)
            except KafkaError as error:
                has_error = True
                answers.append(_refusal(context, item, partition, error, response))
                continue
            answer = PartitionProduceResponse(
                item.index, 0, info.first_offset, info.append_time_ms, info.log_start_offset
            )
            answers.append(answer)
            if acks == -1 and not partition.is_alone and partition.replication_outcome(info.last_offset + 1) != 0:
                waiting.append(_Unacknowledged(partition, info.last_offset + 1, answer))
    if acks == 0:
        if has_error:
            raise CloseConnection(_summary(context, response))
        return None
    return _wait(context, request, response, waiting) if waiting else response


def _admit(context: BrokerContext, partition: Partition) -> None:
    """Whether this client may write to this partition, asked of every batch before anything else is.

    Authorisation and quotas belong here. Today there is one rule: internal topics are for Kafka's own tools.
    """
    if partition.topic in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        raise InvalidTopicException(f"Cannot append to internal topic {partition.topic}")


def _append_to(
    context: BrokerContext,
    partition: Partition,
    records: Buffer | None,
    acks: int,
    is_plain: bool,
    verdict: Verdict | None,
) -> AppendInfo:
    """The one way of a client's batch into a partition: admission, the rules of the request, the append, the count.

    `is_plain` tells that nothing in the request's head can break a rule.
    """
    _admit(context, partition)
    if records is None:
        raise NotOneBatch(f"Produce requests must have one record batch for {partition.name}")
    guard = None if is_plain else _check(context, acks, partition, records, verdict)
    info = partition.append(records, acks, _CLIENT, guard)
    first_offset = info.first_offset
    if first_offset < 0:
        raise NotOneBatch(f"Produce requests must have one record batch for {partition.name}")
    stats = partition.stats
    stats.produce_requests += 1
    stats.messages_in += info.last_offset - first_offset + 1
    stats.bytes_in += info.size
    return info


def failed(request: ProduceRequest, error: KafkaError, version: int) -> ProduceResponse | None:
    """The same error for every partition; without acks there is nobody to tell."""
    if request.acks == 0:
        return None
    message = error.message if error.args else None  # what the code says need not be said again
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                topic.name,
                topic.topic_id,
                [
                    PartitionProduceResponse(item.index, error.code, -1, -1, -1, [], message)
                    for item in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


# Before the append


def _without_repeats(topics: list[TopicProduceData]) -> list[TopicProduceData]:
    """Each topic once and each partition once. Of a partition named twice the last records count, as in Kafka."""
    if len(topics) == 1 or len({(topic.name, topic.topic_id) for topic in topics}) == len(topics):
        for topic in topics:
            items = topic.partition_data
            if len(items) > 1 and len({item.index for item in items}) < len(items):
                break
        else:
            return topics
    named: dict[tuple[str, Uuid], dict[int, PartitionProduceData]] = {}
    for topic in topics:
        named.setdefault((topic.name, topic.topic_id), {}).update((item.index, item) for item in topic.partition_data)
    return [TopicProduceData(name, topic_id, list(items.values())) for (name, topic_id), items in named.items()]


def _why_not_here(replicas: ReplicaManager, version: int, name: str, topic_id: bytes, index: int) -> KafkaError:
    if version >= TOPIC_ID_VERSION:
        image = replicas.image
        topic = None if image is None else image.topics.by_id.get(topic_id)  # type: ignore[call-overload]
        if topic is None:
            return UnknownTopicId("This server hosts no topic with that ID.")
        name = topic.name
    return replicas.why_not_here(name, index)


def _transactional_producer(request: ProduceRequest) -> Producer | None:
    """Whose transaction the request is part of. Without a transactional id there is none, and there is only one."""
    found: set[Producer] = set()
    for topic in request.topic_data:
        for item in topic.partition_data:
            records = item.records
            if records is not None and len(records) >= HEADER_SIZE and records[_ATTRIBUTES] & _TRANSACTIONAL:
                if request.transactional_id is None:
                    raise TransactionalIdAuthorizationFailed
                batch = Batch(memoryview(records), 0)
                found.add(Producer(batch.producer_id, batch.producer_epoch))
    if len(found) > 1:
        raise InvalidProducerIdMapping("Transactional records contained more than one producer ID")
    return found.pop() if found else None


def _verify(context: BrokerContext, request: ProduceRequest, producer: Producer) -> Promise[Verdict]:
    """Ask the coordinator about the partitions that have no records of the transaction yet."""
    replicas: ReplicaManager = context.broker.replicas
    sequences: dict[TopicPartition, int] = {}
    for topic in request.topic_data:
        has_id = context.version >= TOPIC_ID_VERSION
        table = replicas.by_id.get(topic.topic_id) if has_id else replicas.by_name.get(topic.name)
        for item in topic.partition_data:
            partition = None if table is None else table.get(item.index)
            records = item.records
            if partition is None or records is None or len(records) < HEADER_SIZE:
                continue
            if records[_ATTRIBUTES] & _TRANSACTIONAL:
                sequences[partition.name] = Batch(memoryview(records), 0).base_sequence
    assert request.transactional_id is not None, "a transactional producer has been found"
    support = Support.of_produce(context.version)
    return verify(context.broker, request.transactional_id, producer, sequences, support)


def _check(
    context: BrokerContext, acks: int, partition: Partition, records: Buffer, verdict: Verdict | None
) -> object | None:
    """The rules that an everyday request need not be held to; returns the guard to append a transaction with."""
    if acks not in _ACKS:
        raise InvalidRequiredAcks(f"acks={acks} is neither -1 nor 0 nor 1")
    if len(records) < HEADER_SIZE:
        return None
    if context.version < ZSTD_VERSION and records[_ATTRIBUTES] & _CODEC == Codec.ZSTD:
        raise UnsupportedCompressionType(
            f"Produce requests with version {context.version} are not allowed to use ZStandard compression"
        )
    return None if verdict is None else verdict.guards.get(partition.name)


# After it


def _refusal(
    context: BrokerContext,
    item: PartitionProduceData,
    partition: Partition | None,
    error: KafkaError,
    response: ProduceResponse,
) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(item.index, error.code, -1, -1, -1)
    if isinstance(error, NotLeaderOrFollower) and context.version >= LEADER_VERSION:
        _tell_leader(context, item.index, partition, answer, response)
    if partition is None:
        return answer
    stats = partition.stats
    stats.produce_requests += 1
    if not isinstance(error, _WITHOUT_LOG_START):
        stats.failed_produce_requests += 1
        if partition.is_leader and partition.log is not None:
            answer.log_start_offset = partition.log.log_start_offset
        log.info(
            "[ReplicaManager broker=%d] Error processing append operation on partition %s: %s",
            partition.node_id, partition.name, error,
        )  # fmt: skip
    if isinstance(error, InvalidRecords | InvalidTimestamps):
        answer.record_errors = [BatchIndexAndErrorMessage(one.batch_index, one.message) for one in error.record_errors]
        answer.error_message = error.message
        stats.invalid_records += len(error.record_errors)
        if isinstance(error, InvalidRecords):
            # Whatever else is wrong with records is told as a wrong timestamp.
            _count(context, "NoKeyCompactedTopic", len(error.record_errors))
    elif isinstance(error, InvalidOffsetOrSequence):
        _count(context, "InvalidOffsetOrSequence")
    elif isinstance(error, CorruptMessage):
        _count(context, "InvalidMessageCrc")
    elif isinstance(error, MessageTooLarge | RecordListTooLarge):
        stats.bytes_rejected += len(item.records or b"")
    elif isinstance(error, KafkaStorageError):
        context.broker.replicas.check_directories()
    return answer


def _count(context: BrokerContext, reason: str, count: int = 1) -> None:
    context.node.metrics.counter(f"kafka.server:type=BrokerTopicMetrics,name={reason}RecordsPerSec").mark(count)


def _unverified(
    context: BrokerContext, index: int, partition: Partition, verdict: Verdict, response: ProduceResponse
) -> PartitionProduceResponse:
    """What a producer is told of a batch that may not be appended, or not yet."""
    error = verdict.errors[partition.name]
    is_busy = isinstance(error, ConcurrentTransactions) and context.version < EPOCH_BUMP_VERSION
    answer = PartitionProduceResponse(index, error.code, -1, -1, -1)
    if isinstance(error, _UNREACHABLE) or is_busy:
        # A code that makes every client try again without asking for metadata.
        answer.error_code = NotEnoughReplicas.code
        answer.error_message = (
            f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}"
        )
    elif isinstance(error, InvalidTxnState):
        answer.error_message = "Partition was not added to the transaction"
    elif isinstance(error, NotLeaderOrFollower) and context.version >= LEADER_VERSION:
        _tell_leader(context, index, partition, answer, response)
    return answer


def _tell_leader(
    context: BrokerContext,
    index: int,
    partition: Partition | None,
    answer: PartitionProduceResponse,
    response: ProduceResponse,
) -> None:
    """Add who leads, and where that is, so that the producer need not ask for metadata first."""
    topic = response.responses[-1].name
    replicas: ReplicaManager = context.broker.replicas
    if partition is not None:
        topic = partition.topic
    elif not topic and replicas.image is not None:
        topic = replicas.image.topics.by_id[response.responses[-1].topic_id].name
    leader = current_leader(replicas, topic, index, context.listener_name)
    answer.current_leader = LeaderIdAndEpoch(leader.id, leader.epoch)
    if leader.broker is not None and leader.endpoint is not None:
        node = NodeEndpoint(leader.id, leader.endpoint.host, leader.endpoint.port, leader.broker.rack)
        if all(known.node_id != node.node_id for known in response.node_endpoints):
            response.node_endpoints.append(node)


def _wait(
    context: BrokerContext, request: ProduceRequest, response: ProduceResponse, waiting: list[_Unacknowledged]
) -> Promise[ProduceResponse | None]:
    """Answer when the in-sync replicas have everything, or say for each partition that they have not in time."""
    replicas: ReplicaManager = context.broker.replicas
    promise = context.node.world.tasks.promise()
    ends = {one.partition: one.end_offset for one in waiting}

    def answer() -> None:
        for partition, _, one in waiting:
            code = waiter.outcomes.get(partition, RequestTimedOut.code)
            one.error_code = code
            if code == NotLeaderOrFollower.code and context.version >= LEADER_VERSION:
                _tell_leader(context, partition.index, partition, one, response)
        promise.set_result(response)

    waiter = OutcomeWaiter(list(ends), lambda partition: partition.replication_outcome(ends[partition]), answer)
    replicas.waiters.park(waiter, request.timeout_ms)
    return promise


def _summary(context: BrokerContext, response: ProduceResponse) -> str:
    refused = ", ".join(
        f"{topic.name or topic.topic_id}-{one.index}: {one.error_code}"
        for topic in response.responses
        for one in topic.partition_responses
        if one.error_code
    )
    return (
        f"error during produce request with correlation id {context.correlation_id} from client id "
        f"{context.client_id} with acks=0: {refused}"
    )

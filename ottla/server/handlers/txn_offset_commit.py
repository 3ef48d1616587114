"""TxnOffsetCommit (key 28): store how far a group has consumed, as part of a producer's transaction."""

from __future__ import annotations

from ottla.coordinator import Producer, coordinator_error
from ottla.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, KafkaError
from ottla.server.context import BrokerContext
from ottla.server.group_requests import UNKNOWN_PARTITION, check_group_id, merged_topics
from ottla.server.promises import chained, mapped
from ottla.server.verification import verify_offsets
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.world import Promise

API_KEY = 28
LOADING_VERSION = 2
"""Clients of earlier versions do not know that a coordinator may be loading."""


def handle(
    context: BrokerContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Promise[TxnOffsetCommitResponse]:
    """Partitions that do not exist are refused, the others stored when the transaction is known to be open."""
    refused: list[TxnOffsetCommitResponseTopic] = []
    known = []
    for topic in request.topics:
        image = context.node.image.topics.by_name.get(topic.name)
        kept = [] if image is None else [one for one in topic.partitions if one.partition_index in image.partitions]
        if len(kept) < len(topic.partitions):
            missing = [
                TxnOffsetCommitResponsePartition(one.partition_index, UNKNOWN_PARTITION)
                for one in topic.partitions
                if image is None or one.partition_index not in image.partitions
            ]
            refused.append(TxnOffsetCommitResponseTopic(topic.name, missing))
        if kept:
            known.append(TxnOffsetCommitRequestTopic(topic.name, kept))
    if not known:
        return TxnOffsetCommitResponse(topics=refused)
    check_group_id(request.group_id)
    version = context.version
    commit = TxnOffsetCommitRequest(
        request.transactional_id,
        request.group_id,
        request.producer_id,
        request.producer_epoch,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        known,
    )
    broker = context.broker
    tasks = broker.node.world.tasks
    producer = Producer(request.producer_id, request.producer_epoch)

    def write(guard: object | None) -> Promise[TxnOffsetCommitResponse]:
        return broker.groups.write(
            request.group_id,
            "TxnOffsetCommit",
            lambda shard: shard.offsets.commit_in_transaction(commit, version),
            producer=producer,
            guard=guard,
        )

    index = broker.groups.index_of(request.group_id)
    verified = verify_offsets(broker, request.transactional_id, producer, index, version=version)
    answer: Promise[TxnOffsetCommitResponse] = chained(tasks, verified, write)
    return mapped(tasks, answer, lambda told: TxnOffsetCommitResponse(topics=merged_topics(refused, told.topics)))


def failed(request: TxnOffsetCommitRequest, error: KafkaError, version: int) -> TxnOffsetCommitResponse:
    error = coordinator_error(error)
    if version < LOADING_VERSION and isinstance(error, CoordinatorLoadInProgress):
        error = CoordinatorNotAvailable()
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [TxnOffsetCommitResponsePartition(one.partition_index, error.code) for one in topic.partitions],
            )
            for topic in request.topics
        ]
    )

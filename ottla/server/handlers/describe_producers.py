"""DescribeProducers (key 61): the producers that a partition knows, with their sequences and open transactions."""

from __future__ import annotations

from ottla.errors import InvalidTopicException, KafkaError, NotLeaderOrFollower, UnknownTopicOrPartition
from ottla.metadata import check_topic_name
from ottla.replica import ReplicaManager
from ottla.server.context import BrokerContext
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)

API_KEY = 61


def handle(context: BrokerContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Answer each partition by itself, a follower's too."""
    replicas: ReplicaManager = context.broker.replicas
    return DescribeProducersResponse(topics=[_topic(replicas, topic) for topic in request.topics])


def failed(request: DescribeProducersRequest, error: KafkaError, version: int) -> DescribeProducersResponse:
    """The same error for every partition."""
    return DescribeProducersResponse(topics=[_topic_error(topic, error) for topic in request.topics])


def _topic(replicas: ReplicaManager, topic: TopicRequest) -> TopicResponse:
    try:
        check_topic_name(topic.name)
    except InvalidTopicException as error:
        return _topic_error(topic, error)
    image = replicas.image
    if image is None or topic.name not in image.topics.by_name:
        return _topic_error(topic, UnknownTopicOrPartition())
    return TopicResponse(topic.name, [_partition(replicas, topic.name, index) for index in topic.partition_indexes])


def _topic_error(topic: TopicRequest, error: KafkaError) -> TopicResponse:
    return TopicResponse(
        topic.name, [PartitionResponse(index, error.code, error.message, []) for index in topic.partition_indexes]
    )


def _partition(replicas: ReplicaManager, topic: str, index: int) -> PartitionResponse:
    try:
        log = replicas.partition_by_name(topic, index).log
        if log is None:
            raise NotLeaderOrFollower
    except KafkaError as error:
        return PartitionResponse(index, error.code)
    return PartitionResponse(
        index,
        0,
        None,
        [
            ProducerState(
                entry.producer_id,
                entry.producer_epoch,
                entry.last_sequence,
                entry.last_timestamp,
                entry.coordinator_epoch,
                -1 if entry.txn_first_offset is None else entry.txn_first_offset,
            )
            for entry in log.producers.producers.values()
        ],
    )

"""DescribeTopicPartitions (key 75): topics in order of their names, a page of partitions at a time (KIP-966)."""

from __future__ import annotations

from ottla.errors import NONE, InvalidRequest, InvalidTopicException, KafkaError, UnknownTopicOrPartition
from ottla.metadata import INTERNAL_TOPICS, Image, TopicImage, check_topic_name
from ottla.server.context import BrokerContext
from ottla.server.endpoints import NO_NODE, Reach
from ottla.server.operations import TOPIC_OPERATIONS
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

API_KEY = 75


def handle(context: BrokerContext, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """The page that begins at the cursor, and the cursor of the next one."""
    image: Image = context.node.image
    names = _names(image, request)
    room = max(min(context.node.config.max_request_partition_size_limit, request.response_partition_limit), 1)
    page = _Page(image, context.listener_name)
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if room == 0:
            response.next_cursor = Cursor(name, 0)
            break
        cursor = request.cursor
        start = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        topic = image.topics.by_name.get(name)
        if topic is None:
            if request.topics:
                response.topics.append(_unknown(name))
            continue
        end = min(len(topic.partitions), start + room)
        response.topics.append(page.topic(topic, start, end))
        if end < len(topic.partitions):
            response.next_cursor = Cursor(name, end)
            break
        room -= len(response.topics[-1].partitions)
    return response


def failed(request: DescribeTopicPartitionsRequest, error: KafkaError, version: int) -> DescribeTopicPartitionsResponse:
    """Every topic asked for with the error."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=error.code, name=topic.name) for topic in request.topics
        ]
    )


def _names(image: Image, request: DescribeTopicPartitionsRequest) -> list[str]:
    cursor = request.cursor
    first = cursor.topic_name if cursor is not None else ""
    asked = [topic.name for topic in request.topics] or list(image.topics.by_name)
    names = sorted({name for name in asked if name >= first})
    if cursor is not None:
        if request.topics and first not in names:
            raise InvalidRequest(f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {first}")
        if cursor.partition_index < 0:
            raise InvalidRequest(f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor}")
    return names


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = UnknownTopicOrPartition.code
    try:
        check_topic_name(name)
    except InvalidTopicException as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


class _Page:
    """Describes partitions of one image for one listener."""

    def __init__(self, image: Image, listener: str) -> None:
        self.reach = Reach(image, listener)

    def topic(self, topic: TopicImage, start: int, end: int) -> DescribeTopicPartitionsResponseTopic:
        return DescribeTopicPartitionsResponseTopic(
            error_code=NONE,
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=[self._partition(topic, index) for index in range(start, end) if index in topic.partitions],
            topic_authorized_operations=TOPIC_OPERATIONS,
        )

    def _partition(self, topic: TopicImage, index: int) -> DescribeTopicPartitionsResponsePartition:
        partition = topic.partitions[index]
        return DescribeTopicPartitionsResponsePartition(
            partition_index=index,
            leader_id=partition.leader if partition.leader in self.reach.listening else NO_NODE,
            leader_epoch=partition.leader_epoch,
            replica_nodes=list(partition.replicas),
            isr_nodes=list(partition.isr),
            eligible_leader_replicas=list(partition.elr),
            last_known_elr=list(partition.last_known_elr),
            offline_replicas=self.reach.offline(partition),
        )

"""`EndOffsets`: how far partitions have come, wherever their leaders are: what a share group's lag is reckoned from.

The leader on this node is asked by a call, one elsewhere by ListOffsets, as KIP-1226 does it. Promises: the high
watermark, as a reader of uncommitted records is told it, or the leader's error; LEADER_NOT_AVAILABLE where there is no
leader. Called by DescribeShareGroupOffsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.errors import NONE, KafkaError, LeaderNotAvailable, error_class
from ottla.server.broker_requests import NO_BROKER, BrokerRequests, leader_of
from ottla.server.promises import mapped
from ottla.storage import Isolation, SpecialTimestamp
from ottla.types import TopicPartition
from ottla.wire import Message
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.world import Promise

if TYPE_CHECKING:
    from ottla.server.broker import BrokerServices

CONSUMER = -1
UNKNOWN_EPOCH = -1


class EndOffsets:
    """See the module."""

    def __init__(self, broker: BrokerServices) -> None:
        self._broker = broker
        self._requests: BrokerRequests[TopicPartition, ListOffsetsPartitionResponse] = BrokerRequests(
            broker.peers,
            broker.node.world.tasks,
            lane="end-offsets",
            timeout_ms=lambda: broker.node.config.request_timeout_ms,
            subject=lambda partition: partition,
            request=_request,
            answers=_answers,
        )

    def latest(self, partition: TopicPartition) -> Promise[int]:
        tasks = self._broker.node.world.tasks
        leader = leader_of(self._broker.node.image, partition.topic, partition.partition)
        if leader not in (NO_BROKER, self._broker.node.node_id):
            return mapped(tasks, self._requests.ask(leader, partition), _told)
        answer: Promise[int] = tasks.promise()
        try:
            if leader == NO_BROKER:
                raise LeaderNotAvailable
            answer.set_result(self._local(partition))
        except KafkaError as error:
            answer.set_exception(error)
        return answer

    def _local(self, partition: TopicPartition) -> int:
        end = self._broker.replicas.partition_by_name(partition.topic, partition.partition).offset_for_timestamp(
            SpecialTimestamp.LATEST, isolation=Isolation.HIGH_WATERMARK
        )
        assert end is not None, "every log has an end"
        return end.offset


def _request(partitions: Sequence[TopicPartition]) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for topic, index in partitions:
        asked = ListOffsetsPartition(index, UNKNOWN_EPOCH, SpecialTimestamp.LATEST)
        topics.setdefault(topic, []).append(asked)
    return ListOffsetsRequest(CONSUMER, topics=[ListOffsetsTopic(name, asked) for name, asked in topics.items()])


def _answers(partitions: Sequence[TopicPartition], response: Message) -> list[ListOffsetsPartitionResponse]:
    assert isinstance(response, ListOffsetsResponse), response
    told = {(topic.name, one.partition_index): one for topic in response.topics for one in topic.partitions}
    return [told[topic, index] for topic, index in partitions]


def _told(answer: ListOffsetsPartitionResponse) -> int:
    if answer.error_code != NONE:
        raise error_class(answer.error_code)
    return answer.offset

"""DescribeShareGroupOffsets (key 90): how far share groups have come, and how much is left."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ottla.coordinator.share import UNINITIALIZED_OFFSET, StateSummary
from ottla.errors import KafkaError
from ottla.metadata import TopicImage
from ottla.server.context import BrokerContext
from ottla.server.promises import chained, gathered, mapped, recovered
from ottla.server.share import check_enabled
from ottla.types import ZERO_UUID, TopicPartition, Uuid
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from ottla.world import Promise

API_KEY = 90
NO_LAG = -1
OFFSET_MAX = 2**63 - 1

Summaries = Mapping[tuple[Uuid, int], StateSummary | None]


def handle(
    context: BrokerContext, request: DescribeShareGroupOffsetsRequest
) -> Promise[DescribeShareGroupOffsetsResponse]:
    """Each group by itself: all partitions that it has state of, or those that are asked for."""
    tasks = context.node.world.tasks

    def one(group: DescribeShareGroupOffsetsRequestGroup) -> Promise[DescribeShareGroupOffsetsResponseGroup]:
        return recovered(tasks, lambda: _describe(context, group), lambda error: _failed(group, error))

    answers = gathered(tasks, [one(group) for group in request.groups])
    return mapped(tasks, answers, lambda groups: DescribeShareGroupOffsetsResponse(groups=groups))


def failed(
    request: DescribeShareGroupOffsetsRequest, error: KafkaError, version: int
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=[_failed(group, error) for group in request.groups])


def _failed(group: DescribeShareGroupOffsetsRequestGroup, error: KafkaError) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group.group_id, error_code=error.code, error_message=error.message
    )


def _describe(
    context: BrokerContext, group: DescribeShareGroupOffsetsRequestGroup
) -> Promise[DescribeShareGroupOffsetsResponseGroup]:
    check_enabled(context)
    broker, group_id = context.broker, group.group_id
    tasks = broker.node.world.tasks
    by_name, by_id = broker.node.image.topics.by_name, broker.node.image.topics.by_id

    def summarise(
        partitions: Mapping[Uuid, Collection[int]], unknown: list[DescribeShareGroupOffsetsResponseTopic]
    ) -> Promise[DescribeShareGroupOffsetsResponseGroup]:
        found = broker.share.states.summaries(group_id, partitions)
        topics: Promise[list[DescribeShareGroupOffsetsResponseTopic]]
        topics = chained(tasks, found, lambda summaries: _topics(context, partitions, summaries))
        return mapped(
            tasks,
            topics,
            lambda known: DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=known + unknown),
        )

    if group.topics is None:
        known = broker.groups.read(
            group_id, "share-group-initialized-partitions", lambda shard: shard.share.offsets.partitions(group_id)
        )
        return chained(
            tasks,
            known,
            lambda found: summarise({key: indexes for key, indexes in found.items() if key in by_id}, []),
        )
    partitions = {by_name[one.topic_name].id: one.partitions for one in group.topics if one.topic_name in by_name}
    unknown = [
        DescribeShareGroupOffsetsResponseTopic(
            one.topic_name,
            ZERO_UUID,
            [
                DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=UNINITIALIZED_OFFSET)
                for index in one.partitions
            ],
        )
        for one in group.topics
        if one.topic_name not in by_name
    ]
    return summarise(partitions, unknown)


def _topics(
    context: BrokerContext, partitions: Mapping[Uuid, Collection[int]], summaries: Summaries
) -> Promise[list[DescribeShareGroupOffsetsResponseTopic]]:
    tasks = context.node.world.tasks
    by_id = context.node.image.topics.by_id

    def one(topic: TopicImage, indexes: Collection[int]) -> Promise[DescribeShareGroupOffsetsResponseTopic]:
        told = [_partition(context, TopicPartition(topic.name, index), summaries[topic.id, index]) for index in indexes]
        return mapped(
            tasks,
            gathered(tasks, told),
            lambda described: DescribeShareGroupOffsetsResponseTopic(topic.name, topic.id, described),
        )

    return gathered(tasks, [one(by_id[key], indexes) for key, indexes in partitions.items() if key in by_id])


def _partition(
    context: BrokerContext, partition: TopicPartition, summary: StateSummary | None
) -> Promise[DescribeShareGroupOffsetsResponsePartition]:
    """Where nothing is known, nothing is told: that is no error, as with OffsetFetch."""
    tasks, index = context.node.world.tasks, partition.partition
    told = DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=UNINITIALIZED_OFFSET, lag=NO_LAG
    )
    if summary is not None:
        told.start_offset, told.leader_epoch = summary.start_offset, summary.leader_epoch
    if summary is None or UNINITIALIZED_OFFSET in (summary.start_offset, summary.delivery_complete_count):
        answer: Promise[DescribeShareGroupOffsetsResponsePartition] = tasks.promise()
        answer.set_result(told)
        return answer
    taken = summary.start_offset + summary.delivery_complete_count

    def with_lag(end_offset: int) -> DescribeShareGroupOffsetsResponsePartition:
        # The start offset is what a leader or an operator has said it is, however absurd.
        told.lag = max(-OFFSET_MAX, min(end_offset - taken, OFFSET_MAX))
        return told

    return recovered(
        tasks,
        lambda: mapped(tasks, context.broker.share.ends.latest(partition), with_lag),
        lambda error: DescribeShareGroupOffsetsResponsePartition(
            partition_index=index, error_code=error.code, error_message=error.message
        ),
    )

"""DescribeShareGroupOffsets (key 90): how far share groups have come, and how much is left."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ottla.coordinator.share import UNINITIALIZED_OFFSET, StateSummary
from ottla.errors import KafkaError
from ottla.server.context import BrokerContext
from ottla.server.promises import chained, gathered, mapped, recovered
from ottla.server.share import check_enabled
from ottla.storage import Isolation, SpecialTimestamp
from ottla.types import ZERO_UUID, Uuid
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
        return mapped(
            tasks,
            found,
            lambda summaries: DescribeShareGroupOffsetsResponseGroup(
                group_id=group_id, topics=_topics(context, partitions, summaries) + unknown
            ),
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
) -> list[DescribeShareGroupOffsetsResponseTopic]:
    by_id = context.node.image.topics.by_id
    return [
        DescribeShareGroupOffsetsResponseTopic(
            by_id[topic_id].name,
            topic_id,
            [_partition(context, by_id[topic_id].name, index, summaries[topic_id, index]) for index in indexes],
        )
        for topic_id, indexes in partitions.items()
        if topic_id in by_id
    ]


def _partition(
    context: BrokerContext, topic: str, index: int, summary: StateSummary | None
) -> DescribeShareGroupOffsetsResponsePartition:
    """Where nothing is known, nothing is told: that is no error, as with OffsetFetch."""
    told = DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=UNINITIALIZED_OFFSET, lag=NO_LAG
    )
    if summary is None:
        return told
    told.start_offset, told.leader_epoch = summary.start_offset, summary.leader_epoch
    if UNINITIALIZED_OFFSET in (summary.start_offset, summary.delivery_complete_count):
        return told
    try:
        end = context.broker.replicas.partition_by_name(topic, index).offset_for_timestamp(
            SpecialTimestamp.LATEST, isolation=Isolation.HIGH_WATERMARK
        )
    except KafkaError as error:
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=index, error_code=error.code, error_message=error.message
        )
    assert end is not None, "every log has an end"
    # The start offset is what a leader or an operator has said it is, however absurd.
    lag = end.offset - summary.start_offset - summary.delivery_complete_count
    told.lag = max(-OFFSET_MAX, min(lag, OFFSET_MAX))
    return told

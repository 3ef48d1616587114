"""OffsetDelete (key 47): forget offsets of topics that a group does not consume any more."""

from __future__ import annotations

from ottla.server.context import BrokerContext
from ottla.server.group_requests import UNKNOWN_PARTITION, check_group_id, merged_topics
from ottla.server.promises import mapped
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.world import Promise

API_KEY = 47


def handle(context: BrokerContext, request: OffsetDeleteRequest) -> Promise[OffsetDeleteResponse]:
    """Partitions that do not exist are refused; the group is looked at even when there are no others."""
    check_group_id(request.group_id)
    refused: list[OffsetDeleteResponseTopic] = []
    known = []
    for topic in request.topics:
        image = context.node.image.topics.by_name.get(topic.name)
        kept = [] if image is None else [one for one in topic.partitions if one.partition_index in image.partitions]
        if len(kept) < len(topic.partitions):
            missing = [one for one in topic.partitions if one not in kept]
            refused.append(
                OffsetDeleteResponseTopic(
                    topic.name,
                    [OffsetDeleteResponsePartition(one.partition_index, UNKNOWN_PARTITION) for one in missing],
                )
            )
        if kept:
            known.append(OffsetDeleteRequestTopic(topic.name, kept))
    wanted = OffsetDeleteRequest(request.group_id, known)
    answer: Promise[OffsetDeleteResponse] = context.broker.groups.write(
        request.group_id, "OffsetDelete", lambda shard: shard.offsets.delete(wanted)
    )
    return mapped(
        context.node.world.tasks,
        answer,
        lambda told: OffsetDeleteResponse(topics=merged_topics(refused, told.topics)),
    )

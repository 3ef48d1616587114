"""OffsetCommit (key 8): store how far a group has consumed."""

from __future__ import annotations

from ottla.errors import KafkaError, UnknownTopicId
from ottla.metadata import TopicImage
from ottla.server.context import BrokerContext
from ottla.server.group_requests import UNKNOWN_PARTITION, merged_topics
from ottla.server.promises import mapped
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.world import Promise

API_KEY = 8
TOPIC_ID_VERSION = 10
"""From here on topics are known by their id."""


def handle(
    context: BrokerContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Promise[OffsetCommitResponse]:
    """Partitions that do not exist are refused, the others stored."""
    refused: list[OffsetCommitResponseTopic] = []
    known = []
    for topic in request.topics:
        kept = _known(context, topic, refused)
        if kept is not None:
            known.append(kept)
    if not known:
        return OffsetCommitResponse(topics=refused)
    version = context.version
    commit = request
    if len(known) != len(request.topics) or refused:
        commit = OffsetCommitRequest(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            request.retention_time_ms,
            known,
        )
    groups = context.broker.groups
    answer = groups.runtime.answer(
        groups.index_of(request.group_id), "OffsetCommit", lambda shard: shard.offsets.commit(commit, version)
    )
    if not refused:
        return answer

    def merged(told: OffsetCommitResponse) -> OffsetCommitResponse:
        # One that is not known by its id has no name.
        return OffsetCommitResponse(
            topics=merged_topics(refused, told.topics, lambda topic: (topic.name, topic.topic_id))
        )

    if isinstance(answer, OffsetCommitResponse):
        return merged(answer)
    return mapped(context.node.world.tasks, answer, merged)


def failed(request: OffsetCommitRequest, error: KafkaError, version: int) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=[_refused(topic, error.code) for topic in request.topics])


def _known(
    context: BrokerContext, topic: OffsetCommitRequestTopic, refused: list[OffsetCommitResponseTopic]
) -> OffsetCommitRequestTopic | None:
    """The topic by name and id, with the partitions that exist; the others go to `refused`."""
    topics = context.node.image.topics
    image: TopicImage | None
    if context.version >= TOPIC_ID_VERSION:
        image = topics.by_id.get(topic.topic_id)
        if image is None:
            refused.append(_refused(topic, UnknownTopicId.code))
            return None
        topic.name = image.name
    else:
        image = topics.by_name.get(topic.name)
        if image is None:
            refused.append(_refused(topic, UNKNOWN_PARTITION))
            return None
    topic.topic_id = image.id
    there = image.partitions
    for one in topic.partitions:
        if one.partition_index not in there:
            break
    else:
        return topic if topic.partitions else None
    kept = [one for one in topic.partitions if one.partition_index in there]
    missing = [one for one in topic.partitions if one.partition_index not in there]
    refused.append(
        OffsetCommitResponseTopic(
            topic.name,
            topic.topic_id,
            [OffsetCommitResponsePartition(one.partition_index, UNKNOWN_PARTITION) for one in missing],
        )
    )
    return OffsetCommitRequestTopic(topic.name, topic.topic_id, kept) if kept else None


def _refused(topic: OffsetCommitRequestTopic, code: int) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        topic.name,
        topic.topic_id,
        [OffsetCommitResponsePartition(one.partition_index, code) for one in topic.partitions],
    )

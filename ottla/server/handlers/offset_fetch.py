"""OffsetFetch (key 9): the offsets that groups have committed."""

from __future__ import annotations

from ottla.errors import CoordinatorNotAvailable, KafkaError, NotCoordinator, UnknownTopicId
from ottla.server.context import BrokerContext
from ottla.server.group_requests import caught
from ottla.server.promises import gathered, mapped
from ottla.types import ZERO_UUID
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.world import Promise

API_KEY = 9
GROUP_ERROR_VERSION = 2
"""From here on a group's error has a place of its own, and all topics can be asked for."""
MANY_VERSION = 8
"""From here on a request may name several groups."""
TOPIC_ID_VERSION = 10
NO_OFFSET = -1
NO_EPOCH = -1


def handle(context: BrokerContext, request: OffsetFetchRequest) -> Promise[OffsetFetchResponse]:
    """Each group's offsets, or its error."""
    tasks, version = context.node.world.tasks, context.version
    promises = [_fetch(context, group, request.require_stable) for group in _groups(request, version)]
    if version >= MANY_VERSION:
        return mapped(tasks, gathered(tasks, promises), lambda groups: OffsetFetchResponse(groups=groups))
    return mapped(tasks, promises[0], _alone)


def failed(request: OffsetFetchRequest, error: KafkaError, version: int) -> OffsetFetchResponse:
    groups = [_failed(group, error, version) for group in _groups(request, version)]
    return OffsetFetchResponse(groups=groups) if version >= MANY_VERSION else _alone(groups[0])


def _groups(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """The groups asked for: earlier versions ask for one, outside of the list."""
    if version >= MANY_VERSION:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [OffsetFetchRequestTopics(one.name, ZERO_UUID, one.partition_indexes) for one in request.topics]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def _fetch(
    context: BrokerContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> Promise[OffsetFetchResponseGroup]:
    version = context.version
    unknown = _name_topics(context, group) if version >= TOPIC_ID_VERSION else []
    promise = context.broker.groups.read(
        group.group_id, "OffsetFetch", lambda shard: shard.offsets.fetch(group, require_stable=require_stable)
    )

    def answer(fetched: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
        if version >= TOPIC_ID_VERSION and group.topics is None:
            _identify_topics(context, fetched)
        fetched.topics += unknown
        return fetched

    told = mapped(context.node.world.tasks, promise, answer)
    return caught(context, told, lambda error: _failed(group, error, version))


def _name_topics(context: BrokerContext, group: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
    """Give the topics asked for their names; what is answered for those that have none."""
    if group.topics is None:
        return []
    known, unknown = [], []
    for topic in group.topics:
        image = context.node.image.topics.by_id.get(topic.topic_id)
        if image is not None:
            topic.name = image.name
            known.append(topic)
            continue
        code = UnknownTopicId.code
        unknown.append(
            OffsetFetchResponseTopics(
                "",
                topic.topic_id,
                [
                    OffsetFetchResponsePartitions(index, NO_OFFSET, NO_EPOCH, "", code)
                    for index in topic.partition_indexes
                ],
            )
        )
    group.topics = known
    return unknown


def _identify_topics(context: BrokerContext, fetched: OffsetFetchResponseGroup) -> None:
    """Give all of a group's topics their ids; one that is gone cannot be told of."""
    by_name = context.node.image.topics.by_name
    topics = []
    for topic in fetched.topics:
        image = by_name.get(topic.name)
        if image is not None:
            topic.topic_id = image.id
            topics.append(topic)
    fetched.topics = topics


def _failed(group: OffsetFetchRequestGroup, error: KafkaError, version: int) -> OffsetFetchResponseGroup:
    if isinstance(error, CoordinatorNotAvailable):
        # Consumers before 3.9 do not expect that here, and would not try again.
        error = NotCoordinator(error.message)
    if version >= GROUP_ERROR_VERSION:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
    return OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=[
            OffsetFetchResponseTopics(
                topic.name,
                ZERO_UUID,
                [
                    OffsetFetchResponsePartitions(index, NO_OFFSET, NO_EPOCH, "", error.code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in group.topics or ()
        ],
    )


def _alone(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """The answer for one group in the form of the versions that know one only."""
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(
                        one.partition_index,
                        one.committed_offset,
                        one.committed_leader_epoch,
                        one.metadata,
                        one.error_code,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in group.topics
        ],
        error_code=group.error_code,
    )

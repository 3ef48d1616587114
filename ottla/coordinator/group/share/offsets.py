"""`ShareOffsets`: where a share group is, altered and deleted by an operator; and the state that goes with it.

The offsets themselves are with the share coordinator. The group coordinator writes down whose state is being made or
deleted before it is asked for, and what came of it after: each is a decision of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.group.share import records
from ottla.coordinator.group.share.group import ShareGroup
from ottla.coordinator.group.share.state_topics import UNKNOWN_NAME, StateTopic, StateTopics, combined
from ottla.coordinator.record import CoordinatorRecord
from ottla.errors import NonEmptyGroup, UnknownTopicOrPartition
from ottla.machine import Result
from ottla.types import ZERO_UUID, Uuid
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ottla.wire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponseTopic

if TYPE_CHECKING:
    from ottla.coordinator.group.share.groups import ShareGroups

log = logging.getLogger(__name__)


class Altered(NamedTuple):
    """What an alteration is answered with, and the offsets that partitions are to begin from."""

    topics: list[AlterShareGroupOffsetsResponseTopic]
    state_epoch: int
    start_offsets: Mapping[tuple[Uuid, int], int]


class Deletion(NamedTuple):
    """What cannot be deleted, and the partitions whose state is to be."""

    refused: list[DeleteShareGroupOffsetsResponseTopic]
    partitions: Mapping[Uuid, Collection[int]]


class ShareOffsets:
    """See the module."""

    def __init__(self, family: ShareGroups) -> None:
        self._family = family

    def _written(self, group_id: str, topics: StateTopics) -> CoordinatorRecord:
        return records.state_topics(group_id, topics, self._family.context.image)

    def _topics(self, partitions: Mapping[Uuid, Collection[int]]) -> dict[Uuid, StateTopic]:
        context = self._family.context
        now_ms, by_id = context.world.clock.now_ms(), context.image.topics.by_id
        return {
            topic_id: StateTopic(
                by_id[topic_id].name if topic_id in by_id else UNKNOWN_NAME, frozenset(indexes), now_ms
            )
            for topic_id, indexes in partitions.items()
        }

    # The state of new partitions

    def initialized(self, group_id: str, partitions: Mapping[Uuid, Collection[int]]) -> Result[None]:
        """The state of these partitions exists now: they may be assigned."""
        group = self._family.find(group_id)
        topics = group.state_topics.done(self._topics(partitions))
        return Result(None, [self._written(group_id, topics)])

    def failed(self, group_id: str, partitions: Mapping[Uuid, Collection[int]]) -> Result[None]:
        """It could not be made: it is begun again with a later heartbeat."""
        group = self._family.find(group_id)
        if not group.state_topics.initializing:
            return Result(None)
        return Result(None, [self._written(group_id, group.state_topics.failed(partitions))])

    def partitions(self, group_id: str) -> dict[Uuid, list[int]]:
        """The partitions that have state; none for a group that is not there."""
        group = self._family.shard.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return {}
        return {topic_id: sorted(topic.partitions) for topic_id, topic in group.state_topics.initialized.items()}

    # Altering

    def alter(self, group_id: str, wanted: Iterable[AlterShareGroupOffsetsRequestTopic]) -> Result[Altered]:
        """Let a group without members begin elsewhere; one that is not there is made."""
        group = self._family.find_or_new(group_id)
        if group.members:
            raise NonEmptyGroup
        context = self._family.context
        by_name, now_ms = context.image.topics.by_name, context.world.clock.now_ms()
        answered: list[AlterShareGroupOffsetsResponseTopic] = []
        begun: dict[Uuid, StateTopic] = {}
        offsets: dict[tuple[Uuid, int], int] = {}
        for topic in wanted:
            image = by_name.get(topic.topic_name)
            count = 0 if image is None else len(image.partitions)
            topic_id = ZERO_UUID if image is None else image.id
            partitions = []
            for one in topic.partitions:
                is_known = one.partition_index < count
                partitions.append(_altered(one.partition_index, is_known=is_known))
                if is_known:
                    offsets[topic_id, one.partition_index] = one.start_offset
            answered.append(AlterShareGroupOffsetsResponseTopic(topic.topic_name, topic_id, partitions))
            if image is not None:
                known = frozenset(one.partition_index for one in topic.partitions if one.partition_index < count)
                begun[topic_id] = StateTopic(topic.topic_name, known, now_ms)
        found = [self._written(group_id, group.state_topics.begun(begun))] if begun else []
        return Result(Altered(answered, group.epoch, offsets), found)

    # Deleting

    def begin_deletion(self, group_id: str, names: Iterable[str]) -> Result[Deletion]:
        """Forget where a group without members is in these topics."""
        group = self._family.find(group_id)
        group.check_delete()
        image = self._family.context.image
        topics = group.state_topics
        refused: list[DeleteShareGroupOffsetsResponseTopic] = []
        partitions: dict[Uuid, Collection[int]] = {}
        for name in names:
            topic = image.topics.by_name.get(name)
            if topic is None:
                refused.append(_refused(name, UnknownTopicOrPartition().message))
            elif topic.id in topics.initialized:
                partitions[topic.id] = sorted(topics.initialized[topic.id].partitions)
            elif topic.id in topics.deleting:
                partitions[topic.id] = range(len(topic.partitions))
            else:
                refused.append(_refused(name, "There is no offset information to delete."))
        initialized = {key: topic for key, topic in topics.initialized.items() if key not in partitions}
        changed = StateTopics(topics.initializing, initialized, topics.deleting.union(partitions))
        return Result(Deletion(refused, partitions), [self._written(group_id, changed)])

    def end_deletion(self, group_id: str, topic_ids: Collection[Uuid]) -> Result[None]:
        """The state of these topics is gone."""
        group = self._family.find(group_id)
        topics = group.state_topics
        changed = StateTopics(topics.initializing, topics.initialized, topics.deleting.difference(topic_ids))
        return Result(None, [self._written(group_id, changed)])

    def begin_group_deletion(self, group_ids: Iterable[str]) -> Result[dict[str, dict[Uuid, list[int]]]]:
        """The groups are to be deleted: the state of which partitions goes with each. Others than share groups, and
        those that still have members, are left out: whoever deletes groups tells why."""
        found: list[CoordinatorRecord] = []
        partitions: dict[str, dict[Uuid, list[int]]] = {}
        by_id = self._family.context.image.topics.by_id
        for group_id in group_ids:
            group = self._family.shard.groups.get(group_id)
            if not isinstance(group, ShareGroup) or group.members:
                continue
            topics = combined(group.state_topics.initialized, group.state_topics.initializing)
            for topic_id in group.state_topics.deleting:
                image = by_id.get(topic_id)
                if image is not None:
                    every = frozenset(range(len(image.partitions)))
                    topics = combined(topics, {topic_id: StateTopic(image.name, every)})
            if topics:
                found.append(self._written(group_id, StateTopics({}, {}, frozenset(topics))))
                partitions[group_id] = {topic_id: sorted(topic.partitions) for topic_id, topic in topics.items()}
        return Result(partitions, found)

    def forget_topics(self, topic_ids: Collection[Uuid]) -> Result[None]:
        """Topics are deleted; the share coordinator forgets their state by itself."""
        return Result(
            None,
            [
                self._written(group.group_id, group.state_topics.without_topics(topic_ids))
                for group in self._family.all_groups()
                if group.state_topics.has_any_of(topic_ids)
            ],
        )


def _altered(index: int, *, is_known: bool) -> AlterShareGroupOffsetsResponsePartition:
    if is_known:
        return AlterShareGroupOffsetsResponsePartition(index, 0, None)
    error = UnknownTopicOrPartition()
    return AlterShareGroupOffsetsResponsePartition(index, error.code, error.message)


def _refused(name: str, message: str) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name, error_code=UnknownTopicOrPartition.code, error_message=message
    )

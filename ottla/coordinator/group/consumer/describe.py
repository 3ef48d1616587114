"""A consumer group as ConsumerGroupDescribe tells it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ottla.coordinator.group.assignors import NO_PARTITIONS
from ottla.coordinator.group.assignors import Assignment as Target
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import Member
from ottla.metadata import Image
from ottla.types import Uuid
from ottla.wire.messages.consumer_group_describe import Assignment, DescribedGroup, TopicPartitions
from ottla.wire.messages.consumer_group_describe import Member as DescribedMember

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def described_group(group: ConsumerGroup, assignor: str, image: Image) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor,
        members=[
            _member(member, group.targets.get(member.member_id, NO_PARTITIONS), image)
            for member in group.members.values()
        ],
    )


def _member(member: Member, target: Target, image: Image) -> DescribedMember:
    # What it is giving up is its own until it has.
    owned: dict[Uuid, list[int]] = {}
    for one in (member.assigned, member.pending_revocation):
        for topic_id, partitions in one.items():
            owned.setdefault(topic_id, []).extend(partitions)
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(owned, image),
        target_assignment=_assignment(target, image),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[Uuid, Collection[int]], image: Image) -> Assignment:
    """With names; topics that are gone have none."""
    by_id = image.topics.by_id
    return Assignment(
        [
            TopicPartitions(topic_id, by_id[topic_id].name, list(indexes))
            for topic_id, indexes in partitions.items()
            if topic_id in by_id
        ]
    )

"""The records of share groups in `__consumer_offsets`, with the versions and orders that Kafka 4.3 writes."""

from __future__ import annotations

from ottla.coordinator.group.assignors import Assignment, HashOrder, partition_order, uuid_hash
from ottla.coordinator.group.share.member import STABLE, ShareMember
from ottla.coordinator.group.share.state_topics import UNKNOWN_NAME, StateTopics, Topics
from ottla.coordinator.record import CoordinatorRecord
from ottla.metadata import Image
from ottla.wire.coordinator.share_group import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicInfo,
    TopicPartition,
    TopicPartitions,
    TopicPartitionsInfo,
)


def subscription(group_id: str, member: ShareMember) -> CoordinatorRecord:
    return CoordinatorRecord(
        ShareGroupMemberMetadataKey(group_id, member.member_id),
        ShareGroupMemberMetadataValue(member.rack_id, member.client_id, member.client_host, sorted(member.topic_names)),
    )


def epoch(group_id: str, group_epoch: int, metadata_hash: int) -> CoordinatorRecord:
    return CoordinatorRecord(ShareGroupMetadataKey(group_id), ShareGroupMetadataValue(group_epoch, metadata_hash))


def target(group_id: str, member_id: str, assignment: Assignment) -> CoordinatorRecord:
    return CoordinatorRecord(
        ShareGroupTargetAssignmentMemberKey(group_id, member_id),
        ShareGroupTargetAssignmentMemberValue(
            [TopicPartition(topic_id, list(partitions)) for topic_id, partitions in assignment.items()]
        ),
    )


def target_epoch(group_id: str, assignment_epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        ShareGroupTargetAssignmentMetadataKey(group_id),
        ShareGroupTargetAssignmentMetadataValue(assignment_epoch=assignment_epoch, assignment_timestamp=timestamp_ms),
    )


def current(group_id: str, member: ShareMember) -> CoordinatorRecord:
    return CoordinatorRecord(
        ShareGroupCurrentMemberAssignmentKey(group_id, member.member_id),
        ShareGroupCurrentMemberAssignmentValue(
            member.epoch,
            member.previous_epoch,
            STABLE,
            [TopicPartitions(topic_id, list(partitions)) for topic_id, partitions in member.assigned.items()],
        ),
    )


def state_topics(group_id: str, topics: StateTopics, image: Image) -> CoordinatorRecord:
    by_id = image.topics.by_id
    deleting = [
        TopicInfo(topic_id, by_id[topic_id].name if topic_id in by_id else UNKNOWN_NAME)
        for topic_id in HashOrder(uuid_hash, sorted(topics.deleting))
    ]
    return CoordinatorRecord(
        ShareGroupStatePartitionMetadataKey(group_id),
        ShareGroupStatePartitionMetadataValue(_infos(topics.initializing), _infos(topics.initialized), deleting),
    )


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    return [
        CoordinatorRecord(ShareGroupCurrentMemberAssignmentKey(group_id, member_id)),
        CoordinatorRecord(ShareGroupTargetAssignmentMemberKey(group_id, member_id)),
        CoordinatorRecord(ShareGroupMemberMetadataKey(group_id, member_id)),
    ]


def group_tombstones(group_id: str) -> list[CoordinatorRecord]:
    return [
        CoordinatorRecord(ShareGroupTargetAssignmentMetadataKey(group_id)),
        CoordinatorRecord(ShareGroupStatePartitionMetadataKey(group_id)),
        CoordinatorRecord(ShareGroupMetadataKey(group_id)),
    ]


def _infos(topics: Topics) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id, topics[topic_id].name, list(partition_order(sorted(topics[topic_id].partitions))))
        for topic_id in HashOrder(uuid_hash, sorted(topics))
    ]

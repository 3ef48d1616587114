"""The records of consumer groups: made of a group's state, and read back into it.

Promises: keys, values and their order are Kafka's 4.3, so that brokers of both kinds read each other's logs.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.coordinator.group.assignors import Assignment, HashOrder, partition_order, uuid_hash
from ottla.coordinator.group.assignors.hash_order import int_hash
from ottla.coordinator.group.consumer.member import ClassicSide, Member, PartitionEpochs
from ottla.coordinator.record import CoordinatorRecord
from ottla.types import Uuid
from ottla.wire.coordinator.consumer_group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)

Records = list[CoordinatorRecord]

# The group


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    )


def no_group(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupMetadataKey(group_id))


def no_partition_metadata(group_id: str) -> CoordinatorRecord:
    """Ends what brokers before 4.1 wrote of a group's topics."""
    return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id))


def regex(group_id: str, expression: str, topics: Iterable[str], version: int, timestamp_ms: int) -> CoordinatorRecord:
    value = ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=version, timestamp=timestamp_ms)
    return CoordinatorRecord(ConsumerGroupRegularExpressionKey(group_id, expression), value)


def no_regex(group_id: str, expression: str) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupRegularExpressionKey(group_id, expression))


# Members


def member_metadata(group_id: str, member: Member) -> CoordinatorRecord:
    classic = None
    if member.classic is not None:
        classic = ClassicMemberMetadata(
            member.classic.session_timeout_ms, [ClassicProtocol(*protocol) for protocol in member.classic.protocols]
        )
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=classic,
    )
    return CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id, member.member_id), value)


def no_member(group_id: str, member_id: str) -> Records:
    """A member is gone: in this order, because each but the first rests on those before it."""
    return [no_current(group_id, member_id), no_target(group_id, member_id), no_metadata(group_id, member_id)]


def no_metadata(group_id: str, member_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id, member_id))


def current(group_id: str, member: Member) -> CoordinatorRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_topic_partitions(member.assigned),
        partitions_pending_revocation=_topic_partitions(member.pending_revocation),
    )
    return CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


def no_current(group_id: str, member_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id))


# The target assignment


def target(group_id: str, member_id: str, assignment: Assignment) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[TopicPartition(topic_id, list(partitions)) for topic_id, partitions in assignment.items()]
    )
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), value)


def no_target(group_id: str, member_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id))


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id), value)


def no_target_epoch(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id))


# Reading back


def read_target(value: ConsumerGroupTargetAssignmentMemberValue) -> Assignment:
    by_topic = {one.topic_id: partition_order(one.partitions) for one in value.topic_partitions}
    return {topic_id: by_topic[topic_id] for topic_id in HashOrder(uuid_hash, by_topic)}


def read_owned(value: ConsumerGroupCurrentMemberAssignmentValue) -> tuple[PartitionEpochs, PartitionEpochs]:
    """What the member owns, and what it is giving up."""
    # Before 4.3 no epochs were written, and a static member away has none of its own: then its partitions count as
    # given in the member's epoch, and never below 0.
    default = max(value.member_epoch, 0)
    return (
        _partition_epochs(value.assigned_partitions, default),
        _partition_epochs(value.partitions_pending_revocation, default),
    )


def read_classic(value: ClassicMemberMetadata | None) -> ClassicSide | None:
    if value is None:
        return None
    return ClassicSide(
        value.session_timeout_ms, tuple((one.name, bytes(one.metadata)) for one in value.supported_protocols)
    )


def _topic_partitions(owned: PartitionEpochs) -> list[TopicPartitions]:
    topics = []
    for topic_id in _topic_order(owned):
        epochs = owned[topic_id]
        partitions = list(HashOrder(int_hash, epochs))
        topics.append(TopicPartitions(topic_id, partitions, [epochs[partition] for partition in partitions]))
    return topics


def _topic_order(topic_ids: Iterable[Uuid]) -> Iterable[Uuid]:
    return HashOrder(uuid_hash, topic_ids)


def _partition_epochs(topics: Iterable[TopicPartitions], default: int) -> PartitionEpochs:
    found = {}
    for one in topics:
        epochs = one.assignment_epochs
        if epochs is None or len(epochs) != len(one.partitions):
            epochs = [default] * len(one.partitions)
        found[one.topic_id] = dict(zip(one.partitions, epochs, strict=True))
    return found

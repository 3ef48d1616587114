"""The records of a Streams group, with Kafka's keys, values and orders: the log is the same whoever writes it."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.coordinator.group.streams.member import StreamsMember
from ottla.coordinator.group.streams.tasks import EpochMap, TaskMap, Tasks
from ottla.coordinator.record import CoordinatorRecord
from ottla.wire.coordinator.streams_group import (
    KeyValue,
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupCurrentMemberAssignmentValueTaskIds,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMemberValueTaskIds,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)


def member_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    return CoordinatorRecord(
        StreamsGroupMemberMetadataKey(group_id, member.id),
        StreamsGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=member.user_endpoint,
            client_tags=[KeyValue(key, value) for key, value in sorted(member.client_tags.items())],
        ),
    )


def group_record(
    group_id: str,
    epoch: int,
    *,
    metadata_hash: int,
    validated_topology_epoch: int,
    assignment_configs: Mapping[str, str],
) -> CoordinatorRecord:
    return CoordinatorRecord(
        StreamsGroupMetadataKey(group_id),
        StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_topology_epoch,
            last_assignment_configs=[LastAssignmentConfig(key, value) for key, value in assignment_configs.items()],
        ),
    )


def topology_record(group_id: str, value: StreamsGroupTopologyValue) -> CoordinatorRecord:
    return CoordinatorRecord(StreamsGroupTopologyKey(group_id), value)


def target_record(group_id: str, member_id: str, tasks: Tasks) -> CoordinatorRecord:
    return CoordinatorRecord(
        StreamsGroupTargetAssignmentMemberKey(group_id, member_id),
        StreamsGroupTargetAssignmentMemberValue(
            _target_ids(tasks.active), _target_ids(tasks.standby), _target_ids(tasks.warmup)
        ),
    )


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        StreamsGroupTargetAssignmentMetadataKey(group_id),
        StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def current_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    assigned, pending = member.assigned, member.pending_revocation
    return CoordinatorRecord(
        StreamsGroupCurrentMemberAssignmentKey(group_id, member.id),
        StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            active_tasks=_current_active(assigned.active),
            standby_tasks=_current_ids(assigned.standby),
            warmup_tasks=_current_ids(assigned.warmup),
            active_tasks_pending_revocation=_current_active(pending.active),
            standby_tasks_pending_revocation=_current_ids(pending.standby),
            warmup_tasks_pending_revocation=_current_ids(pending.warmup),
        ),
    )


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """What ends a member: its assignment, its target, then itself."""
    return [
        CoordinatorRecord(StreamsGroupCurrentMemberAssignmentKey(group_id, member_id)),
        CoordinatorRecord(StreamsGroupTargetAssignmentMemberKey(group_id, member_id)),
        CoordinatorRecord(StreamsGroupMemberMetadataKey(group_id, member_id)),
    ]


def group_tombstones(group_id: str) -> list[CoordinatorRecord]:
    """What ends a group without members."""
    return [
        CoordinatorRecord(StreamsGroupTargetAssignmentMetadataKey(group_id)),
        CoordinatorRecord(StreamsGroupMetadataKey(group_id)),
        CoordinatorRecord(StreamsGroupTopologyKey(group_id)),
    ]


def _target_ids(tasks: TaskMap) -> list[StreamsGroupTargetAssignmentMemberValueTaskIds]:
    return [StreamsGroupTargetAssignmentMemberValueTaskIds(id, sorted(tasks[id])) for id in sorted(tasks)]


def _current_ids(tasks: TaskMap) -> list[StreamsGroupCurrentMemberAssignmentValueTaskIds]:
    return [StreamsGroupCurrentMemberAssignmentValueTaskIds(id, sorted(tasks[id]), None) for id in sorted(tasks)]


def _current_active(tasks: EpochMap) -> list[StreamsGroupCurrentMemberAssignmentValueTaskIds]:
    found = []
    for id in sorted(tasks):
        partitions = sorted(tasks[id])
        epochs = [tasks[id][partition] for partition in partitions]
        found.append(StreamsGroupCurrentMemberAssignmentValueTaskIds(id, partitions, epochs))
    return found

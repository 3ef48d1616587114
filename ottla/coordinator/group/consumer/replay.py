"""Replay of the records of consumer groups: the only code that changes one.

A tombstone for what is not there is passed over: a compacted log may begin anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic import ClassicGroup
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import Member, MemberState
from ottla.coordinator.group.consumer.records import read_classic, read_owned, read_target
from ottla.coordinator.group.consumer.subscriptions import ResolvedRegex
from ottla.coordinator.group.family import Replay
from ottla.coordinator.record import Producer
from ottla.wire.coordinator.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from ottla.coordinator.group.consumer.groups import ConsumerGroups

NO_ASSIGNMENT_EPOCH = -1
"""Of a group whose target assignment has ended, as the group does next."""


def replays(groups: ConsumerGroups) -> Mapping[int, Replay]:
    """How each type of record is applied."""
    one = _Replay(groups)
    return {
        3: one.group,
        4: one.partition_metadata,
        5: one.member,
        6: one.target_epoch,
        7: one.target,
        8: one.current,
        16: one.regex,
    }


class _Replay:
    def __init__(self, groups: ConsumerGroups) -> None:
        self._groups = groups

    def _written(self, group_id: str) -> ConsumerGroup:
        """The group that a record is about; its first record makes it."""
        shard = self._groups.shard
        group = shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        # A group that only has offsets is taken for a classic one until its own records are met.
        is_simple = isinstance(group, ClassicGroup) and not group.protocol_type and group.is_empty
        assert group is None or is_simple, f"group {group_id} is not a consumer group, and its records are met"
        made = ConsumerGroup(group_id, shard.context.undo)
        shard.groups[group_id] = made
        return made

    def group(
        self, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None, _: Producer | None
    ) -> None:
        if value is not None:
            self._written(key.group_id).set_epoch(value.epoch, value.metadata_hash)
            return
        group = self._groups.find(key.group_id)
        if group is None:
            return
        assert not group.members, f"group {key.group_id} ends with {len(group.members)} members"
        assert not group.targets, f"group {key.group_id} ends with the targets of {len(group.targets)} members"
        assert group.assignment_epoch == NO_ASSIGNMENT_EPOCH, f"group {key.group_id} ends before its assignment"
        del self._groups.shard.groups[key.group_id]

    def partition_metadata(
        self,
        key: ConsumerGroupPartitionMetadataKey,
        value: ConsumerGroupPartitionMetadataValue | None,
        _: Producer | None,
    ) -> None:
        group = self._groups.find(key.group_id) if value is None else self._written(key.group_id)
        if group is not None:
            group.set_has_partition_metadata(value is not None)

    def member(
        self, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None, _: Producer | None
    ) -> None:
        if value is None:
            group = self._groups.find(key.group_id)
            if group is not None:
                group.remove_member(key.member_id)
            return
        group = self._written(key.group_id)
        group.put_member(
            replace(
                group.members.get(key.member_id) or Member(key.member_id),
                instance_id=value.instance_id,
                rack_id=value.rack_id,
                rebalance_timeout_ms=value.rebalance_timeout_ms,
                client_id=value.client_id,
                client_host=value.client_host,
                topic_names=frozenset(value.subscribed_topic_names),
                topic_regex=value.subscribed_topic_regex,
                assignor=value.server_assignor,
                classic=read_classic(value.classic_member_metadata),
            )
        )

    def target_epoch(
        self,
        key: ConsumerGroupTargetAssignmentMetadataKey,
        value: ConsumerGroupTargetAssignmentMetadataValue | None,
        _: Producer | None,
    ) -> None:
        if value is not None:
            group = self._written(key.group_id)
            group.set_assignment_epoch(value.assignment_epoch, value.assignment_timestamp)
            return
        found = self._groups.find(key.group_id)
        if found is not None:
            assert not found.targets, (
                f"the assignment of {key.group_id} ends with targets of {len(found.targets)} members"
            )
            found.set_assignment_epoch(NO_ASSIGNMENT_EPOCH, 0)

    def target(
        self,
        key: ConsumerGroupTargetAssignmentMemberKey,
        value: ConsumerGroupTargetAssignmentMemberValue | None,
        _: Producer | None,
    ) -> None:
        if value is not None:
            self._written(key.group_id).targets[key.member_id] = read_target(value)
            return
        group = self._groups.find(key.group_id)
        if group is not None:
            group.targets.pop(key.member_id, None)

    def current(
        self,
        key: ConsumerGroupCurrentMemberAssignmentKey,
        value: ConsumerGroupCurrentMemberAssignmentValue | None,
        _: Producer | None,
    ) -> None:
        if value is None:
            group = self._groups.find(key.group_id)
            if group is not None:
                group.forget_assignment(key.member_id)
            return
        group = self._written(key.group_id)
        assigned, pending_revocation = read_owned(value)
        group.put_member(
            replace(
                group.members.get(key.member_id) or Member(key.member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=MemberState.of(value.state),
                assigned=assigned,
                pending_revocation=pending_revocation,
            )
        )

    def regex(
        self,
        key: ConsumerGroupRegularExpressionKey,
        value: ConsumerGroupRegularExpressionValue | None,
        _: Producer | None,
    ) -> None:
        if value is not None:
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            self._written(key.group_id).put_regex(key.regular_expression, resolved)
            return
        group = self._groups.find(key.group_id)
        if group is not None:
            group.put_regex(key.regular_expression, None)

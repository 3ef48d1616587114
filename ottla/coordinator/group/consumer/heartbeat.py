"""`Heartbeats`: a member joins the group, or lives on in it.

A heartbeat tells what has changed on the member's side, and everything when it joins or is not sure what has arrived:
a full request. The answer has the member's assignment when that has changed, or when the request was a full one.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic import ClassicGroup
from ottla.coordinator.group.consumer import membership
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import JOIN_EPOCH, Member, MemberState, PartitionEpochs
from ottla.coordinator.group.consumer.reconciliation import Owned
from ottla.coordinator.group.consumer.records import Records
from ottla.coordinator.group.consumer.update import MemberUpdate
from ottla.coordinator.group.group import Caller
from ottla.errors import FencedMemberEpoch, GroupIdNotFound
from ottla.machine import Result
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from ottla.coordinator.group.consumer.groups import ConsumerGroups

log = logging.getLogger(__name__)


class Heartbeats:
    """See the module."""

    def __init__(self, groups: ConsumerGroups) -> None:
        self._groups = groups

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> Result[ConsumerGroupHeartbeatResponse]:
        groups = self._groups
        group = groups.find(request.group_id)
        if group is not None and self._changes_nothing(group, request, caller):
            return Result(self._alive(group.group_id, request.member_id, request.member_epoch))
        is_joining = request.member_epoch == JOIN_EPOCH
        made: Records = []
        group = self._to_join(request.group_id, made) if is_joining else groups.existing(request.group_id)
        membership.check_room(group, request.member_id, groups.config.group_consumer_max_size)
        member_id = request.member_id or groups.new_member_id()
        before = self._member(group, member_id, request, made)
        update = MemberUpdate(groups, group, before, _told(before, request, caller), made)
        update.subscribe()
        target_epoch, target = update.assign()
        after = update.reconcile(target_epoch, target, request.topic_partitions)
        response = self._alive(group.group_id, member_id, after.epoch)
        if is_joining or _is_full(request) or after.assigned != before.assigned:
            response.assignment = _assignment(after.assigned)
        return Result(response, made)

    def _changes_nothing(self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> bool:
        """Whether it is one of the many heartbeats that only say that a member in a settled group is alive."""
        member = group.members.get(request.member_id)
        return (
            member is not None
            and request.member_epoch == member.epoch == group.assignment_epoch == group.epoch
            and member.state is MemberState.STABLE
            and not group.regex_counts
            and _told(member, request, caller) is member
            and not group.must_refresh(self._groups.now_ms)
        )

    def _alive(self, group_id: str, member_id: str, epoch: int) -> ConsumerGroupHeartbeatResponse:
        """The member's session begins anew, and it is told so."""
        settings = self._groups.settings(group_id)
        self._groups.leaves.begin_session(group_id, member_id, settings.session_timeout_ms)
        return ConsumerGroupHeartbeatResponse(
            member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=settings.heartbeat_interval_ms
        )

    def _to_join(self, group_id: str, made: Records) -> ConsumerGroup:
        """The group that a member joins; there may be none, or a classic one that becomes a consumer group."""
        groups = self._groups
        group = groups.shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is None:
            return groups.scratch(group_id)
        if not isinstance(group, ClassicGroup):
            raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        if group.is_empty:
            made += group.tombstones()
            log.info("[%s] [GroupId %s] Converted the empty classic group to a consumer group", groups.name, group_id)
            return groups.scratch(group_id)
        return groups.migration.upgrade(group, made)

    def _member(
        self, group: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeatRequest, made: Records
    ) -> Member:
        """The member as it was; a new one that is joining is as yet nothing but its id."""
        name, instance_id = self._groups.name, request.instance_id
        if request.member_epoch == JOIN_EPOCH:
            if instance_id is None:
                return membership.join(name, group, member_id)
            return membership.join_static(name, group, member_id, instance_id, made)
        if instance_id is None:
            member = group.member(member_id)
        else:
            member = membership.check_static(name, group, member_id, instance_id)
        _check_epoch(member, request.member_epoch, request.topic_partitions)
        return member


def _told(before: Member, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> Member:
    """The member with what the request says; the same one where that is nothing new, which is nearly always."""
    names = request.subscribed_topic_names
    if (
        names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == -1
        and request.server_assignor is None
        and request.rack_id is None
        and before.instance_id == request.instance_id
        and before.client_id == caller.client_id
        and before.client_host == caller.client_host
        and before.classic is None
    ):
        return before
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        before,
        instance_id=request.instance_id or before.instance_id,
        rack_id=request.rack_id or before.rack_id,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=request.server_assignor or before.assignor,
        topic_names=before.topic_names if names is None else frozenset(names),
        topic_regex=before.topic_regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def _check_epoch(member: Member, epoch: int, owned: Collection[Owned] | None) -> None:
    """Fence a member whose epoch is not its own.

    The epoch before is accepted from a member that owns nothing it should not: the answer with its new epoch was lost.
    """
    if epoch == member.epoch:
        return
    if epoch < member.epoch and epoch == member.previous_epoch and _is_subset(owned, member.assigned):
        return
    size = "greater" if epoch > member.epoch else "smaller"
    raise FencedMemberEpoch(
        f"The member epoch {epoch} is {size} than the one that the coordinator knows, {member.epoch}. The member must "
        "give up all its partitions and join again."
    )


def _is_subset(owned: Collection[Owned] | None, assigned: PartitionEpochs) -> bool:
    if owned is None:
        return False
    return all(
        one.topic_id in assigned and all(partition in assigned[one.topic_id] for partition in one.partitions)
        for one in owned
    )


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the member tells everything there is to tell."""
    return (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def _assignment(assigned: PartitionEpochs) -> Assignment:
    return Assignment([TopicPartitions(topic_id, list(partitions)) for topic_id, partitions in assigned.items()])

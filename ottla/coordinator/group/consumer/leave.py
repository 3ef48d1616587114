"""`Leaves`: members go: by their own wish, or because they were not heard of or did not get on in time."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ottla.coordinator.group.consumer import membership, records
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, NO_EPOCHS, Member
from ottla.coordinator.group.consumer.records import Records
from ottla.coordinator.group.consumer.subscriptions import topics_after
from ottla.machine import Result
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from ottla.coordinator.group.consumer.groups import ConsumerGroups

log = logging.getLogger(__name__)

T = TypeVar("T")


class Leaves:
    """See the module."""

    def __init__(self, groups: ConsumerGroups) -> None:
        self._groups = groups

    def leave(self, request: ConsumerGroupHeartbeatRequest) -> Result[ConsumerGroupHeartbeatResponse]:
        """A member says good-bye: for good (-1), or until it is back under the same instance id (-2)."""
        name, group_id, member_id = self._groups.name, request.group_id, request.member_id
        group = self._groups.existing(group_id)
        response = ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch)
        if request.instance_id is None:
            member = group.member(member_id)
            log.info("[%s] [GroupId %s] Member %s left the consumer group", name, group_id, member_id)
            return self.remove(group, [member], response)
        member = membership.check_static(name, group, member_id, request.instance_id)
        if request.member_epoch == LEAVE_EPOCH:
            log.info("[%s] [GroupId %s] Static member %s with instance id %s left the consumer group", name, group_id,
                     member_id, request.instance_id)  # fmt: skip
            return self.remove(group, [member], response)
        log.info("[%s] [GroupId %s] Static member %s with instance id %s temporarily left the consumer group", name,
                 group_id, member_id, request.instance_id)  # fmt: skip
        # Whoever comes back in its place has the partitions from the beginning: from epoch 0.
        away = replace(
            member,
            epoch=LEAVE_STATIC_EPOCH,
            assigned={topic: dict.fromkeys(partitions, 0) for topic, partitions in member.assigned.items()},
            pending_revocation=NO_EPOCHS,
        )
        return Result(response, [records.current(group_id, away)])

    def remove(self, group: ConsumerGroup, members: Collection[Member], response: T) -> Result[T]:
        """These are gone: the group goes on without them, as a classic group if only such members are left."""
        if not members:
            return Result(response)
        made: Records = []
        if self._groups.migration.can_downgrade_without(group, members):
            self._groups.migration.downgrade_without(group, members, made)
            return Result(response, made)
        group_id = group.group_id
        for member in members:
            made += records.no_member(group_id, member.member_id)
        ended = [
            expression
            for expression, gone in Counter(member.regex for member in members).items()
            if expression is not None and group.regex_counts.get(expression) == gone
        ]
        made += [records.no_regex(group_id, expression) for expression in ended]
        topics = topics_after(
            group.topics,
            without=members,
            ended=[group.regexes[expression] for expression in ended if expression in group.regexes],
        )
        metadata_hash = self._groups.hash_of(topics)
        made.append(records.group_epoch(group_id, group.epoch + 1, metadata_hash))
        log.info("[%s] [GroupId %s] Bumped group epoch to %d with metadata hash %d", self._groups.name, group_id,
                 group.epoch + 1, metadata_hash)  # fmt: skip
        for member in members:
            self._groups.timeouts.cancel_all(group_id, member.member_id)
        return Result(response, made)

    # Time-outs

    def begin_session(self, group_id: str, member_id: str, timeout_ms: int | None = None) -> None:
        """The member was heard of: it has this long, or the group's own time, to be heard of again."""
        if timeout_ms is None:
            timeout_ms = self._groups.settings(group_id).session_timeout_ms
        fence = partial(self.fence, group_id, member_id, "the member session expired")
        self._groups.timeouts.set("session", group_id, member_id, timeout_ms, fence)

    def begin_rebalance(self, group_id: str, member: Member) -> None:
        """The member is to give up partitions: it has its rebalance time-out to do so."""
        timeout_ms = member.rebalance_timeout_ms
        fence = partial(self._on_rebalance_timeout, group_id, member.member_id, member.epoch, timeout_ms)
        self._groups.timeouts.set("rebalance", group_id, member.member_id, timeout_ms, fence)

    def fence(self, group_id: str, member_id: str, reason: str) -> Result[None]:
        """Take a member out, if it is still there."""
        group = self._groups.find(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return Result(None)
        log.info("[%s] [GroupId %s] Member %s fenced from the group because %s", self._groups.name, group_id, member_id,
                 reason)  # fmt: skip
        return self.remove(group, [member], None)

    def _on_rebalance_timeout(self, group_id: str, member_id: str, epoch: int, timeout_ms: int) -> Result[None]:
        group = self._groups.find(group_id)
        member = None if group is None else group.members.get(member_id)
        if member is None or member.epoch != epoch:
            return Result(None)
        return self.fence(group_id, member_id, f"it failed to transition from epoch {epoch} within {timeout_ms}ms")

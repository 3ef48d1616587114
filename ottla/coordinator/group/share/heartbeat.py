"""`Beat`: one heartbeat of a member that joins a share group or stays in it, from what it says to what it is told.

Reads the group as it is and comes to records and an answer; what it changes of the group is this coordinator's own.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.group.assignors import NO_PARTITIONS, Assignment, same_partitions
from ottla.coordinator.group.group import Caller, is_too_soon
from ottla.coordinator.group.share import records, simple_assignor
from ottla.coordinator.group.share.group import ShareGroup
from ottla.coordinator.group.share.member import JOIN_EPOCH, ShareMember
from ottla.coordinator.record import CoordinatorRecord
from ottla.machine import Result
from ottla.types import Uuid
from ottla.wire.messages.share_group_heartbeat import Assignment as HeartbeatAssignment
from ottla.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from ottla.coordinator.group.share.groups import ShareGroups

log = logging.getLogger(__name__)

REFRESH_MS = 2**31 - 1
"""After how long the topics are looked at again though nothing was told of them: Kafka's, which is never."""


class Wanted(NamedTuple):
    """Partitions whose state is to be made before they can be assigned."""

    state_epoch: int
    topics: Mapping[Uuid, Collection[int]]


class Heartbeat(NamedTuple):
    """The answer to a heartbeat, and what has to happen besides."""

    response: ShareGroupHeartbeatResponse
    wanted: Wanted | None = None


class Beat:
    """One heartbeat of a member that stays, or joins."""

    def __init__(
        self,
        family: ShareGroups,
        group: ShareGroup,
        member: ShareMember,
        known: ShareMember | None,
        request: ShareGroupHeartbeatRequest,
        caller: Caller,
    ) -> None:
        self._family = family
        self._group = group
        self._before = member
        self._is_known = known is not None
        self._request = request
        self._records: list[CoordinatorRecord] = []
        self._epoch = group.epoch
        names = request.subscribed_topic_names
        is_told = names is not None or request.rack_id is not None
        self._member = member
        if is_told or (member.client_id, member.client_host) != (caller.client_id, caller.client_host):
            self._member = replace(
                member,
                rack_id=member.rack_id if request.rack_id is None else request.rack_id,
                topic_names=member.topic_names if names is None else frozenset(names),
                client_id=caller.client_id,
                client_host=caller.client_host,
            )

    def run(self) -> Result[Heartbeat]:
        family, group, request = self._family, self._group, self._request
        context = family.context
        settings = family.settings(group.group_id)
        now_ms = context.world.clock.now_ms()
        is_bumped = self._note_subscription()
        if group.assignment_epoch >= group.epoch and group.has_unassigned_state:
            is_bumped = True
        names: set[str] | None = None
        if is_bumped or group.has_expired_metadata(now_ms):
            names = group.topic_names(self._member)
            is_bumped = self._bump(names, now_ms, is_bumped=is_bumped)
        target_epoch, target = self._target(settings.share_assignment_interval_ms, now_ms)
        self._reconcile(target_epoch, target, is_bumped=is_bumped)
        family.watch_session(group.group_id, self._member.member_id, settings.share_session_timeout_ms)
        response = ShareGroupHeartbeatResponse(
            member_id=self._member.member_id,
            member_epoch=self._member.epoch,
            heartbeat_interval_ms=settings.share_heartbeat_interval_ms,
        )
        is_full = request.member_epoch == JOIN_EPOCH or request.subscribed_topic_names is not None
        if is_full or not same_partitions(self._before.assigned, self._member.assigned):
            response.assignment = HeartbeatAssignment(
                [TopicPartitions(topic_id, list(one)) for topic_id, one in self._member.assigned.items()]
            )
        wanted = self._wanted(names, now_ms)
        return Result(Heartbeat(response, wanted), self._records)

    def _note_subscription(self) -> bool:
        """Write what the member has told anew; whether it wants other topics."""
        if self._is_known and (self._member is self._before or self._member == self._before):
            return False
        self._records.append(records.subscription(self._group.group_id, self._member))
        if self._member.topic_names == self._before.topic_names:
            return False
        log.info("[%s] [GroupId %s] Member %s updated its subscribed topics to: %s.",
                 self._family.shard.name, self._group.group_id, self._member.member_id,
                 sorted(self._member.topic_names))  # fmt: skip
        return True

    def _bump(self, names: set[str], now_ms: int, *, is_bumped: bool) -> bool:
        """Begin a new group epoch if there is reason to."""
        group = self._group
        metadata_hash = self._family.metadata_hash(names)
        if metadata_hash != group.metadata_hash:
            is_bumped = True
        if is_bumped:
            self._epoch += 1
            self._records.append(records.epoch(group.group_id, self._epoch, metadata_hash))
            log.info("[%s] [GroupId %s] Bumped group epoch to %d with metadata hash %d.",
                     self._family.shard.name, group.group_id, self._epoch, metadata_hash)  # fmt: skip
        group.refresh_ms, group.refresh_epoch = now_ms + REFRESH_MS, self._epoch
        return is_bumped

    def _target(self, interval_ms: int, now_ms: int) -> tuple[int, Assignment]:
        """The epoch of the target assignment, and what the member should read; computed anew where it is time to."""
        group, member_id = self._group, self._member.member_id
        if group.assignment_epoch >= self._epoch or is_too_soon(now_ms, group.assignment_ms, interval_ms):
            return group.assignment_epoch, group.targets.get(member_id, NO_PARTITIONS)
        initialized = group.state_topics.initialized
        assigned = simple_assignor.assign(
            {**group.members, member_id: self._member},
            group.targets,
            {topic_id: topic.partitions for topic_id, topic in initialized.items()},
            self._family.context.image,
        )
        for one, assignment in assigned.items():
            before = group.targets.get(one)
            if before is None or not same_partitions(before, assignment):
                self._records.append(records.target(group.group_id, one, assignment))
        self._records.append(records.target_epoch(group.group_id, self._epoch, now_ms))
        log.info("[%s] [GroupId %s] Computed a new target assignment for epoch %d with '%s' "
                 "assignor.", self._family.shard.name, group.group_id, self._epoch, simple_assignor.NAME)  # fmt: skip
        return self._epoch, assigned.get(member_id, NO_PARTITIONS)

    def _reconcile(self, target_epoch: int, target: Assignment, *, is_bumped: bool) -> None:
        """Give the member what it should have; there is nothing to wait for."""
        member = self._member
        if member.epoch == target_epoch and not is_bumped:
            return
        by_name = self._family.context.image.topics.by_name
        wanted = {by_name[name].id for name in member.topic_names if name in by_name}
        assigned = {topic_id: partitions for topic_id, partitions in target.items() if topic_id in wanted}
        if member.epoch != target_epoch:
            member = replace(member, assigned=assigned, epoch=target_epoch, previous_epoch=member.epoch)
        elif not same_partitions(member.assigned, assigned):
            member = replace(member, assigned=assigned)
        if member != self._member:
            self._member = member
            self._records.append(records.current(self._group.group_id, member))

    def _wanted(self, names: set[str] | None, now_ms: int) -> Wanted | None:
        """The partitions whose state is to be made now; `names` are the members' topics where they may be others."""
        group, context = self._group, self._family.context
        retry_ms = self._family.shard.config.group_share_initialize_retry_interval_ms
        if names is None:
            if group.is_complete(context.image.topics):
                return None
            names = group.topic_names()
        missing = group.state_topics.missing(sorted(names), context.image, now_ms=now_ms, retry_ms=retry_ms)
        if not missing:
            group.note_complete(context.image.topics)
            return None
        topics = group.state_topics.begun(missing)
        self._records.append(records.state_topics(group.group_id, topics, context.image))
        return Wanted(self._epoch, {topic_id: sorted(topic.partitions) for topic_id, topic in missing.items()})

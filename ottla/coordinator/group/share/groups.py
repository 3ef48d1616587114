"""`ShareGroups`: the family of share groups: heartbeats, assignments, and the state of their partitions (KIP-932).

A member says what it wants to read; the coordinator says what it gets, and may give a partition to several. Nobody
waits for anybody: a new assignment holds from the next heartbeat on. A partition is given to members once its state
exists, which the one who asks this family sees to: a heartbeat may answer with partitions whose state is to be made
(`Wanted`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.config import BrokerConfig, GroupConfig
from ottla.coordinator.group.assignors import NO_PARTITIONS, HashOrder, uuid_hash
from ottla.coordinator.group.family import Replay
from ottla.coordinator.group.group import Caller
from ottla.coordinator.group.share import records
from ottla.coordinator.group.share.group import NO_STATE, ShareGroup
from ottla.coordinator.group.share.heartbeat import Beat, Heartbeat
from ottla.coordinator.group.share.member import JOIN_EPOCH, LEAVE_EPOCH, ShareMember
from ottla.coordinator.group.share.offsets import ShareOffsets
from ottla.coordinator.group.share.state_topics import StateTopic, StateTopics
from ottla.coordinator.group.topic_hash import TopicHashes
from ottla.coordinator.record import CoordinatorRecord, EndMarker, Producer
from ottla.errors import GroupIdNotFound, GroupMaxSizeReached, UnknownMemberId
from ottla.machine import Result
from ottla.metadata import GROUP, Delta
from ottla.types import Uuid
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
    TopicPartitionsInfo,
)
from ottla.wire.messages.share_group_describe import DescribedGroup
from ottla.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from ottla.coordinator.group.shard import GroupShard

log = logging.getLogger(__name__)


class ShareGroups:
    """See the module and `Family`."""

    def __init__(self, shard: GroupShard) -> None:
        self.shard = shard
        self.context = shard.context
        self._hashes = TopicHashes()
        self._known_settings: dict[str, tuple[Mapping[str, str] | None, BrokerConfig, GroupConfig]] = {}
        """With what they were made from. Groups without settings of their own have those of the empty name."""
        self.offsets = ShareOffsets(self)
        self.replays: Mapping[int, Replay] = {
            10: self._replay_member,
            11: self._replay_group,
            12: self._replay_target_epoch,
            13: self._replay_target,
            14: self._replay_current,
            15: self._replay_state_topics,
        }

    # Finding

    def find(self, group_id: str) -> ShareGroup:
        """The group; `GroupIdNotFound` when there is none, or it is of another protocol."""
        group = self.shard.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        if not isinstance(group, ShareGroup):
            raise GroupIdNotFound(f"Group {group_id} is not a share group.")
        return group

    def find_or_new(self, group_id: str) -> ShareGroup:
        """The group, or an empty one that nobody knows yet."""
        if group_id not in self.shard.groups:
            return ShareGroup(group_id, self.context.undo)
        return self.find(group_id)

    def settings(self, group_id: str) -> GroupConfig:
        """A group's settings as they are now; made again only where they or the broker's have changed."""
        overrides, broker = self.context.image.configs.get((GROUP, group_id)), self.shard.config
        key = "" if overrides is None else group_id
        known = self._known_settings.get(key)
        if known is None or known[0] is not overrides or known[1] is not broker:
            known = (overrides, broker, GroupConfig.of(overrides or {}, broker))
            self._known_settings[key] = known
        return known[2]

    # Members

    def heartbeat(self, request: ShareGroupHeartbeatRequest, caller: Caller) -> Result[Heartbeat]:
        """A member joins, stays or leaves."""
        group_id, member_id, epoch = request.group_id, request.member_id, request.member_epoch
        if epoch == LEAVE_EPOCH:
            return self._leave(group_id, member_id)
        group = self.find_or_new(group_id) if epoch == JOIN_EPOCH else self._found_for_heartbeat(group_id)
        known = group.members.get(member_id)
        if known is None:
            self._check_room(group)
            if epoch != JOIN_EPOCH:
                raise UnknownMemberId(f"Member {member_id} is not a member of group {group_id}.")
        member = known or ShareMember(member_id)
        member.check_epoch(epoch)
        if epoch == JOIN_EPOCH:
            log.info("[%s] [GroupId %s] Member %s joins the share group using the share protocol.",
                     self.shard.name, group_id, member_id)  # fmt: skip
        return Beat(self, group, member, known, request, caller).run()

    def _found_for_heartbeat(self, group_id: str) -> ShareGroup:
        if group_id not in self.shard.groups:
            raise GroupIdNotFound(f"Share group {group_id} not found.")
        return self.find(group_id)

    def _check_room(self, group: ShareGroup) -> None:
        most = self.shard.config.group_share_max_size
        if len(group.members) >= most:
            raise GroupMaxSizeReached(f"The share group has reached its maximum capacity of {most} members.")

    def _leave(self, group_id: str, member_id: str) -> Result[Heartbeat]:
        group = self.find(group_id)
        group.member(member_id)
        log.info("[%s] [GroupId %s] Member %s left the share group.", self.shard.name, group_id,
                 member_id)  # fmt: skip
        response = ShareGroupHeartbeatResponse(member_id=member_id, member_epoch=LEAVE_EPOCH)
        return Result(Heartbeat(response), self._without(group, member_id))

    def _without(self, group: ShareGroup, member_id: str) -> list[CoordinatorRecord]:
        """The records of a group that a member has left."""
        self.context.timers.cancel_with_records(_session(group.group_id, member_id))
        names = group.topic_names(without=member_id)
        found = records.member_tombstones(group.group_id, member_id)
        found.append(records.epoch(group.group_id, group.epoch + 1, self.metadata_hash(names)))
        return found

    def _expire(self, group_id: str, member_id: str) -> Result[None]:
        group = self.shard.groups.get(group_id)
        if not isinstance(group, ShareGroup) or member_id not in group.members:
            return Result(None)
        log.info("[%s] [GroupId %s] Member %s fenced from the group because the member session "
                 "expired.", self.shard.name, group_id, member_id)  # fmt: skip
        return Result(None, self._without(group, member_id))

    def watch_session(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        self.context.timers.schedule(
            _session(group_id, member_id), timeout_ms, lambda: self._expire(group_id, member_id)
        )

    def metadata_hash(self, topics: Iterable[str]) -> int:
        return self._hashes.group_hash(topics, self.context.image)

    def describe(self, group_id: str) -> DescribedGroup:
        try:
            return self.find(group_id).describe(self.context.image)
        except GroupIdNotFound as error:
            return DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)

    # Replay

    def _persisted(self, group_id: str, value: object) -> ShareGroup | None:
        """The group that a record is about, made if need be; None for a tombstone of one that is not there."""
        group = self.shard.groups.get(group_id)
        if group is None and value is not None:
            group = self.shard.groups[group_id] = ShareGroup(group_id, self.context.undo)
        assert group is None or isinstance(group, ShareGroup), f"{group_id} is not a share group"
        return group

    def _replay_member(
        self, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue | None, producer: Producer | None
    ) -> None:
        group = self._persisted(key.group_id, value)
        if group is None:
            return
        if value is None:
            group.members.pop(key.member_id, None)
            return
        group.members[key.member_id] = replace(
            group.members.get(key.member_id) or ShareMember(key.member_id),
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
        )

    def _replay_group(
        self, key: ShareGroupMetadataKey, value: ShareGroupMetadataValue | None, producer: Producer | None
    ) -> None:
        group = self._persisted(key.group_id, value)
        if group is None:
            return
        if value is None:
            del self.shard.groups[key.group_id]
            return
        undo = self.context.undo
        undo.assign(group, "epoch", value.epoch)
        undo.assign(group, "metadata_hash", value.metadata_hash)

    def _replay_target_epoch(
        self,
        key: ShareGroupTargetAssignmentMetadataKey,
        value: ShareGroupTargetAssignmentMetadataValue | None,
        producer: Producer | None,
    ) -> None:
        group = self._persisted(key.group_id, value)
        if group is not None:
            undo = self.context.undo
            undo.assign(group, "assignment_epoch", -1 if value is None else value.assignment_epoch)
            undo.assign(group, "assignment_ms", 0 if value is None else value.assignment_timestamp)

    def _replay_target(
        self,
        key: ShareGroupTargetAssignmentMemberKey,
        value: ShareGroupTargetAssignmentMemberValue | None,
        producer: Producer | None,
    ) -> None:
        group = self._persisted(key.group_id, value)
        if group is None:
            return
        if value is None:
            group.targets.pop(key.member_id, None)
        else:
            group.targets[key.member_id] = {one.topic_id: tuple(one.partitions) for one in value.topic_partitions}

    def _replay_current(
        self,
        key: ShareGroupCurrentMemberAssignmentKey,
        value: ShareGroupCurrentMemberAssignmentValue | None,
        producer: Producer | None,
    ) -> None:
        group = self._persisted(key.group_id, value)
        if group is None:
            return
        known = group.members.get(key.member_id)
        if value is not None:
            group.members[key.member_id] = replace(
                known or ShareMember(key.member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                assigned={one.topic_id: tuple(one.partitions) for one in value.assigned_partitions},
            )
        elif known is not None:
            group.members[key.member_id] = replace(
                known, epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned=NO_PARTITIONS
            )

    def _replay_state_topics(
        self,
        key: ShareGroupStatePartitionMetadataKey,
        value: ShareGroupStatePartitionMetadataValue | None,
        producer: Producer | None,
    ) -> None:
        group = self._persisted(key.group_id, value)
        if group is None:
            return
        topics = NO_STATE
        if value is not None:
            now_ms = self.context.world.clock.now_ms()
            topics = StateTopics(
                _topics(value.initializing_topics, now_ms),
                _topics(value.initialized_topics, now_ms),
                frozenset(one.topic_id for one in value.deleting_topics),
            )
        self.context.undo.assign(group, "state_topics", topics)

    def replay_marker(self, marker: EndMarker) -> None:
        """Share groups have no transactions."""

    # What the shard tells

    def on_loaded(self) -> None:
        for group in self.all_groups():
            log.info("[%s] Loaded share group %s with %d members.", self.shard.name,
                     group.group_id, len(group.members))  # fmt: skip
            timeout_ms = self.settings(group.group_id).share_session_timeout_ms
            for member_id in group.members:
                self.watch_session(group.group_id, member_id, timeout_ms)

    def on_unloaded(self) -> None:
        """Nobody waits for an answer."""

    def on_metadata(self, delta: Delta) -> None:
        """Topics that changed are looked at with the next heartbeat; the state of deleted ones is forgotten."""
        names = {change.new.name for change in delta.changed_topics.values()}
        gone = {topic.name for topic in delta.deleted_topics.values()}
        for name in gone:
            self._hashes.forget(name)
        if not (names or gone):
            return
        for group in self.all_groups():
            if any(group.is_subscribed_to(name) for name in names | gone):
                group.request_refresh()
        deleted = set(delta.deleted_topics)
        if any(group.state_topics.has_any_of(deleted) for group in self.all_groups()):
            # As a decision of its own: a time-out that is due at once, and tried again when it cannot be written.
            self.context.timers.schedule(
                ("share-state-of-deleted-topics", self.context.image.offset),
                0,
                lambda: self.offsets.forget_topics(deleted),
            )

    def all_groups(self) -> list[ShareGroup]:
        return [group for group in self.shard.groups.values() if isinstance(group, ShareGroup)]


def _session(group_id: str, member_id: str) -> tuple[str, str, str]:
    return ("share-session", group_id, member_id)


def _topics(infos: Iterable[TopicPartitionsInfo], now_ms: int) -> dict[Uuid, StateTopic]:
    by_id = {one.topic_id: one for one in infos}
    return {
        topic_id: StateTopic(by_id[topic_id].topic_name, frozenset(by_id[topic_id].partitions), now_ms)
        for topic_id in HashOrder(uuid_hash, by_id)
    }

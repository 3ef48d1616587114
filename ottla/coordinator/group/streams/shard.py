"""`StreamsShard`: the Streams groups of one shard: heartbeats, time-outs, replay.

Called through `family` for everything that happens to the shard, and that handlers ask of it. Soft state (time-outs,
what is known of topics) may be lost with the coordinator; everything else is in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.coordinator.group.family import Replay
from ottla.coordinator.group.group import Caller, GroupType, is_too_soon
from ottla.coordinator.group.streams.group import StreamsGroup
from ottla.coordinator.group.streams.heartbeat import Answer, Heartbeat
from ottla.coordinator.group.streams.member import LEFT_EPOCH, MemberState, StreamsMember
from ottla.coordinator.group.streams.records import group_record, member_tombstones
from ottla.coordinator.group.streams.settings import SettingsTable, StreamsSettings
from ottla.coordinator.group.streams.target import compute_target
from ottla.coordinator.group.streams.tasks import Tasks, task_map
from ottla.coordinator.group.streams.topology import Topology
from ottla.coordinator.group.topic_hash import TopicHashes
from ottla.coordinator.record import CoordinatorRecord, Producer
from ottla.errors import GroupIdNotFound, GroupMaxSizeReached
from ottla.machine import Result
from ottla.metadata import Delta, Image
from ottla.wire.coordinator.streams_group import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from ottla.wire.messages.streams_group_describe import DescribedGroup
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse

if TYPE_CHECKING:
    from ottla.coordinator.group.shard import GroupShard

log = logging.getLogger(__name__)

TOMBSTONED_EPOCH = -1
"""Of a target whose record has ended."""


class StreamsShard:
    """See the module."""

    __slots__ = ("_settings", "replays", "shard", "topic_hashes")

    def __init__(self, shard: GroupShard) -> None:
        self.shard = shard
        self.topic_hashes = TopicHashes()
        self._settings = SettingsTable()
        self.replays: Mapping[int, Replay] = {
            17: self._replay_group,
            19: self._replay_member,
            20: self._replay_target_epoch,
            21: self._replay_target,
            22: self._replay_current,
            23: self._replay_topology,
        }

    @property
    def image(self) -> Image:
        return self.shard.context.image

    @property
    def now_ms(self) -> int:
        return self.shard.context.world.clock.now_ms()

    def settings(self, group_id: str) -> StreamsSettings:
        return self._settings.of(group_id, self.image, self.shard.config)

    def group(self, group_id: str) -> StreamsGroup:
        """`GroupIdNotFound` when there is none, or one of another protocol."""
        group = self.shard.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group
        raise GroupIdNotFound(
            f"Group {group_id} not found." if group is None else f"Group {group_id} is not a streams group."
        )

    # Decisions

    def heartbeat(self, request: StreamsGroupHeartbeatRequest, caller: Caller) -> Result[Answer]:
        """A member joins, stays or leaves."""
        if request.member_epoch < 0:
            return self._leave(request)
        group_id = request.group_id
        known = self.shard.groups.get(group_id)
        if request.member_epoch > 0:
            if known is None:
                raise GroupIdNotFound(f"Streams group {group_id} not found.")
            group = self.group(group_id)
            settings = self.settings(group_id)
            if self._changes_nothing(group, request, caller, settings):
                return Result(self._alive(group, request, settings))
            return Heartbeat(self, group, request, caller, is_new=False, records=[]).decide()
        records: list[CoordinatorRecord] = []
        if known is not None and known.type is GroupType.CLASSIC and known.is_empty:
            log.info("[GroupId %s] Converted the empty classic group to a streams group.", group_id)
            records += known.tombstones()
            group = StreamsGroup(group_id, self.shard.context.undo)
        elif known is None:
            # What replay makes of the records will be another object; this one is only to decide with.
            group = StreamsGroup(group_id, self.shard.context.undo)
        else:
            group = self.group(group_id)
        size_max = self.shard.config.group_streams_max_size
        if len(group.members) >= size_max:
            raise GroupMaxSizeReached(f"The streams group has reached its maximum capacity of {size_max} members.")
        return Heartbeat(self, group, request, caller, is_new=known is None, records=records).decide()

    def _changes_nothing(
        self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest, caller: Caller, settings: StreamsSettings
    ) -> bool:
        """Whether it is one of the many heartbeats that only say that a member of a settled group is alive."""
        member, configured, topology = group.members.get(request.member_id), group.configured, group.topology
        return (
            member is not None
            and configured is not None
            and topology is not None
            and request.member_epoch == member.epoch == group.assignment_epoch == group.epoch
            and request.endpoint_information_epoch == group.endpoint_epoch
            and request.active_tasks is None
            and not request.shutdown_application
            and group.shutdown_requested_by is None
            and member.state is MemberState.STABLE
            and member.topology_epoch >= topology.epoch == group.validated_topology_epoch
            and configured.is_ready
            and member.told_by(request, caller.client_id, caller.client_host) is member
            and settings.assignment_configs == group.assignment_configs
            and not group.has_stale_metadata(self.now_ms)
            and not self.is_delayed(group.group_id)
        )

    def _alive(self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest, settings: StreamsSettings) -> Answer:
        """The member's session begins anew, and it is told so."""
        self.start_session(group.group_id, request.member_id, settings)
        response = StreamsGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            status=[],
            endpoint_information_epoch=group.endpoint_epoch,
        )
        return Answer(response, {})

    def _leave(self, request: StreamsGroupHeartbeatRequest) -> Result[Answer]:
        group = self.group(request.group_id)
        member_id = request.member_id
        if request.shutdown_application:
            self.request_shutdown(group, member_id)
        member = group.member(member_id)
        log.info("[GroupId %s][MemberId %s] Member %s left the streams group.", group.group_id, member_id, member_id)
        response = StreamsGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch, status=[])
        return Result(Answer(response, {}), self._remove(group, member))

    def _remove(self, group: StreamsGroup, member: StreamsMember) -> list[CoordinatorRecord]:
        """What takes a member out of its group."""
        self.shard.context.timers.cancel_with_records(_session_key(group.group_id, member.id))
        self.end_rebalance_timeout(group.group_id, member.id)
        return [
            *member_tombstones(group.group_id, member.id),
            group_record(
                group.group_id,
                group.epoch + 1,
                metadata_hash=group.metadata_hash,
                validated_topology_epoch=group.validated_topology_epoch,
                assignment_configs=group.assignment_configs,
            ),
        ]

    def describe(self, group_id: str) -> DescribedGroup:
        """What StreamsGroupDescribe tells of one group; an error is part of the answer."""
        try:
            return self.group(group_id).described()
        except GroupIdNotFound as error:
            return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)

    def request_shutdown(self, group: StreamsGroup, member_id: str) -> None:
        """All members are told to shut down, until none is left. The first one who asked is named."""
        if group.shutdown_requested_by is None:
            log.info("[GroupId %s][MemberId %s] Shutdown requested for the streams application.", group.group_id,
                     member_id)  # fmt: skip
            group.shutdown_requested_by = member_id

    # Time

    def may_assign(self, group: StreamsGroup) -> bool:
        """Whether a new target may be computed so soon after the last one."""
        interval_ms = self.settings(group.group_id).assignment_interval_ms
        return not is_too_soon(self.now_ms, group.assignment_timestamp_ms, interval_ms)

    def is_delayed(self, group_id: str) -> bool:
        """Whether the group's first target waits for more members."""
        return _initial_key(group_id) in self.shard.context.timers

    def delay_assignment(self, group_id: str, delay_ms: int) -> None:
        self.shard.context.timers.schedule_if_absent(
            _initial_key(group_id), delay_ms, lambda: self._assign_first(group_id)
        )

    def _assign_first(self, group_id: str) -> Result[None]:
        """The wait for more members is over."""
        group = self.shard.groups.get(group_id)
        if not isinstance(group, StreamsGroup) or group.is_empty or group.epoch <= group.assignment_epoch:
            return Result(None)
        # A group that has had one heartbeat only is configured, and assigned, with the next one.
        if group.configured is None or not self.may_assign(group):
            return Result(None)
        target = compute_target(
            group,
            group.configured,
            epoch=group.epoch,
            updated=None,
            assignment_configs=group.assignment_configs,
            now_ms=self.now_ms,
        )
        log.info("[GroupId %s] Computed a new target assignment for epoch %d with 'sticky' assignor.", group_id,
                 group.epoch)  # fmt: skip
        return Result(None, target.records)

    def start_session(self, group_id: str, member_id: str, settings: StreamsSettings) -> None:
        """The member was heard; when it is not for too long, it is taken out."""
        self.shard.context.timers.schedule(
            _session_key(group_id, member_id),
            settings.session_timeout_ms,
            lambda: self._fence(group_id, member_id, None, "the member session expired"),
        )

    def start_rebalance_timeout(self, group_id: str, member: StreamsMember) -> None:
        """The member has to give up tasks; when it does not in time, it is taken out."""
        reason = f"it failed to transition from epoch {member.epoch} within {member.rebalance_timeout_ms}ms"
        self.shard.context.timers.schedule(
            _rebalance_key(group_id, member.id),
            member.rebalance_timeout_ms,
            lambda: self._fence(group_id, member.id, member.epoch, reason),
        )

    def end_rebalance_timeout(self, group_id: str, member_id: str) -> None:
        self.shard.context.timers.cancel_with_records(_rebalance_key(group_id, member_id))

    def _fence(self, group_id: str, member_id: str, epoch: int | None, reason: str) -> Result[None]:
        """Take a member out, if it is still there, and in the epoch given."""
        group = self.shard.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, StreamsGroup) else None
        if not isinstance(group, StreamsGroup) or member is None or epoch not in (None, member.epoch):
            return Result(None)
        log.info("[GroupId %s] Streams member %s fenced from the group because %s.", group_id, member_id, reason)
        return Result(None, self._remove(group, member))

    # What the shard tells

    def on_loaded(self) -> None:
        for group in self._groups():
            log.info("[GroupId %s] Loaded streams group with %d members.", group.group_id, len(group.members))
            settings = self.settings(group.group_id)
            for member in group.members.values():
                self.start_session(group.group_id, member.id, settings)
                if member.state is MemberState.UNREVOKED_TASKS:
                    self.start_rebalance_timeout(group.group_id, member)

    def on_unloaded(self) -> None:
        for group in self._groups():
            log.info("[GroupId %s] Unloaded group metadata for group epoch %d.", group.group_id, group.epoch)

    def on_metadata(self, delta: Delta) -> None:
        changed = {change.new.name for change in delta.changed_topics.values()}
        for topic in delta.deleted_topics.values():
            changed.add(topic.name)
            self.topic_hashes.forget(topic.name)
        if not changed:
            return
        for group in self._groups():
            if group.topology is not None and not changed.isdisjoint(group.topology.required_topics):
                group.refresh_metadata()

    def _groups(self) -> list[StreamsGroup]:
        return [group for group in self.shard.groups.values() if isinstance(group, StreamsGroup)]

    # Replay

    def _for_replay(self, group_id: str) -> StreamsGroup:
        """The group that a record is about, made if there is none."""
        group = self.shard.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group
        # A classic group without members is what offsets are kept in while nothing else is known of their group.
        assert group is None or (group.type is GroupType.CLASSIC and group.is_empty), (
            f"group {group_id} is not a streams group"
        )
        made = self.shard.groups[group_id] = StreamsGroup(group_id, self.shard.context.undo)
        return made

    def _known(self, group_id: str) -> StreamsGroup | None:
        group = self.shard.groups.get(group_id)
        return group if isinstance(group, StreamsGroup) else None

    def _replay_group(
        self, key: StreamsGroupMetadataKey, value: StreamsGroupMetadataValue | None, producer: Producer | None
    ) -> None:
        if value is None:
            known = self._known(key.group_id)
            if known is not None:
                assert not known.members, f"group {key.group_id} ends and has {len(known.members)} members"
                assert known.assignment_epoch == TOMBSTONED_EPOCH, f"group {key.group_id} ends before its target"
                del self.shard.groups[key.group_id]
            return
        group, assign = self._for_replay(key.group_id), self.shard.context.undo.assign
        assign(group, "epoch", value.epoch)
        assign(group, "metadata_hash", value.metadata_hash)
        assign(group, "validated_topology_epoch", value.validated_topology_epoch)
        configs = {one.key: one.value for one in value.last_assignment_configs or ()}
        assign(group, "assignment_configs", configs)

    def _replay_topology(
        self, key: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None, producer: Producer | None
    ) -> None:
        group = self._known(key.group_id) if value is None else self._for_replay(key.group_id)
        if group is not None:
            self.shard.context.undo.assign(group, "topology", None if value is None else Topology.of_record(value))

    def _replay_member(
        self,
        key: StreamsGroupMemberMetadataKey,
        value: StreamsGroupMemberMetadataValue | None,
        producer: Producer | None,
    ) -> None:
        if value is not None:
            group = self._for_replay(key.group_id)
            known = group.members.get(key.member_id) or StreamsMember(key.member_id)
            group.replay_member(known.with_metadata(value))
            return
        ending = self._known(key.group_id)
        member = None if ending is None else ending.members.get(key.member_id)
        if ending is None or member is None:
            return
        assert member.epoch == LEFT_EPOCH, f"member {member.id} ends before its assignment"
        assert member.id not in ending.target, f"member {member.id} ends before its target"
        ending.replay_removal(member.id)

    def _replay_target_epoch(
        self,
        key: StreamsGroupTargetAssignmentMetadataKey,
        value: StreamsGroupTargetAssignmentMetadataValue | None,
        producer: Producer | None,
    ) -> None:
        group = self._known(key.group_id) if value is None else self._for_replay(key.group_id)
        if group is None:
            return
        assert value is not None or not group.target, f"the target of {key.group_id} ends before its members'"
        assign = self.shard.context.undo.assign
        assign(group, "assignment_epoch", TOMBSTONED_EPOCH if value is None else value.assignment_epoch)
        assign(group, "assignment_timestamp_ms", 0 if value is None else value.assignment_timestamp)

    def _replay_target(
        self,
        key: StreamsGroupTargetAssignmentMemberKey,
        value: StreamsGroupTargetAssignmentMemberValue | None,
        producer: Producer | None,
    ) -> None:
        if value is not None:
            self._for_replay(key.group_id).target[key.member_id] = Tasks(
                task_map(value.active_tasks), task_map(value.standby_tasks), task_map(value.warmup_tasks)
            )
            return
        known = self._known(key.group_id)
        if known is not None:
            known.target.pop(key.member_id, None)

    def _replay_current(
        self,
        key: StreamsGroupCurrentMemberAssignmentKey,
        value: StreamsGroupCurrentMemberAssignmentValue | None,
        producer: Producer | None,
    ) -> None:
        if value is not None:
            group = self._for_replay(key.group_id)
            member = group.members.get(key.member_id) or StreamsMember(key.member_id)
            group.replay_member(member.with_assignment(value))
            return
        known = self._known(key.group_id)
        ending = None if known is None else known.members.get(key.member_id)
        if known is not None and ending is not None:
            known.replay_member(ending.without_assignment())


def _session_key(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "streams session", group_id, member_id


def _rebalance_key(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "streams rebalance", group_id, member_id


def _initial_key(group_id: str) -> tuple[str, str]:
    return "streams initial rebalance", group_id

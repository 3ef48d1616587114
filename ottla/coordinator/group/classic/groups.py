"""`ClassicGroups`: the family of classic groups in a shard: the APIs' way in, replay, loading.

Classic requests may also come from members of groups of another protocol that is being left or entered; the family of
those (`ClassicHost`) answers them.

Easily missed: replay makes groups while loading, and for a group that is new; the generations of a group that is here
change nothing, because what they say has been decided on the group itself (see `group`). A decision that makes a group
therefore has it ready (`_arriving`) for the replay of its first record.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from ottla.coordinator.group.classic.group import (
    DEAD,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
)
from ottla.coordinator.group.classic.join import NO_MEMBER_ID, Joins
from ottla.coordinator.group.classic.leave import Leaves
from ottla.coordinator.group.classic.rebalance import Rebalances
from ottla.coordinator.group.classic.records import creation_record, group_of
from ottla.coordinator.group.classic.sync import Syncs
from ottla.coordinator.group.family import Replay
from ottla.coordinator.group.group import Caller, Group, GroupType
from ottla.coordinator.record import EndMarker, Producer
from ottla.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from ottla.machine import Result
from ottla.metadata import Delta
from ottla.wire.coordinator.classic_group import GroupMetadataKey, GroupMetadataValue
from ottla.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.world import Promise

if TYPE_CHECKING:
    from ottla.coordinator.group.shard import GroupShard

log = logging.getLogger(__name__)

NOT_FOUND_VERSION = 6
"""From here on DescribeGroups has an error for a group that does not exist; before, such a group is dead."""
CONVERTIBLE = (GroupType.CONSUMER, GroupType.STREAMS)
"""Groups that become classic ones when they are empty and a classic member joins."""


class ClassicHost(Protocol):
    """A family of another protocol whose groups may have members that speak the classic one."""

    def classic_join(
        self, group: Group, request: JoinGroupRequest, caller: Caller, answer: Promise[JoinGroupResponse]
    ) -> Result[None]: ...

    def classic_sync(
        self, group: Group, request: SyncGroupRequest, answer: Promise[SyncGroupResponse]
    ) -> Result[None]: ...

    def classic_heartbeat(self, group: Group, request: HeartbeatRequest) -> Result[HeartbeatResponse]: ...

    def classic_leave(self, group: Group, request: LeaveGroupRequest) -> Result[LeaveGroupResponse]: ...


class ClassicGroups:
    """See the module. `hosts` is where another family says that it is a `ClassicHost`."""

    def __init__(self, shard: GroupShard) -> None:
        self.shard = shard
        self.hosts: dict[GroupType, ClassicHost] = {}
        self.rebalances = Rebalances(shard)
        self._joins = Joins(shard, self.rebalances)
        self._syncs = Syncs(shard, self.rebalances)
        self._leaves = Leaves(shard, self.rebalances)
        self._is_loaded = False
        self._arriving: dict[str, ClassicGroup] = {}
        self.replays: Mapping[int, Replay] = {2: self._replay}

    # Decisions

    def join(self, request: JoinGroupRequest, caller: Caller, answer: Promise[JoinGroupResponse]) -> Result[None]:
        """JoinGroup: see `Joins`. The group is made for a member without an id."""
        group_id = request.group_id
        group = self.shard.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return self._joins.join(group, request, caller, answer)
        if group is not None and not group.is_empty and group.type in self.hosts:
            return self.hosts[group.type].classic_join(group, request, caller, answer)
        if group is not None and not (group.is_empty and group.type in CONVERTIBLE):
            raise InconsistentGroupProtocol
        if request.member_id != NO_MEMBER_ID:
            answer.set_result(JoinGroupResponse(error_code=UnknownMemberId.code, member_id=request.member_id))
            return Result(None)
        records = []
        if group is not None:
            records = group.tombstones()
            log.info("[%s] [GroupId %s] Converted the empty %s group to a classic group", self.shard.name, group_id,
                     group.type.value)  # fmt: skip
        made = ClassicGroup(group_id, now_ms=self.shard.context.world.clock.now_ms())
        result = self._joins.join(made, request, caller, answer)
        assert not result.records, "a new group waits for more members, and writes nothing yet"
        self.adopt(made)
        return Result(None, [*records, creation_record(made)])

    def adopt(self, group: ClassicGroup) -> None:
        """The record that this decision returns next makes `group`; its replay puts it among the groups."""
        self._arriving = {group.group_id: group}

    def sync(self, request: SyncGroupRequest, answer: Promise[SyncGroupResponse]) -> Result[None]:
        """SyncGroup: see `Syncs`."""
        group = self.shard.groups.get(request.group_id)
        if group is None or group.is_empty:
            raise UnknownMemberId
        if isinstance(group, ClassicGroup):
            return self._syncs.sync(group, request, answer)
        return self._host(group).classic_sync(group, request, answer)

    def heartbeat(self, request: HeartbeatRequest) -> Result[HeartbeatResponse]:
        """The member lives; it is told when it must join again."""
        group = self.shard.groups.get(request.group_id)
        if group is None:
            raise UnknownMemberId(f"Group {request.group_id} not found.")
        if not isinstance(group, ClassicGroup):
            return self._host(group).classic_heartbeat(group, request)
        if group.state is DEAD:
            raise CoordinatorNotAvailable
        try:
            member = group.check_member(request.member_id, request.group_instance_id)
        except FencedInstanceId as error:
            self.log_fenced(group, request.member_id, request.group_instance_id, "heartbeat", error)
            raise
        if request.generation_id != group.generation:
            raise IllegalGeneration
        self.rebalances.renew_session(group, member)
        if group.state is PREPARING_REBALANCE:
            raise RebalanceInProgress
        return Result(HeartbeatResponse())

    def leave(self, request: LeaveGroupRequest) -> Result[LeaveGroupResponse]:
        """LeaveGroup: see `Leaves`."""
        group = self.shard.groups.get(request.group_id)
        if group is None:
            raise UnknownMemberId(f"Group {request.group_id} not found.")
        if isinstance(group, ClassicGroup):
            return self._leaves.leave(group, request)
        return self._host(group).classic_leave(group, request)

    def _host(self, group: Group) -> ClassicHost:
        host = self.hosts.get(group.type)
        if host is None:
            raise UnknownMemberId(f"Group {group.group_id} not found.")
        return host

    def describe(self, group_id: str, version: int) -> DescribedGroup:
        """A group as DescribeGroups tells it: a group of another protocol does not exist there."""
        group = self.shard.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            described = DescribedGroup(group_id=group_id, group_state=DEAD.value)
            if version >= NOT_FOUND_VERSION:
                described.error_code = GroupIdNotFound.code
                described.error_message = (
                    f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
                )
            return described
        name = group.protocol_name if group.state is STABLE else None
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state_name,
            protocol_type=group.protocol_type,
            protocol_data=name or "",
            members=[
                DescribedGroupMember(
                    one.member_id,
                    one.group_instance_id,
                    one.client_id,
                    one.client_host,
                    b"" if name is None else one.metadata(name),
                    one.assignment,
                )
                for one in group.members.values()
            ],
        )

    # What the other families ask

    def create_simple(self, group_id: str) -> None:
        """Part of replay: an offset was committed for a group that does not exist."""
        self.shard.groups[group_id] = ClassicGroup(group_id, now_ms=self.shard.context.world.clock.now_ms())

    def on_offset_commit(self, group: Group, member_id: str) -> None:
        """A commit keeps the member's session up like a heartbeat."""
        assert isinstance(group, ClassicGroup), f"group {group.group_id} is no classic group"
        member = group.members.get(member_id)
        if member is not None and group.state in (STABLE, PREPARING_REBALANCE):
            self.rebalances.renew_session(group, member)

    def log_fenced(
        self, group: ClassicGroup, member_id: str, instance_id: str | None, operation: str, error: KafkaError
    ) -> None:
        if isinstance(error, FencedInstanceId):
            log.info("[%s] Request memberId=%s for static member with groupInstanceId=%s is fenced by existing "
                     "memberId=%s during operation %s", self.shard.name, member_id, instance_id,
                     group.static_members.get(instance_id or ""), operation)  # fmt: skip

    # Replay

    def _replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None, producer: Producer | None) -> None:
        group_id = key.group
        group = self.shard.groups.get(group_id)
        if value is None:
            # A group that has become one of another protocol has a tombstone for what it was.
            if isinstance(group, ClassicGroup):
                del self.shard.groups[group_id]
            return
        arriving = self._arriving.pop(group_id, None)
        if arriving is not None:
            self.shard.groups[group_id] = arriving
        elif not self._is_loaded or not isinstance(group, ClassicGroup):
            self.shard.groups[group_id] = group_of(group_id, value)

    def replay_marker(self, marker: EndMarker) -> None:
        """Groups are not written in transactions."""

    def on_loaded(self) -> None:
        self._is_loaded = True
        size_max = self.shard.config.group_max_size
        for group in list(self.shard.groups.values()):
            if not isinstance(group, ClassicGroup):
                continue
            log.info("[%s] Loaded classic group %s with %d members", self.shard.name, group.group_id,
                     len(group.members))  # fmt: skip
            for member in group.members.values():
                self.rebalances.renew_session(group, member)
            if len(group.members) > size_max:
                self.rebalances.prepare(
                    group,
                    f"Freshly-loaded group {group.group_id} (size {len(group.members)}) is over capacity {size_max}. "
                    "Rebalancing in order to give a chance for consumers to commit offsets",
                )

    def on_unloaded(self) -> None:
        now_ms = self.shard.context.world.clock.now_ms()
        code = NotCoordinator.code
        for group in self.shard.groups.values():
            if not isinstance(group, ClassicGroup):
                continue
            for member in group.members.values():
                group.answer_join(member, JoinGroupResponse(error_code=code, member_id=member.member_id))
                group.answer_sync(member, SyncGroupResponse(error_code=code))
            group.enter(DEAD, now_ms)

    def on_metadata(self, delta: Delta) -> None:
        """Members see for themselves what changes in the topics they consume."""

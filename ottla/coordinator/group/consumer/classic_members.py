"""`ClassicMembers`: members of a consumer group that speak the classic protocol (JoinGroup, SyncGroup, Heartbeat).

To the coordinator they are members like the others: a JoinGroup is a heartbeat that tells everything, whose answer has
the member's epoch as the generation, and SyncGroup brings what the member owns. What others are told in their next
heartbeat, these are told by being sent to join again. No member is the leader: the coordinator assigns.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.member import Protocols, protocols_of
from ottla.coordinator.group.consumer import embedded, membership
from ottla.coordinator.group.consumer.group import CONSUMER, ConsumerGroup
from ottla.coordinator.group.consumer.member import ClassicSide, Member, MemberState
from ottla.coordinator.group.consumer.records import Records
from ottla.coordinator.group.consumer.update import MemberUpdate
from ottla.coordinator.group.group import Caller, Group
from ottla.errors import (
    NONE,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from ottla.machine import Result
from ottla.wire.data.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.world import Promise

if TYPE_CHECKING:
    from ottla.coordinator.group.consumer.groups import ConsumerGroups

log = logging.getLogger(__name__)

MEMBER_ID_REQUIRED_VERSION = 4
"""From here on a new dynamic member is given an id first, and joins with it (KIP-394)."""


class ClassicMembers:
    """See the module. It is the `ClassicHost` of consumer groups."""

    def __init__(self, groups: ConsumerGroups) -> None:
        self._groups = groups

    # JoinGroup

    def classic_join(
        self, group: Group, request: JoinGroupRequest, caller: Caller, answer: Promise[JoinGroupResponse]
    ) -> Result[None]:
        group = _consumer(group)
        groups = self._groups
        if groups.migration.is_disabled:
            raise InconsistentGroupProtocol(
                f"Cannot join the consumer group {group.group_id} with the classic protocol because the group "
                "migration is disabled."
            )
        is_unknown = not request.member_id
        member_id = request.member_id or groups.new_member_id()
        protocols = protocols_of(request.protocols)
        membership.check_room(group, member_id, groups.config.group_consumer_max_size)
        if not group.supports_classic(request.protocol_type, [name for name, _ in protocols]):
            raise InconsistentGroupProtocol(f"Member {member_id}'s protocols are not supported.")
        if is_unknown and request.group_instance_id is None and caller.version >= MEMBER_ID_REQUIRED_VERSION:
            log.info("[%s] [GroupId %s] Dynamic member with unknown member id joins the consumer group. Created a new "
                     "member id %s and requesting the member to rejoin with this id", groups.name, group.group_id,
                     member_id)  # fmt: skip
            answer.set_result(JoinGroupResponse(error_code=MemberIdRequired.code, member_id=member_id))
            return Result(None)
        made: Records = []
        before = self._member(group, member_id, request.group_instance_id, made, is_unknown=is_unknown)
        replaced = group.static_member(request.group_instance_id)
        subscription = _subscription(protocols)
        update = MemberUpdate(groups, group, before, _told(before, request, caller, subscription, protocols), made)
        update.subscribe(is_classic=True)
        owned = embedded.owned_by_id(subscription.owned_partitions, groups.image)
        downgrades = replaced is not None and groups.migration.can_downgrade_replacing(group, replaced)
        if downgrades:
            # Where the assignment is behind, the classic group rebalances anyway.
            after = update.after
            if not update.must_assign:
                after = update.reconcile(group.assignment_epoch, group.target_of(after), owned)
            groups.migration.downgrade_replacing(group, after, made, rebalances=update.must_assign)
        else:
            after = update.reconcile(*update.assign(), owned)
        response = JoinGroupResponse(
            generation_id=after.epoch,
            protocol_type=CONSUMER,
            protocol_name=protocols[0][0],
            member_id=after.member_id,
        )

        def written(error: BaseException | None) -> None:
            if error is not None:
                return  # the one who asks is told by the runtime
            groups.timeouts.cancel("join", group.group_id, after.member_id)
            if not downgrades:
                groups.leaves.begin_session(group.group_id, after.member_id, request.session_timeout_ms)
                self._await_sync(group.group_id, after)
            if not answer.done():
                answer.set_result(response)

        return Result(None, made, written)

    def _member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, made: Records, *, is_unknown: bool
    ) -> Member:
        name = self._groups.name
        if instance_id is None:
            return membership.join(name, group, member_id, protocol="classic")
        if is_unknown:
            return membership.join_static(name, group, member_id, instance_id, made, protocol="classic")
        return membership.check_static(name, group, member_id, instance_id)

    # SyncGroup

    def classic_sync(self, group: Group, request: SyncGroupRequest, answer: Promise[SyncGroupResponse]) -> Result[None]:
        group = _consumer(group)
        member, side = self._check_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        _check_protocol(side, request.protocol_type, request.protocol_name)
        if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._await_join(group.group_id, member)
            raise RebalanceInProgress(f"Member {member.member_id} should join group {group.group_id} again.")
        assignment = embedded.write_assignment(
            member.assigned, self._groups.image, embedded.read_version(side.protocols[0][1])
        )
        group_id, member_id = group.group_id, member.member_id

        def read(error: BaseException | None) -> None:
            if error is not None:
                return  # the one who asks is told by the runtime
            self._groups.timeouts.cancel("sync", group_id, member_id)
            self._groups.leaves.begin_session(group_id, member_id, side.session_timeout_ms)
            if not answer.done():
                answer.set_result(
                    SyncGroupResponse(
                        protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment
                    )
                )

        return Result(None, [], read)

    # Heartbeat

    def classic_heartbeat(self, group: Group, request: HeartbeatRequest) -> Result[HeartbeatResponse]:
        group = _consumer(group)
        member, side = self._check_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        self._groups.leaves.begin_session(group.group_id, member.member_id, side.session_timeout_ms)
        must_join = (
            member.epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.is_waiting_for_others(member))
        )
        if must_join:
            self._await_join(group.group_id, member)
        return Result(HeartbeatResponse(error_code=RebalanceInProgress.code if must_join else NONE))

    # LeaveGroup

    def classic_leave(self, group: Group, request: LeaveGroupRequest) -> Result[LeaveGroupResponse]:
        """Members of either protocol may be removed, also by a tool that knows an instance id only."""
        group = _consumer(group)
        answers: list[MemberResponse] = []
        leaving: dict[str, Member] = {}
        for one in request.members:
            answered = MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id)
            try:
                member = self._leaving(group, one)
                leaving[member.member_id] = member
            except KafkaError as error:
                answered.error_code = error.code
            answers.append(answered)
        response = LeaveGroupResponse(members=answers)
        return self._groups.leaves.remove(group, leaving.values(), response)

    def _leaving(self, group: ConsumerGroup, one: MemberIdentity) -> Member:
        name, reason = self._groups.name, one.reason or "not provided"
        if one.group_instance_id is None:
            member = group.member(one.member_id)
            log.info("[%s] [GroupId %s] Dynamic member %s has left group through explicit `LeaveGroup` request; client "
                     "reason: %s", name, group.group_id, one.member_id, reason)  # fmt: skip
            return member
        existing = group.static_member(one.group_instance_id)
        member_id = one.member_id or (existing.member_id if existing is not None else "")
        member = membership.check_static(name, group, member_id, one.group_instance_id)
        log.info("[%s] [GroupId %s] Static member %s with instance id %s has left group through explicit `LeaveGroup` "
                 "request; client reason: %s", name, group.group_id, one.member_id, one.group_instance_id,
                 reason)  # fmt: skip
        return member

    # Checks and time-outs

    def _check_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None
    ) -> tuple[Member, ClassicSide]:
        if instance_id is None:
            member = group.member(member_id)
        else:
            member = membership.check_static(self._groups.name, group, member_id, instance_id)
        if member.classic is None:
            raise UnknownMemberId(f"Member {member_id} does not use the classic protocol.")
        return member, member.classic

    def _await_join(self, group_id: str, member: Member) -> None:
        """The member is told to join again: it has its rebalance time-out to do so."""
        reason = "the classic member failed to join within the rebalance timeout"
        fence = partial(self._groups.leaves.fence, group_id, member.member_id, reason)
        self._groups.timeouts.set_if_absent("join", group_id, member.member_id, member.rebalance_timeout_ms, fence)

    def _await_sync(self, group_id: str, member: Member) -> None:
        fence = partial(
            self._groups.leaves.fence, group_id, member.member_id, "the member failed to sync within timeout"
        )
        self._groups.timeouts.set("sync", group_id, member.member_id, member.rebalance_timeout_ms, fence)


def _consumer(group: Group) -> ConsumerGroup:
    assert isinstance(group, ConsumerGroup), f"group {group.group_id} is no consumer group"
    return group


def _subscription(protocols: Protocols) -> ConsumerProtocolSubscription:
    try:
        return embedded.read_subscription(protocols[0][1])
    except embedded.Malformed as error:
        raise InconsistentGroupProtocol(f"The subscription cannot be read: {error}.") from None


def _told(
    before: Member,
    request: JoinGroupRequest,
    caller: Caller,
    subscription: ConsumerProtocolSubscription,
    protocols: Protocols,
) -> Member:
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        before,
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topic_names=frozenset(subscription.topics),
        topic_regex="",  # classic consumers match patterns on their own
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=ClassicSide(request.session_timeout_ms, protocols),
    )


def _check_generation(member: Member, generation: int) -> None:
    if member.epoch != generation:
        raise IllegalGeneration(
            f"The generation {generation} is not the epoch {member.epoch} of member {member.member_id}."
        )


def _check_protocol(side: ClassicSide, protocol_type: str | None, protocol_name: str | None) -> None:
    if protocol_type is not None and protocol_type != CONSUMER:
        raise InconsistentGroupProtocol(f"The protocol type of the group is {CONSUMER}, not {protocol_type}.")
    if protocol_name is not None and protocol_name != side.protocols[0][0]:
        raise InconsistentGroupProtocol(
            f"The member was told the protocol {side.protocols[0][0]}, not {protocol_name}."
        )

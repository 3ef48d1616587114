"""`Joins`: JoinGroup, in every state of a classic group.

A new member first asks without an id. A dynamic one is given an id and sent away, to come back with it (KIP-394): so a
client whose connection breaks leaves no member behind. A static one (KIP-345) takes its old place over at once.
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
)
from ottla.coordinator.group.classic.member import ClassicMember, protocols_of
from ottla.coordinator.group.classic.rebalance import NEW_MEMBER_TIMEOUT_MS, Rebalances
from ottla.coordinator.group.classic.records import generation_record
from ottla.coordinator.group.group import Caller
from ottla.errors import (
    CoordinatorNotAvailable,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    KafkaError,
    MemberIdRequired,
    UnknownMemberId,
    UnknownServerError,
)
from ottla.machine import Result
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.world import Promise

if TYPE_CHECKING:
    from ottla.coordinator.group.shard import GroupShard

log = logging.getLogger(__name__)

MEMBER_ID_REQUIRED_VERSION = 4
SKIP_ASSIGNMENT_VERSION = 9
NO_MEMBER_ID = ""

Answer = Promise[JoinGroupResponse]


class Joins:
    """See the module."""

    def __init__(self, shard: GroupShard, rebalances: Rebalances) -> None:
        self._shard = shard
        self._rebalances = rebalances

    def join(self, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, answer: Answer) -> Result[None]:
        """Let a member join. The answer comes when the next generation begins, or at once if there is no need."""
        if not self._has_room(group, request.member_id):
            group.remove(request.member_id)
            answer.set_result(JoinGroupResponse(error_code=GroupMaxSizeReached.code))
            return Result(None)
        try:
            if request.member_id == NO_MEMBER_ID:
                return self._join_new(group, request, caller, answer)
            return self._join_again(group, request, caller, answer)
        except KafkaError as error:
            answer.set_result(JoinGroupResponse(error_code=error.code, member_id=request.member_id))
            return Result(None)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        size_max = self._shard.config.group_max_size
        if group.state is PREPARING_REBALANCE:
            # Those who wait are counted, not the members: the limit may have been lowered, and the last ones to come
            # back are then the ones to go.
            member = group.members.get(member_id)
            return (member is not None and member.awaiting_join is not None) or group.awaiting_join_count < size_max
        if group.state in (COMPLETING_REBALANCE, STABLE):
            return member_id in group.members or len(group.members) < size_max
        return True

    # A member without an id

    def _join_new(self, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, answer: Answer) -> Result[None]:
        _check_group(group, request)
        instance_id = request.group_instance_id
        member_id = f"{caller.client_id if instance_id is None else instance_id}-{self._new_uuid()}"
        name, group_id = self._shard.name, group.group_id
        if instance_id is not None:
            old_id = group.static_members.get(instance_id)
            if old_id is None:
                log.info("[%s] Static member with groupInstanceId=%s and unknown member id joins group %s in %s state. "
                         "Created a new member id %s for this member and added to the group", name, instance_id,
                         group_id, group.state_name, member_id)  # fmt: skip
                return self._add(group, request, caller, member_id, answer)
            log.info("[%s] Static member with groupInstanceId=%s and unknown member id joins group %s in %s state. "
                     "Replacing previously mapped member %s with this groupInstanceId", name, instance_id, group_id,
                     group.state_name, old_id)  # fmt: skip
            return self._replace(group, request, caller, old_id, member_id, answer)
        if caller.version >= MEMBER_ID_REQUIRED_VERSION:
            log.info("[%s] Dynamic member with unknown member id joins group %s in %s state. Created a new member id "
                     "%s and requesting the member to rejoin with this id", name, group_id, group.state_name,
                     member_id)  # fmt: skip
            self._rebalances.await_member(group, member_id, request.session_timeout_ms)
            answer.set_result(JoinGroupResponse(error_code=MemberIdRequired.code, member_id=member_id))
            return Result(None)
        log.info("[%s] Dynamic member with unknown member id joins group %s in %s state. Created a new member id %s "
                 "and added the member to the group", name, group_id, group.state_name, member_id)  # fmt: skip
        return self._add(group, request, caller, member_id, answer)

    def _new_uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._shard.context.world.random.getrandbits(128), version=4)

    def _add(
        self, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, member_id: str, answer: Answer
    ) -> Result[None]:
        member = ClassicMember(
            member_id,
            request.group_instance_id,
            caller.client_id,
            caller.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=protocols_of(request.protocols),
        )
        member.is_new = True
        if group.state is PREPARING_REBALANCE and group.previous_state is EMPTY:
            group.has_new_member = True
        if not group.members:
            group.protocol_type = request.protocol_type
        group.add(member, answer)
        self._rebalances.schedule_session(group, member, NEW_MEMBER_TIMEOUT_MS)
        return self._rebalances.prepare_or_complete(
            group,
            f"Adding new member {member_id} with group instance id {_java(request.group_instance_id)}; "
            f"client reason: {reason_of(request.reason)}",
        )

    # A member with an id

    def _join_again(
        self, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, answer: Answer
    ) -> Result[None]:
        _check_group(group, request)
        member_id = request.member_id
        if member_id in group.pending_joins:
            if request.group_instance_id is not None:
                # No client does: a static member is not given an id to come back with.
                answer.set_result(JoinGroupResponse(error_code=UnknownServerError.code))
                return Result(None)
            log.info("[%s] Pending dynamic member with id %s joins group %s in %s state. Adding to the group now",
                     self._shard.name, member_id, group.group_id, group.state_name)  # fmt: skip
            return self._add(group, request, caller, member_id, answer)
        try:
            member = group.check_member(member_id, request.group_instance_id)
        except KafkaError as error:
            self._shard.classic.log_fenced(group, member_id, request.group_instance_id, "join-group", error)
            answer.set_result(JoinGroupResponse(error_code=error.code, member_id=member_id, protocol_name=None))
            return Result(None)
        reason = reason_of(request.reason)
        if group.state is EMPTY:
            log.warning("[%s] Attempt to add rejoining member %s of group %s in unexpected group state %s",
                        self._shard.name, member_id, group.group_id, group.state_name)  # fmt: skip
            raise UnknownMemberId
        if group.state is PREPARING_REBALANCE:
            why = f"Member {member_id} is joining group during {group.state_name}; client reason: {reason}"
            return self._update(group, member, request, answer, why)
        is_leader = member_id == group.leader_id
        if group.state is STABLE and is_leader:
            # So it can have what changed outside of the group assigned: new partitions, for one.
            why = f"Leader {member_id} re-joining group during {group.state_name}; client reason: {reason}"
            return self._update(group, member, request, answer, why)
        if protocols_of(request.protocols) != member.protocols:
            why = f"Updating metadata for member {member_id} during {group.state_name}; client reason: {reason}"
            return self._update(group, member, request, answer, why)
        # Nothing new: it may not have received the answer to its first request.
        answer.set_result(group.joined(member_id, with_members=is_leader))
        return Result(None)

    def _update(
        self, group: ClassicGroup, member: ClassicMember, request: JoinGroupRequest, answer: Answer, reason: str
    ) -> Result[None]:
        group.update(member, protocols_of(request.protocols), request.rebalance_timeout_ms, request.session_timeout_ms)
        group.set_awaiting_join(member, answer)
        return self._rebalances.prepare_or_complete(group, reason)

    # A static member that has come back

    def _replace(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        caller: Caller,
        old_id: str,
        new_id: str,
        answer: Answer,
    ) -> Result[None]:
        instance_id = request.group_instance_id
        assert instance_id is not None, "a dynamic member cannot be replaced"
        old_leader_id = group.leader_id
        old = group.members[old_id]
        before = (old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms)
        member = group.replace_static(instance_id, old_id, new_id)
        self._rebalances.renew_session(group, member)
        group.update(member, protocols_of(request.protocols), request.rebalance_timeout_ms, request.session_timeout_ms)
        group.set_awaiting_join(member, answer)
        reason = reason_of(request.reason)
        if group.state is COMPLETING_REBALANCE:
            # The leader may be assigning to the old id right now: the new one would get nothing.
            return self._rebalances.prepare(
                group,
                f"Updating metadata for static member {new_id} with instance id {instance_id}; client reason: {reason}",
            )
        if group.state is not STABLE:
            assert group.state is PREPARING_REBALANCE, f"a static member of {group.group_id}, which is {group.state}"
            return self._rebalances.complete_if_all_joined(group)
        if group.select_protocol() != group.protocol_name:
            return self._rebalances.prepare_or_complete(
                group,
                f"Group's selectedProtocol will change because static member {new_id} with instance id {instance_id} "
                f"joined with change of protocol; client reason: {reason}",
            )
        log.info("[%s] Static member which joins during Stable stage and doesn't affect the selected protocol will not "
                 "trigger a rebalance", self._shard.name)  # fmt: skip
        assignments = {one.member_id: one.assignment for one in group.members.values()}

        def stored(error: BaseException | None) -> None:
            if error is None:
                self._answer_replaced(group, member, caller, old_leader_id)
                return
            log.warning("[%s] Failed to persist metadata for group %s static member %s with group instance id %s due "
                        "to %s. Reverting to old member id %s", self._shard.name, group.group_id, new_id, instance_id,
                        error, old_id)  # fmt: skip
            group.update(member, *before)
            group.set_awaiting_join(member, None)
            self._rebalances.renew_session(group, group.replace_static(instance_id, new_id, old_id))
            if not answer.done():
                response = group.joined(NO_MEMBER_ID, with_members=False)
                response.leader = old_leader_id or ""
                response.error_code = error.code if isinstance(error, KafkaError) else UnknownServerError.code
                answer.set_result(response)

        return Result(None, [generation_record(group, assignments)], stored)

    def _answer_replaced(
        self, group: ClassicGroup, member: ClassicMember, caller: Caller, old_leader_id: str | None
    ) -> None:
        if caller.version >= SKIP_ASSIGNMENT_VERSION:
            is_leader = member.member_id == group.leader_id
            response = group.joined(member.member_id, with_members=is_leader)
            response.skip_assignment = is_leader  # it leads, but the assignment stays (KIP-814)
        else:
            # An old client that is told it leads assigns at once; under its old id it does not recognise itself.
            response = group.joined(member.member_id, with_members=False)
            response.leader = old_leader_id or ""
        group.answer_join(member, response)


def reason_of(reason: str | None) -> str:
    """Why a client says it joins or leaves (KIP-800)."""
    return reason or "not provided"


def _check_group(group: ClassicGroup, request: JoinGroupRequest) -> None:
    if group.state is DEAD:
        raise CoordinatorNotAvailable
    if not group.supports(request.protocol_type, protocols_of(request.protocols)):
        raise InconsistentGroupProtocol


def _java(text: str | None) -> str:
    return "null" if text is None else text

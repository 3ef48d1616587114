"""`Leaves`: LeaveGroup, for one member or, by an administrator, for many static ones (KIP-345)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import (
    COMPLETING_REBALANCE,
    DEAD,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
)
from ottla.coordinator.group.classic.join import NO_MEMBER_ID, reason_of
from ottla.coordinator.group.classic.rebalance import Rebalances
from ottla.errors import CoordinatorNotAvailable, KafkaError, UnknownMemberId
from ottla.machine import Result
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

if TYPE_CHECKING:
    from ottla.coordinator.group.shard import GroupShard

log = logging.getLogger(__name__)


class Leaves:
    """See the module."""

    def __init__(self, shard: GroupShard, rebalances: Rebalances) -> None:
        self._shard = shard
        self._rebalances = rebalances

    def leave(self, group: ClassicGroup, request: LeaveGroupRequest) -> Result[LeaveGroupResponse]:
        """Take the members out, and rebalance once if there were any."""
        if group.state is DEAD:
            raise CoordinatorNotAvailable
        response = LeaveGroupResponse()
        left = []
        for identity in request.members:
            code = 0
            try:
                self._leave(group, identity)
                left.append(identity.member_id)
            except KafkaError as error:
                code = error.code
            response.members.append(MemberResponse(identity.member_id, identity.group_instance_id, code))
        result: Result[None] = Result(None)
        if left and group.state in (STABLE, COMPLETING_REBALANCE):
            reason = f"explicit `LeaveGroup` request for ({', '.join(left)}) members."
            result = self._rebalances.prepare_or_complete(group, reason)
        elif left and group.state is PREPARING_REBALANCE:
            result = self._rebalances.complete_if_all_joined(group)
        return Result(response, result.records, result.then)

    def _leave(self, group: ClassicGroup, identity: MemberIdentity) -> None:
        member_id = identity.member_id
        if member_id in group.pending_joins:
            self._rebalances.end_awaiting(group, member_id)
            log.info("[%s] Pending member %s has left group %s through explicit `LeaveGroup` request; client reason: "
                     "%s", self._shard.name, member_id, group.group_id, reason_of(identity.reason))  # fmt: skip
            return
        if member_id == NO_MEMBER_ID:
            # An administrator knows static members by their instance id only.
            known = group.static_members.get(identity.group_instance_id or "")
            if identity.group_instance_id is None or known is None:
                raise UnknownMemberId
            member_id = known
        try:
            member = group.check_member(member_id, identity.group_instance_id)
        except KafkaError as error:
            self._shard.classic.log_fenced(group, member_id, identity.group_instance_id, "leave-group", error)
            raise
        log.info("[%s] Member %s has left group %s through explicit `LeaveGroup` request; client reason: %s",
                 self._shard.name, member_id, group.group_id, reason_of(identity.reason))  # fmt: skip
        self._rebalances.end_session(member)
        self._rebalances.remove(group, member)

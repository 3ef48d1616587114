"""LeaveGroup (key 13): members leave a classic group of their own will, or by an administrator's."""

from __future__ import annotations

from ottla.errors import KafkaError, UnknownMemberId
from ottla.server.context import BrokerContext
from ottla.server.group_requests import check_group_id
from ottla.server.promises import mapped
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from ottla.world import Promise

API_KEY = 13
MANY_VERSION = 3
"""From here on a request may name several members."""


def handle(context: BrokerContext, request: LeaveGroupRequest) -> Promise[LeaveGroupResponse]:
    check_group_id(request.group_id)
    if context.version < MANY_VERSION:
        request.members = [MemberIdentity(member_id=request.member_id)]
    answer: Promise[LeaveGroupResponse] = context.broker.groups.write(
        request.group_id, "LeaveGroup", lambda shard: shard.classic.leave(request)
    )
    if context.version >= MANY_VERSION:
        return answer
    return mapped(
        context.node.world.tasks,
        answer,
        lambda response: LeaveGroupResponse(error_code=response.error_code or response.members[0].error_code),
    )


def failed(request: LeaveGroupRequest, error: KafkaError, version: int) -> LeaveGroupResponse:
    if isinstance(error, UnknownMemberId) and version >= MANY_VERSION:
        # There is no such group, so there is none of these members in it.
        return LeaveGroupResponse(
            members=[MemberResponse(one.member_id, one.group_instance_id, error.code) for one in request.members]
        )
    return LeaveGroupResponse(error_code=error.code)

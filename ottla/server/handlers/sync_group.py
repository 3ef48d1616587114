"""SyncGroup (key 14): a member's assignment, which the leader's request brings."""

from __future__ import annotations

from ottla.errors import InconsistentGroupProtocol
from ottla.server.context import BrokerContext
from ottla.server.group_requests import check_group_id
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.world import Promise

API_KEY = 14
PROTOCOL_VERSION = 5
"""From here on the member must say which protocol it believes the group has."""


def handle(context: BrokerContext, request: SyncGroupRequest) -> Promise[SyncGroupResponse]:
    """The answer comes when the leader has assigned."""
    if context.version >= PROTOCOL_VERSION and (request.protocol_type is None or request.protocol_name is None):
        raise InconsistentGroupProtocol
    check_group_id(request.group_id)
    answer: Promise[SyncGroupResponse] = context.broker.groups.write_answered(
        request.group_id, "SyncGroup", lambda shard, answer: shard.classic.sync(request, answer)
    )
    return answer

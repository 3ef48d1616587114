"""JoinGroup (key 11): become a member of a classic group, or take part in its rebalance."""

from __future__ import annotations

from ottla.errors import InvalidSessionTimeout, KafkaError
from ottla.server.context import BrokerContext
from ottla.server.group_requests import caller_of, check_group_id
from ottla.server.promises import mapped
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.world import Promise

API_KEY = 11
REBALANCE_TIMEOUT_VERSION = 1
NULL_PROTOCOL_VERSION = 7
"""From here on a response without a protocol says so with a null."""


def handle(context: BrokerContext, request: JoinGroupRequest) -> JoinGroupResponse | Promise[JoinGroupResponse]:
    """The answer comes when all members have joined."""
    broker, version = context.broker, context.version
    try:
        check_group_id(request.group_id)
        config = broker.node.config
        if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
            raise InvalidSessionTimeout
    except KafkaError as error:
        return _told(JoinGroupResponse(error_code=error.code, member_id=request.member_id), version)
    if version < REBALANCE_TIMEOUT_VERSION:
        request.rebalance_timeout_ms = request.session_timeout_ms
    caller = caller_of(context)
    answer: Promise[JoinGroupResponse] = broker.groups.write_answered(
        request.group_id, "JoinGroup", lambda shard, answer: shard.classic.join(request, caller, answer)
    )
    return mapped(broker.node.world.tasks, answer, lambda response: _told(response, version))


def failed(request: JoinGroupRequest, error: KafkaError, version: int) -> JoinGroupResponse:
    return _told(JoinGroupResponse(error_code=error.code), version)


def _told(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    response.protocol_name = response.protocol_name or (None if version >= NULL_PROTOCOL_VERSION else "")
    return response

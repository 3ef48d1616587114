"""Heartbeat (key 12): a member of a classic group lives, and asks whether it must join again."""

from __future__ import annotations

from ottla.errors import NONE, CoordinatorLoadInProgress, KafkaError
from ottla.server.context import BrokerContext
from ottla.server.group_requests import check_group_id
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.world import Promise

API_KEY = 12


def handle(context: BrokerContext, request: HeartbeatRequest) -> Promise[HeartbeatResponse]:
    check_group_id(request.group_id)
    answer: Promise[HeartbeatResponse] = context.broker.groups.write(
        request.group_id, "Heartbeat", lambda shard: shard.classic.heartbeat(request)
    )
    return answer


def failed(request: HeartbeatRequest, error: KafkaError, version: int) -> HeartbeatResponse:
    # A member of a group that is being loaded is not to be upset: its session begins when that is done.
    return HeartbeatResponse(error_code=NONE if isinstance(error, CoordinatorLoadInProgress) else error.code)

"""ShareGroupHeartbeat (key 76): a member of a share group joins, stays or leaves, and is told what to read."""

from __future__ import annotations

from ottla.coordinator.group import GroupShard
from ottla.errors import InvalidRequest
from ottla.machine import Result
from ottla.server.context import BrokerContext
from ottla.server.group_requests import caller_of
from ottla.server.share import check_share_request
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ottla.world import Promise

API_KEY = 76
JOIN_EPOCH, LEAVE_EPOCH = 0, -1


def handle(context: BrokerContext, request: ShareGroupHeartbeatRequest) -> Promise[ShareGroupHeartbeatResponse]:
    check_share_request(context, request.group_id, request.member_id)
    _check(request)
    broker = context.broker
    group_id, caller = request.group_id, caller_of(context)

    def decide(shard: GroupShard) -> Result[ShareGroupHeartbeatResponse]:
        beat = shard.share.heartbeat(request, caller)
        response, wanted = beat.response
        if wanted is None:
            return Result(response, beat.records)

        def begun(error: BaseException | None) -> None:
            if error is None:
                # Not within this decision, because it leads to others; the member need not wait for it.
                broker.node.world.tasks.soon(
                    lambda: broker.share.states.initialize(group_id, wanted.state_epoch, wanted.topics)
                )

        return Result(response, beat.records, then=begun)

    return broker.groups.write(group_id, "share-group-heartbeat", decide)


def _check(request: ShareGroupHeartbeatRequest) -> None:
    if not request.group_id:
        raise InvalidRequest("GroupId can't be empty.")
    if request.rack_id == "":
        raise InvalidRequest("RackId can't be empty.")
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise InvalidRequest("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE_EPOCH:
        raise InvalidRequest("MemberEpoch is invalid.")

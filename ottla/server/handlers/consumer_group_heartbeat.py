"""ConsumerGroupHeartbeat (key 68): a member joins a consumer group, lives on in it, or leaves (KIP-848)."""

from __future__ import annotations

from ottla.coordinator.group import assignor_names, check_consumer_protocol
from ottla.errors import InvalidRequest, KafkaError, UnsupportedAssignor
from ottla.server.context import BrokerContext
from ottla.server.group_requests import caller_of
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.world import Promise

API_KEY = 68
OWN_MEMBER_ID_VERSION = 1
"""From here on members make their ids themselves (KIP-1082)."""
JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH = 0, -1, -2


def handle(context: BrokerContext, request: ConsumerGroupHeartbeatRequest) -> Promise[ConsumerGroupHeartbeatResponse]:
    check_consumer_protocol(context.node.image, context.node.config)
    _check(context, request)
    caller = caller_of(context)
    answer: Promise[ConsumerGroupHeartbeatResponse] = context.broker.groups.write(
        request.group_id, "ConsumerGroupHeartbeat", lambda shard: shard.consumer.heartbeat(request, caller)
    )
    return answer


def failed(request: ConsumerGroupHeartbeatRequest, error: KafkaError, version: int) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


def _check(context: BrokerContext, request: ConsumerGroupHeartbeatRequest) -> None:
    """What is wrong whatever the group is like."""
    epoch = request.member_epoch
    if context.version >= OWN_MEMBER_ID_VERSION or epoch > 0 or epoch == LEAVE_EPOCH:
        _check_text(request.member_id, "MemberId")
    _check_text(request.group_id, "GroupId")
    _check_text(request.instance_id, "InstanceId")
    _check_text(request.rack_id, "RackId")
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise InvalidRequest("InstanceId can't be null.")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise InvalidRequest("MemberEpoch is invalid.")
    if request.server_assignor is not None:
        known = assignor_names(context.node.config)
        if request.server_assignor not in known:
            raise UnsupportedAssignor(
                f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(known)}."
            )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    """Who joins tells everything, and owns nothing."""
    if request.rebalance_timeout_ms == -1:
        raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise InvalidRequest("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _check_text(value: str | None, name: str) -> None:
    if value is not None and not value.strip():
        raise InvalidRequest(f"{name} can't be empty.")

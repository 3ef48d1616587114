"""ShareAcknowledge (key 79): what a member of a share group says about the records that it has acquired."""

from __future__ import annotations

from ottla.errors import FencedLeaderEpoch, KafkaError, NotLeaderOrFollower
from ottla.replica import current_leader
from ottla.replica.share import Index
from ottla.server.context import BrokerContext
from ottla.server.promises import mapped
from ottla.server.share import FINAL_EPOCH, acknowledge, check_share_request
from ottla.types import Uuid
from ottla.wire.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from ottla.world import Promise

API_KEY = 79


def handle(context: BrokerContext, request: ShareAcknowledgeRequest) -> Promise[ShareAcknowledgeResponse]:
    group_id, member_id = check_share_request(context, request.group_id, request.member_id)
    share = context.broker.share
    key = (group_id, member_id)
    share.sessions.acknowledge(key, request.share_session_epoch)
    said = [
        (topic.topic_id, one.partition_index, one.acknowledgement_batches)
        for topic in request.topics
        for one in topic.partitions
    ]

    def answer(outcomes: dict[Index, KafkaError | None]) -> ShareAcknowledgeResponse:
        if request.share_session_epoch == FINAL_EPOCH:
            share.sessions.release(key)
        response = ShareAcknowledgeResponse(acquisition_lock_timeout_ms=share.partitions.limits(group_id).lock_ms)
        topics: dict[Uuid, ShareAcknowledgeTopicResponse] = {}
        for (topic_id, index), error in outcomes.items():
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = ShareAcknowledgeTopicResponse(topic_id, [])
                response.responses.append(topic)
            topic.partitions.append(_data(context, topic_id, index, error, response))
        return response

    acknowledged = acknowledge(context, group_id, member_id, said, is_renewal=request.is_renew_ack)
    return mapped(context.node.world.tasks, acknowledged, answer)


def _data(
    context: BrokerContext, topic_id: Uuid, index: int, error: KafkaError | None, response: ShareAcknowledgeResponse
) -> PartitionData:
    data = PartitionData(partition_index=index)
    if error is None:
        return data
    data.error_code, data.error_message = error.code, error.message
    topic = context.node.image.topics.by_id.get(topic_id)
    if topic is not None and isinstance(error, NotLeaderOrFollower | FencedLeaderEpoch):
        leader = current_leader(context.broker.replicas, topic.name, index, context.listener_name)
        data.current_leader = LeaderIdAndEpoch(leader.id, leader.epoch)
        if leader.broker is not None and leader.endpoint is not None:
            node = NodeEndpoint(leader.id, leader.endpoint.host, leader.endpoint.port, leader.broker.rack)
            if all(known.node_id != node.node_id for known in response.node_endpoints):
                response.node_endpoints.append(node)
    return data

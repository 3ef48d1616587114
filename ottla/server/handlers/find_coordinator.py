"""FindCoordinator (key 10): which broker leads the partition that a group, transaction or share partition belongs to.

The partition is chosen by Java's hash of the key, so that every broker of a cluster, ours or Kafka's, says the same.
"""

from __future__ import annotations

from ottla.coordinator import coordinator_partition
from ottla.errors import NONE, CoordinatorNotAvailable, InvalidRequest, KafkaError
from ottla.metadata import Image
from ottla.server.context import BrokerContext
from ottla.server.endpoints import NO_NODE
from ottla.server.topic_creation import GROUP_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from ottla.types import Uuid
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

API_KEY = 10
MANY_VERSION = 4
"""From here on a request may name several keys."""
SHARE_VERSION = 6

GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPICS = {GROUP: GROUP_TOPIC, TRANSACTION: TRANSACTION_TOPIC, SHARE: SHARE_TOPIC}


def handle(context: BrokerContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """The coordinator of each key, with an error of its own for each where there is none."""
    if request.key_type not in TOPICS:
        raise InvalidRequest(f"Unknown coordinator type received: {request.key_type}")
    if context.version < MANY_VERSION:
        found = _coordinator(context, request.key_type, request.key)
        return FindCoordinatorResponse(
            error_code=NONE, error_message=None, node_id=found.node_id, host=found.host, port=found.port
        )
    coordinators = []
    for key in request.coordinator_keys:
        try:
            coordinators.append(_coordinator(context, request.key_type, key))
        except KafkaError as error:
            coordinators.append(Coordinator(key=key, node_id=NO_NODE, port=-1, error_code=error.code))
    return FindCoordinatorResponse(coordinators=coordinators)


def failed(request: FindCoordinatorRequest, error: KafkaError, version: int) -> FindCoordinatorResponse:
    """The error, for each key where there may be several."""
    if version < MANY_VERSION:
        return FindCoordinatorResponse(
            error_code=error.code, error_message=error.message, node_id=NO_NODE, host="", port=-1
        )
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=NO_NODE, port=-1, error_code=error.code, error_message=error.message)
            for key in request.coordinator_keys
        ]
    )


def _coordinator(context: BrokerContext, key_type: int, key: str) -> Coordinator:
    if key_type == SHARE:
        if context.version < SHARE_VERSION:
            raise InvalidRequest("Share coordinators are found from version 6 on")
        _check_share_key(key)
    image: Image = context.node.image
    topic = image.topics.by_name.get(TOPICS[key_type])
    if topic is None:
        context.broker.topic_creation.create([TOPICS[key_type]])
        raise CoordinatorNotAvailable
    partition = topic.partitions.get(coordinator_partition(key, len(topic.partitions)))
    leader = image.brokers.get(partition.leader) if partition is not None else None
    endpoint = leader.endpoints.get(context.listener_name) if leader is not None and not leader.is_fenced else None
    if leader is None or endpoint is None:
        raise CoordinatorNotAvailable
    return Coordinator(key=key, node_id=leader.id, host=endpoint.host, port=endpoint.port)


def _check_share_key(key: str) -> None:
    """`group:topicId:partition`."""
    group, _, rest = key.partition(":")
    topic_id, _, partition = rest.partition(":")
    try:
        Uuid.parse(topic_id)
        if not group or int(partition) < 0:
            raise ValueError(key)
    except ValueError:
        raise InvalidRequest(f"{key!r} is not a group, a topic id and a partition with colons between them") from None

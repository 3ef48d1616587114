"""Metadata (key 3): the brokers, and topics with their partitions and leaders, as one listener's clients see them.

A client that has lost its leader asks another broker within milliseconds, and believes what it is told: librdkafka
looks again only after a second or two. So a broker on which the same leader has hung up as well does not answer with it
at once: for half a second it waits for the metadata to name another. Nothing else makes a client wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from ottla.errors import (
    NONE,
    InvalidRequest,
    InvalidTopicException,
    KafkaError,
    LeaderNotAvailable,
    ListenerNotFound,
    ReplicaNotAvailable,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.metadata import INTERNAL_TOPICS, Image, TopicImage, check_topic_name
from ottla.server.context import BrokerContext
from ottla.server.endpoints import NO_NODE, Reach, controller_id, nodes
from ottla.server.operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from ottla.types import ZERO_UUID
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

API_KEY = 3
LOOK_MS = 5
"""How often the metadata is looked at while a leader is lost."""
IDS_VERSION = 12
"""From here on a client may ask by topic id; versions 10 and 11 have the field and refuse it."""


def handle(context: BrokerContext, request: MetadataRequest) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Everything from one image. Topics that do not exist yet may be created, and are then unknown a last time."""
    response = _answer(context, request)
    lost = _lost_leaders(context, response)
    return _settled(context, request, lost) if lost else response


async def _settled(context: BrokerContext, request: MetadataRequest, lost: set[int]) -> MetadataResponse:
    """The answer when the metadata names no leader any more that has just hung up, or that has had its time."""
    request.allow_auto_topic_creation = False  # that is on its way
    image = context.node.image
    while True:
        await context.node.world.tasks.sleep_ms(LOOK_MS)
        if context.node.image is image and _is_any_settling(context, lost) and not context.connection.is_closed:
            continue
        image = context.node.image
        response = _answer(context, request)
        lost = _lost_leaders(context, response)
        if not lost or context.connection.is_closed:
            return response


def _lost_leaders(context: BrokerContext, response: MetadataResponse) -> set[int]:
    """The leaders in the response that have just hung up on this broker."""
    fetchers = context.broker.replicas.fetchers
    if fetchers is None or not fetchers.lost_ms:
        return set()
    leaders = {partition.leader_id for topic in response.topics for partition in topic.partitions}
    return {leader_id for leader_id in leaders if fetchers.is_settling(leader_id)}


def _is_any_settling(context: BrokerContext, leader_ids: set[int]) -> bool:
    fetchers = context.broker.replicas.fetchers
    return fetchers is not None and any(fetchers.is_settling(leader_id) for leader_id in leader_ids)


def _answer(context: BrokerContext, request: MetadataRequest) -> MetadataResponse:
    version = context.version
    image: Image = context.node.image
    topics = _topics(context, image, request)
    if version >= 8 and request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code != UnknownTopicId.code:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(broker.id, endpoint.host, endpoint.port, broker.rack)
            for broker, endpoint in nodes(image, context.listener_name)
        ],
        cluster_id=context.node.cluster_id,
        controller_id=controller_id(context, image),
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def failed(request: MetadataRequest, error: KafkaError, version: int) -> MetadataResponse:
    """Every topic with the error."""
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(error_code=error.code, name=topic.name or "", topic_id=topic.topic_id)
            for topic in request.topics or ()
        ],
        error_code=error.code,
    )


def _topics(context: BrokerContext, image: Image, request: MetadataRequest) -> list[MetadataResponseTopic]:
    describe = _Describe(image, context.listener_name, context.version)
    asked = request.topics
    if asked is None or (not asked and context.version == 0):
        return [describe.topic(topic) for topic in image.topics.by_name.values()]
    for topic in asked:
        if context.version < IDS_VERSION:
            if topic.name is None:
                raise InvalidRequest(f"Topic name can not be null for version {context.version}")
            if topic.topic_id != ZERO_UUID:
                raise InvalidRequest(f"Topic IDs are not supported in requests for version {context.version}")
        elif topic.name is None and topic.topic_id == ZERO_UUID:
            raise InvalidRequest("A topic has neither a name nor an id")
    ids = dict.fromkeys(topic.topic_id for topic in asked if topic.topic_id != ZERO_UUID)
    if ids:
        # A request that names ids is about ids only.
        return [
            describe.topic(image.topics.by_id[topic_id])
            if topic_id in image.topics.by_id
            else MetadataResponseTopic(error_code=UnknownTopicId.code, name=None, topic_id=topic_id)
            for topic_id in ids
        ]
    names = dict.fromkeys(topic.name for topic in asked if topic.name is not None)
    found = [describe.topic(image.topics.by_name[name]) for name in names if name in image.topics.by_name]
    missing = [name for name in names if name not in image.topics.by_name]
    return found + _missing(context, missing, may_create=request.allow_auto_topic_creation) if missing else found


def _missing(context: BrokerContext, names: Iterable[str], *, may_create: bool) -> list[MetadataResponseTopic]:
    """Topics that do not exist: named as unknown or invalid, and created for the next time where that is allowed."""
    topics, creatable = [], []
    for name in names:
        try:
            check_topic_name(name)
        except InvalidTopicException as error:
            code = error.code
        else:
            code = UnknownTopicOrPartition.code
            creatable.append(name)
        topics.append(MetadataResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS))
    if may_create and context.node.config.auto_create_topics_enable:
        context.broker.topic_creation.create(creatable)
    return topics


class _Describe:
    """Topics of one image for one listener and version."""

    def __init__(self, image: Image, listener: str, version: int) -> None:
        self.image = image
        self.reach = Reach(image, listener)
        # A broker that is known but lacks the listener has a word of its own since version 6.
        self.no_listener = ListenerNotFound.code if version >= 6 else LeaderNotAvailable.code
        # Version 0 hides replicas that cannot be reached, and says so in the error.
        self.hides_unreachable = version == 0

    def topic(self, topic: TopicImage) -> MetadataResponseTopic:
        return MetadataResponseTopic(NONE, topic.name, topic.id, topic.name in INTERNAL_TOPICS, self._partitions(topic))

    def _partitions(self, topic: TopicImage) -> list[MetadataResponsePartition]:
        reach = self.reach
        alive, listening = reach.alive, reach.listening
        result = []
        for index, partition in topic.partitions.items():
            replicas, isr = list(partition.replicas), list(partition.isr)
            if self.hides_unreachable:
                replicas = [replica for replica in replicas if replica in alive]
                isr = [replica for replica in isr if replica in alive]
            leader, error = partition.leader, NONE
            if leader not in listening:
                error = self.no_listener if leader in self.image.brokers else LeaderNotAvailable.code
                leader = NO_NODE
            elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
                error = ReplicaNotAvailable.code
            result.append(
                MetadataResponsePartition(
                    error,
                    index,
                    leader,
                    partition.leader_epoch,
                    replicas,
                    isr,
                    reach.offline(partition),
                )
            )
        return result

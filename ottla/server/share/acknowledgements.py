"""What ShareFetch and ShareAcknowledge have in common: the member's acknowledgements, checked and carried out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ottla.errors import InvalidRequest, KafkaError, UnknownTopicId, UnknownTopicOrPartition, UnsupportedVersion
from ottla.replica.share import Acknowledgement, AcknowledgeType, Index
from ottla.server.context import BrokerContext
from ottla.server.promises import gathered, mapped, recovered
from ottla.types import Uuid
from ottla.world import Promise

MEMBER_ID_SIZE_MAX = 36
"""A UUID as people read it."""
RENEW_VERSION = 2
SHARE_VERSION = "share.version"


class AcknowledgedBatch(Protocol):
    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def check_share_request(context: BrokerContext, group_id: str | None, member_id: str | None) -> tuple[str, str]:
    """Group and member of a request that can be carried out."""
    check_enabled(context)
    if group_id is None:
        raise InvalidRequest("Invalid group id in the request.")
    if not member_id or len(member_id) > MEMBER_ID_SIZE_MAX:
        raise InvalidRequest("Invalid member id in the request.")
    return group_id, member_id


def check_enabled(context: BrokerContext) -> None:
    """Refuse where the cluster runs without share groups (`share.version` 0)."""
    if context.node.image.features.get(SHARE_VERSION, 0) < 1:
        raise UnsupportedVersion


def acknowledge(
    context: BrokerContext,
    group_id: str,
    member_id: str,
    said: Sequence[tuple[Uuid, int, Sequence[AcknowledgedBatch]]],
    *,
    is_renewal: bool,
) -> Promise[dict[Index, KafkaError | None]]:
    """Carry out what a member says; how each partition took it."""
    tasks = context.node.world.tasks
    indexes: list[Index] = []
    answers: list[Promise[KafkaError | None]] = []
    for topic_id, partition, batches in said:
        index = (topic_id, partition)
        indexes.append(index)
        answers.append(_acknowledge(context, group_id, member_id, index, batches, is_renewal=is_renewal))
    return mapped(tasks, gathered(tasks, answers), lambda errors: dict(zip(indexes, errors, strict=True)))


def _acknowledge(
    context: BrokerContext,
    group_id: str,
    member_id: str,
    index: Index,
    batches: Sequence[AcknowledgedBatch],
    *,
    is_renewal: bool,
) -> Promise[KafkaError | None]:
    tasks = context.node.world.tasks
    shares = context.broker.share.partitions

    def begin() -> Promise[KafkaError | None]:
        topic_id, partition = index
        topic = context.node.image.topics.by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicId
        said = _checked(batches, has_renewal=context.version >= RENEW_VERSION, is_renewal=is_renewal)
        if partition not in topic.partitions:
            raise UnknownTopicOrPartition
        return mapped(tasks, shares.acknowledge(group_id, member_id, topic_id, partition, said), lambda _: None)

    return recovered(tasks, begin, lambda error: error)


def _checked(batches: Sequence[AcknowledgedBatch], *, has_renewal: bool, is_renewal: bool) -> list[Acknowledgement]:
    """The acknowledgements, in order and without overlaps; `InvalidRequest` when they are not."""
    type_max = AcknowledgeType.RENEW if has_renewal else AcknowledgeType.REJECT
    before = -1
    said: list[Acknowledgement] = []
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        is_valid = (
            before <= first <= last
            and len(types) in (1, last - first + 1)
            and all(0 <= one <= type_max for one in types)
            and (is_renewal or AcknowledgeType.RENEW not in types)
        )
        if not is_valid:
            raise InvalidRequest
        said.append(Acknowledgement(first, last, types))
        before = last
    return said

"""Subscriptions and assignments as bytes: the consumer protocol that members of classic groups speak to each other.

Promises: what is written is what Kafka's clients write, in the highest version; what any version of theirs wrote is
read, a newer one as far as it is known. Bytes that are neither raise `DecodeError`. Called by the membership.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.client.group.assignors.assignor import Assignment, Subscription
from ottla.types import Buffer, TopicPartition
from ottla.wire import read_versioned, write_versioned
from ottla.wire.data.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)

VERSION = 3


def encode_subscription(subscription: Subscription, version: int = VERSION) -> bytes:
    """The subscription with its version in front; topics and partitions are sorted."""
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            ConsumerProtocolSubscriptionTopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(sorted(subscription.owned_partitions)).items()
        ],
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    )
    return write_versioned(message, version)


def decode_subscription(data: Buffer, group_instance_id: str | None = None) -> Subscription:
    """The subscription; the member's instance id is not in it, and comes from the coordinator."""
    message, _ = read_versioned(ConsumerProtocolSubscription, data, newer=True)
    return Subscription(
        topics=list(message.topics),
        user_data=_bytes(message.user_data),
        owned_partitions=[
            TopicPartition(one.topic, partition) for one in message.owned_partitions for partition in one.partitions
        ],
        generation_id=max(message.generation_id, -1),
        rack_id=message.rack_id or None,
        group_instance_id=group_instance_id,
    )


def encode_assignment(assignment: Assignment, version: int = VERSION) -> bytes:
    """The assignment with its version in front; partitions stay in their order, those of a topic together."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(assignment.partitions).items()
        ],
        user_data=assignment.user_data,
    )
    return write_versioned(message, version)


def decode_assignment(data: Buffer) -> Assignment:
    """The assignment. Empty bytes, which a member is sent that got nothing at all, are an empty one."""
    if not data:
        return Assignment([])
    message, _ = read_versioned(ConsumerProtocolAssignment, data, newer=True)
    partitions = [
        TopicPartition(one.topic, partition) for one in message.assigned_partitions for partition in one.partitions
    ]
    return Assignment(partitions, _bytes(message.user_data))


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partitions' indexes for each topic, both in the order given."""
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found


def _bytes(data: Buffer | None) -> bytes | None:
    return None if data is None else bytes(data)

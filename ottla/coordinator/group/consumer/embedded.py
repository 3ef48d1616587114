"""What classic consumers tell each other inside JoinGroup and SyncGroup, read and written by the coordinator.

It does so for members of both protocols in one group, whose assignments it makes. Both messages begin with a version.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from ottla.coordinator.group.consumer.reconciliation import Owned
from ottla.metadata import Image
from ottla.types import Buffer, Uuid
from ottla.wire import DecodeError, Message, decode_prefix, encode
from ottla.wire.data.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from ottla.wire.messages.consumer_group_heartbeat import TopicPartitions

M = TypeVar("M", bound=Message)

_VERSION = struct.Struct(">h")
VERSION_MAX = 3


class Malformed(ValueError):
    """It is not what a consumer writes."""


def read_subscription(data: Buffer) -> ConsumerProtocolSubscription:
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: Buffer, image: Image) -> tuple[dict[Uuid, tuple[int, ...]], bool]:
    """The partitions by topic id, of topics that exist; and whether an assignor has put in data of its own."""
    read = _read(ConsumerProtocolAssignment, data)
    by_name = image.topics.by_name
    partitions = {
        by_name[one.topic].id: tuple(one.partitions) for one in read.assigned_partitions if one.topic in by_name
    }
    return partitions, bool(read.user_data)


def write_assignment(partitions: Mapping[Uuid, Collection[int]], image: Image, version: int) -> bytes:
    by_id = image.topics.by_id
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(by_id[topic_id].name, list(indexes))
            for topic_id, indexes in partitions.items()
            if topic_id in by_id
        ]
    )
    version = min(version, VERSION_MAX)
    return _VERSION.pack(version) + encode(assignment, version)


def read_version(data: Buffer) -> int:
    if len(data) < _VERSION.size:
        raise Malformed("it is too short to have a version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise Malformed(f"there is no version {version}")
    return version


def owned_by_id(owned: Iterable[ConsumerProtocolSubscriptionTopicPartition], image: Image) -> list[Owned]:
    """What a member says it owns, in the words of the consumer protocol."""
    by_name = image.topics.by_name
    return [TopicPartitions(by_name[one.topic].id, one.partitions) for one in owned if one.topic in by_name]


def _read(cls: type[M], data: Buffer) -> M:
    """A newer version begins as the newest one known does."""
    version = min(read_version(data), VERSION_MAX)
    try:
        return decode_prefix(cls, version, data, _VERSION.size)[0]
    except DecodeError as error:
        raise Malformed(str(error)) from error

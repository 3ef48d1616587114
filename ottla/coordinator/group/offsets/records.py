"""The records of committed offsets: which version is written, and what an old one means."""

from __future__ import annotations

from ottla.coordinator.record import CoordinatorRecord
from ottla.types import Uuid
from ottla.wire.coordinator.offsets import LegacyOffsetCommitValue, OffsetCommitKey, OffsetCommitValue

OFFSET_COMMIT_VERSION = 4
WITH_EXPIRY_VERSION = 1
"""The only version of a value that can hold a time of its own to expire at."""
NONE = -1
"""No leader epoch, no time of its own to expire at."""


def value_version(expire_timestamp: int) -> int:
    """The version that a value is written in, by its time to expire at."""
    return OFFSET_COMMIT_VERSION if expire_timestamp == NONE else WITH_EXPIRY_VERSION


def offset_record(group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> CoordinatorRecord:
    key = OffsetCommitKey(group_id, topic, partition)
    return CoordinatorRecord(key, value, value_version(value.expire_timestamp))


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group_id, topic, partition))


def offset_value(
    offset: int, leader_epoch: int, metadata: str | None, now_ms: int, expire_ms: int, topic_id: Uuid
) -> OffsetCommitValue:
    return OffsetCommitValue(offset, leader_epoch, metadata or "", now_ms, expire_ms, topic_id)


def modern(value: LegacyOffsetCommitValue) -> OffsetCommitValue:
    """A value of the first form ever written, as one of today's."""
    return OffsetCommitValue(offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp)

"""Records of `__consumer_offsets` about committed offsets."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int32, Int64, Message, field


class OffsetCommitKey(Message, api_key=1, versions="0"):
    """Whose offset it is: group, topic and partition."""

    group: str = field("0")
    topic: str = field("0")
    partition: Int32 = field("0")


class OffsetCommitValue(Message, api_key=1, versions="0-4", flexible="4+"):
    """A committed offset."""

    offset: Int64 = field()
    leader_epoch: Int32 = field("3+", default=-1, ignorable=True)
    metadata: str = field()
    commit_timestamp: Int64 = field()
    expire_timestamp: Int64 = field(
        "1", default=-1, ignorable=True, doc="Only of old clients that set a retention time."
    )
    topic_id: Uuid = field("4+", tag=0, ignorable=True)


class LegacyOffsetCommitKey(Message, api_key=0, versions="0"):
    """Whose offset it is, in the first form that was ever written."""

    group: str = field("0")
    topic: str = field("0")
    partition: Int32 = field("0")


class LegacyOffsetCommitValue(Message, api_key=0, versions="0"):
    """A committed offset, in the first form that was ever written."""

    offset: Int64 = field("0")
    metadata: str = field("0")
    commit_timestamp: Int64 = field("0")

"""DeleteShareGroupState (key 86): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int16, Int32, Message, Struct, field


class DeleteShareGroupStateRequest(Message, api_key=86, versions="0", flexible="0+"):
    """Delete the persistent state of share partitions."""

    group_id: str = field()
    topics: list[DeleteStateData] = field()


class DeleteStateData(Struct):
    topic_id: Uuid = field()
    partitions: list[PartitionData] = field()


class PartitionData(Struct):
    partition: Int32 = field()


class DeleteShareGroupStateResponse(Message, api_key=86, versions="0", flexible="0+"):
    """Whether each partition's state was deleted."""

    results: list[DeleteStateResult] = field()


class DeleteStateResult(Struct):
    topic_id: Uuid = field()
    partitions: list[PartitionResult] = field()


class PartitionResult(Struct):
    partition: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)

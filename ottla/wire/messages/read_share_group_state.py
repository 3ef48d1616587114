"""ReadShareGroupState (key 84): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int8, Int16, Int32, Int64, Message, Struct, field


class ReadShareGroupStateRequest(Message, api_key=84, versions="0", flexible="0+"):
    """Read the persistent state of share partitions."""

    group_id: str = field()
    topics: list[ReadStateData] = field()


class ReadStateData(Struct):
    topic_id: Uuid = field()
    partitions: list[PartitionData] = field()


class PartitionData(Struct):
    partition: Int32 = field()
    leader_epoch: Int32 = field()


class ReadShareGroupStateResponse(Message, api_key=84, versions="0", flexible="0+"):
    """The start offset and the in-flight batches of each share partition."""

    results: list[ReadStateResult] = field()


class ReadStateResult(Struct):
    topic_id: Uuid = field()
    partitions: list[PartitionResult] = field()


class PartitionResult(Struct):
    partition: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)
    state_epoch: Int32 = field()
    start_offset: Int64 = field()
    state_batches: list[StateBatch] = field()


class StateBatch(Struct):
    first_offset: Int64 = field()
    last_offset: Int64 = field()
    delivery_state: Int8 = field(doc="0 available, 2 acknowledged, 4 archived.")
    delivery_count: Int16 = field()

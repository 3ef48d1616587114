"""WriteShareGroupState (key 85): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int8, Int16, Int32, Int64, Message, Struct, field


class WriteShareGroupStateRequest(Message, api_key=85, versions="0-1", flexible="0+"):
    """Store the state of share partitions."""

    group_id: str = field()
    topics: list[WriteStateData] = field()


class WriteStateData(Struct):
    topic_id: Uuid = field()
    partitions: list[PartitionData] = field()


class PartitionData(Struct):
    partition: Int32 = field()
    state_epoch: Int32 = field()
    leader_epoch: Int32 = field()
    start_offset: Int64 = field()
    delivery_complete_count: Int32 = field("1+", default=-1, ignorable=True)
    state_batches: list[StateBatch] = field()


class StateBatch(Struct):
    first_offset: Int64 = field()
    last_offset: Int64 = field()
    delivery_state: Int8 = field(doc="0 available, 2 acknowledged, 4 archived.")
    delivery_count: Int16 = field()


class WriteShareGroupStateResponse(Message, api_key=85, versions="0-1", flexible="0+"):
    """Whether each partition's state was stored."""

    results: list[WriteStateResult] = field()


class WriteStateResult(Struct):
    topic_id: Uuid = field()
    partitions: list[PartitionResult] = field()


class PartitionResult(Struct):
    partition: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)

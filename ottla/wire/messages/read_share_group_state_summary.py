"""ReadShareGroupStateSummary (key 87): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int16, Int32, Int64, Message, Struct, field


class ReadShareGroupStateSummaryRequest(Message, api_key=87, versions="0-1", flexible="0+"):
    """Read only the offsets of share partitions' state."""

    group_id: str = field()
    topics: list[ReadStateSummaryData] = field()


class ReadStateSummaryData(Struct):
    topic_id: Uuid = field()
    partitions: list[PartitionData] = field()


class PartitionData(Struct):
    partition: Int32 = field()
    leader_epoch: Int32 = field()


class ReadShareGroupStateSummaryResponse(Message, api_key=87, versions="0-1", flexible="0+"):
    """The epochs and start offset of each share partition."""

    results: list[ReadStateSummaryResult] = field()


class ReadStateSummaryResult(Struct):
    topic_id: Uuid = field()
    partitions: list[PartitionResult] = field()


class PartitionResult(Struct):
    partition: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)
    state_epoch: Int32 = field()
    leader_epoch: Int32 = field()
    start_offset: Int64 = field()
    delivery_complete_count: Int32 = field("1+", default=-1, ignorable=True)

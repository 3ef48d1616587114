"""InitializeShareGroupState (key 83): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int16, Int32, Int64, Message, Struct, field


class InitializeShareGroupStateRequest(Message, api_key=83, versions="0", flexible="0+"):
    """Create the persistent state of share partitions."""

    group_id: str = field()
    topics: list[InitializeStateData] = field()


class InitializeStateData(Struct):
    topic_id: Uuid = field()
    partitions: list[PartitionData] = field()


class PartitionData(Struct):
    partition: Int32 = field()
    state_epoch: Int32 = field()
    start_offset: Int64 = field()


class InitializeShareGroupStateResponse(Message, api_key=83, versions="0", flexible="0+"):
    """Whether each partition's state was created."""

    results: list[InitializeStateResult] = field()


class InitializeStateResult(Struct):
    topic_id: Uuid = field()
    partitions: list[PartitionResult] = field()


class PartitionResult(Struct):
    partition: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)

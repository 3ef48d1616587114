"""DescribeShareGroupOffsets (key 90): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int16, Int32, Int64, Message, Struct, field


class DescribeShareGroupOffsetsRequest(Message, api_key=90, versions="0-1", flexible="0+"):
    """Ask for the start offsets of share groups."""

    groups: list[DescribeShareGroupOffsetsRequestGroup] = field()


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: str = field(entity="groupId")
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field()


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field(entity="topicName")
    partitions: list[Int32] = field()


class DescribeShareGroupOffsetsResponse(Message, api_key=90, versions="0-1", flexible="0+"):
    """The start offset and lag of each share partition."""

    throttle_time_ms: Int32 = field()
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field()


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str = field(entity="groupId")
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field(entity="topicName")
    topic_id: Uuid = field()
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field()


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32 = field()
    start_offset: Int64 = field()
    leader_epoch: Int32 = field()
    lag: Int64 = field("1+", default=-1, ignorable=True)
    error_code: Int16 = field()
    error_message: str | None = field(default=None)

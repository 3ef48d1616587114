"""ListOffsets (key 2): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int8, Int16, Int32, Int64, Message, Struct, field


class ListOffsetsRequest(Message, api_key=2, versions="1-11", flexible="6+"):
    """Ask for the offset of a timestamp, or for the ends of a log."""

    replica_id: Int32 = field(entity="brokerId", doc="-1 for a client, a broker's id for a follower.")
    isolation_level: Int8 = field("2+")
    topics: list[ListOffsetsTopic] = field()
    timeout_ms: Int32 = field("10+", ignorable=True)


class ListOffsetsTopic(Struct):
    name: str = field(entity="topicName")
    partitions: list[ListOffsetsPartition] = field()


class ListOffsetsPartition(Struct):
    partition_index: Int32 = field()
    current_leader_epoch: Int32 = field("4+", default=-1, ignorable=True)
    timestamp: Int64 = field(
        doc="-1 latest, -2 earliest, -3 largest timestamp, -4 earliest local, -5 latest tiered, -6 earliest "
        "pending upload; else the first offset not before it."
    )


class ListOffsetsResponse(Message, api_key=2, versions="1-11", flexible="6+"):
    """The offset and timestamp found in each partition."""

    throttle_time_ms: Int32 = field("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field()


class ListOffsetsTopicResponse(Struct):
    name: str = field(entity="topicName")
    partitions: list[ListOffsetsPartitionResponse] = field()


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32 = field()
    error_code: Int16 = field()
    timestamp: Int64 = field("1+", default=-1)
    offset: Int64 = field("1+", default=-1, doc="-1 where there is none.")
    leader_epoch: Int32 = field("4+", default=-1)

"""DeleteRecords (key 21): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int16, Int32, Int64, Message, Struct, field


class DeleteRecordsRequest(Message, api_key=21, versions="0-2", flexible="2+"):
    """Delete the records of partitions below an offset."""

    topics: list[DeleteRecordsTopic] = field()
    timeout_ms: Int32 = field()


class DeleteRecordsTopic(Struct):
    name: str = field(entity="topicName")
    partitions: list[DeleteRecordsPartition] = field()


class DeleteRecordsPartition(Struct):
    partition_index: Int32 = field()
    offset: Int64 = field(doc="-1 for the high watermark.")


class DeleteRecordsResponse(Message, api_key=21, versions="0-2", flexible="2+"):
    """The new start of each partition's log."""

    throttle_time_ms: Int32 = field()
    topics: list[DeleteRecordsTopicResult] = field()


class DeleteRecordsTopicResult(Struct):
    name: str = field(map_key=True, entity="topicName")
    partitions: list[DeleteRecordsPartitionResult] = field()


class DeleteRecordsPartitionResult(Struct):
    partition_index: Int32 = field(map_key=True)
    low_watermark: Int64 = field()
    error_code: Int16 = field()

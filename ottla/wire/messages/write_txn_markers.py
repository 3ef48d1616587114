"""WriteTxnMarkers (key 27): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bool, Int8, Int16, Int32, Int64, Message, Struct, field


class WriteTxnMarkersRequest(Message, api_key=27, versions="1-2", flexible="1+"):
    """Write commit or abort markers into partitions; sent by the transaction coordinator."""

    markers: list[WritableTxnMarker] = field()


class WritableTxnMarker(Struct):
    producer_id: Int64 = field(entity="producerId")
    producer_epoch: Int16 = field()
    transaction_result: Bool = field(doc="True for a commit marker, false for an abort marker.")
    topics: list[WritableTxnMarkerTopic] = field()
    coordinator_epoch: Int32 = field()
    transaction_version: Int8 = field("2+", ignorable=True)


class WritableTxnMarkerTopic(Struct):
    name: str = field(entity="topicName")
    partition_indexes: list[Int32] = field()


class WriteTxnMarkersResponse(Message, api_key=27, versions="1-2", flexible="1+"):
    """Whether each marker was written."""

    markers: list[WritableTxnMarkerResult] = field()


class WritableTxnMarkerResult(Struct):
    producer_id: Int64 = field(entity="producerId")
    topics: list[WritableTxnMarkerTopicResult] = field()


class WritableTxnMarkerTopicResult(Struct):
    name: str = field(entity="topicName")
    partitions: list[WritableTxnMarkerPartitionResult] = field()


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: Int32 = field()
    error_code: Int16 = field()

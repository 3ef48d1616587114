"""ShareFetch (key 78): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Bool, Int8, Int16, Int32, Int64, Message, SentRecords, Struct, field


class ShareFetchRequest(Message, api_key=78, versions="1-2", flexible="0+"):
    """Acquire records for a member of a share group, and acknowledge earlier ones."""

    group_id: str | None = field(default=None, entity="groupId")
    member_id: str | None = field()
    share_session_epoch: Int32 = field()
    max_wait_ms: Int32 = field()
    min_bytes: Int32 = field()
    max_bytes: Int32 = field(default=0x7FFF_FFFF)
    max_records: Int32 = field("1+")
    batch_size: Int32 = field("1+")
    share_acquire_mode: Int8 = field("2+", ignorable=True)
    is_renew_ack: Bool = field("2+")
    topics: list[FetchTopic] = field()
    forgotten_topics_data: list[ForgottenTopic] = field()


class FetchTopic(Struct):
    topic_id: Uuid = field(map_key=True)
    partitions: list[FetchPartition] = field()


class FetchPartition(Struct):
    partition_index: Int32 = field(map_key=True)
    partition_max_bytes: Int32 = field("0")
    acknowledgement_batches: list[AcknowledgementBatch] = field()


class AcknowledgementBatch(Struct):
    first_offset: Int64 = field()
    last_offset: Int64 = field()
    acknowledge_types: list[Int8] = field(
        doc="One for each offset, or one for all: 0 gap, 1 accept, 2 release, 3 reject, 4 renew."
    )


class ForgottenTopic(Struct):
    topic_id: Uuid = field()
    partitions: list[Int32] = field()


class ShareFetchResponse(Message, api_key=78, versions="1-2", flexible="0+"):
    """Record batches, with the ranges that were acquired for the member."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)
    acquisition_lock_timeout_ms: Int32 = field("1+")
    responses: list[ShareFetchableTopicResponse] = field()
    node_endpoints: list[NodeEndpoint] = field()


class ShareFetchableTopicResponse(Struct):
    topic_id: Uuid = field(map_key=True)
    partitions: list[PartitionData] = field()


class PartitionData(Struct):
    partition_index: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)
    acknowledge_error_code: Int16 = field()
    acknowledge_error_message: str | None = field(default=None)
    current_leader: LeaderIdAndEpoch = field()
    records: SentRecords | None = field(nullable="0")
    acquired_records: list[AcquiredRecords] = field()


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = field()
    leader_epoch: Int32 = field()


class AcquiredRecords(Struct):
    first_offset: Int64 = field()
    last_offset: Int64 = field()
    delivery_count: Int16 = field()


class NodeEndpoint(Struct):
    node_id: Int32 = field(map_key=True, entity="brokerId")
    host: str = field()
    port: Int32 = field()
    rack: str | None = field(default=None)

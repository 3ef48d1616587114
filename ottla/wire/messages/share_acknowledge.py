"""ShareAcknowledge (key 79): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Bool, Int8, Int16, Int32, Int64, Message, Struct, field


class ShareAcknowledgeRequest(Message, api_key=79, versions="1-2", flexible="0+"):
    """Acknowledge records that a member of a share group has acquired."""

    group_id: str | None = field(default=None, entity="groupId")
    member_id: str | None = field()
    share_session_epoch: Int32 = field()
    is_renew_ack: Bool = field("2+")
    topics: list[AcknowledgeTopic] = field()


class AcknowledgeTopic(Struct):
    topic_id: Uuid = field(map_key=True)
    partitions: list[AcknowledgePartition] = field()


class AcknowledgePartition(Struct):
    partition_index: Int32 = field(map_key=True)
    acknowledgement_batches: list[AcknowledgementBatch] = field()


class AcknowledgementBatch(Struct):
    first_offset: Int64 = field()
    last_offset: Int64 = field()
    acknowledge_types: list[Int8] = field(
        doc="One for each offset, or one for all: 0 gap, 1 accept, 2 release, 3 reject, 4 renew."
    )


class ShareAcknowledgeResponse(Message, api_key=79, versions="1-2", flexible="0+"):
    """Whether each partition's acknowledgements were accepted."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)
    acquisition_lock_timeout_ms: Int32 = field("2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = field()
    node_endpoints: list[NodeEndpoint] = field()


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: Uuid = field(map_key=True)
    partitions: list[PartitionData] = field()


class PartitionData(Struct):
    partition_index: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)
    current_leader: LeaderIdAndEpoch = field()


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = field()
    leader_epoch: Int32 = field()


class NodeEndpoint(Struct):
    node_id: Int32 = field(map_key=True, entity="brokerId")
    host: str = field()
    port: Int32 = field()
    rack: str | None = field(default=None)

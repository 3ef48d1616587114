"""AddOffsetsToTxn (key 25): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int16, Int32, Int64, Message, field


class AddOffsetsToTxnRequest(Message, api_key=25, versions="0-4", flexible="3+"):
    """Add a group's offsets partition to a transaction."""

    transactional_id: str = field(entity="transactionalId")
    producer_id: Int64 = field(entity="producerId")
    producer_epoch: Int16 = field()
    group_id: str = field(entity="groupId")


class AddOffsetsToTxnResponse(Message, api_key=25, versions="0-4", flexible="3+"):
    """Whether the group was added."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()

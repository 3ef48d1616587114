"""AllocateProducerIds (key 67): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int16, Int32, Int64, Message, field


class AllocateProducerIdsRequest(Message, api_key=67, versions="0", flexible="0+"):
    """Ask the controller for a block of producer ids."""

    broker_id: Int32 = field(entity="brokerId")
    broker_epoch: Int64 = field(default=-1)


class AllocateProducerIdsResponse(Message, api_key=67, versions="0", flexible="0+"):
    """The first producer id of the block, and how many there are."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    producer_id_start: Int64 = field(entity="producerId")
    producer_id_len: Int32 = field()

"""InitProducerId (key 22): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bool, Int16, Int32, Int64, Message, field


class InitProducerIdRequest(Message, api_key=22, versions="0-6", flexible="2+"):
    """Ask for a producer id and epoch, which fences older producers of the same transactional id."""

    transactional_id: str | None = field(
        entity="transactionalId", doc="Null for an idempotent producer without transactions."
    )
    transaction_timeout_ms: Int32 = field()
    producer_id: Int64 = field(
        "3+", default=-1, entity="producerId", doc="-1 for a new producer; the current one to go on after an error."
    )
    producer_epoch: Int16 = field("3+", default=-1)
    enable2_pc: Bool = field("6+")
    keep_prepared_txn: Bool = field("6+")


class InitProducerIdResponse(Message, api_key=22, versions="0-6", flexible="2+"):
    """The producer id and epoch."""

    throttle_time_ms: Int32 = field(ignorable=True)
    error_code: Int16 = field()
    producer_id: Int64 = field(default=-1, entity="producerId")
    producer_epoch: Int16 = field()
    ongoing_txn_producer_id: Int64 = field("6+", default=-1, entity="producerId")
    ongoing_txn_producer_epoch: Int16 = field("6+", default=-1)
